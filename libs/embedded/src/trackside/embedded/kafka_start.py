"""A cache with which Kafka starts in half the time: its classes, as Java had loaded them in another run.

Java writes it when a run ends that was begun for that: JEP 483 and JEP 515. It is for one Java and one list
of jars, and Java does without one that doesn't fit. `python -m trackside.embedded.kafka_start` makes it: the
supervisor runs that once, after the first start of a stack, and lets everything else go first.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trackside.embedded.checks import is_responding
from trackside.embedded.files import cache_folder
from trackside.embedded.processes import ProcessSpec, spawn

NAME = "kafka-start"
LIMIT_S = 600.0
LOOK_EVERY_S = 0.2
LOWEST_PRIORITY = 19
QUIET = "-Xlog:all=error"
"""Java would warn of each class that it leaves out."""

NO_REPLAY = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-AOTReplayTraining")


def cache_file(java: str, classpath: str) -> Path:
    """Returns where the cache of one Java and one list of jars is, once it is made."""
    found = (Path(java).parent.parent / "lib" / "modules").stat()  # what Java compares, too
    text = f"{found.st_size} {found.st_mtime_ns}\n{classpath}"
    return cache_folder() / NAME / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.aot"


def options(java: str, classpath: str) -> list[str]:
    """Returns the options with which Java uses the cache; none if there is no cache yet.

    It takes the classes from it, and not what had been compiled: that of a broker without records makes the
    first records of this one dearer (docs/performance/costs.md).
    """
    path = cache_file(java, classpath)
    return [f"-XX:AOTCache={path}", *NO_REPLAY] if path.exists() else []


def processes(folder: Path, others: Sequence[ProcessSpec], *, durable: bool) -> list[ProcessSpec]:
    """Returns the process that makes the cache after all others are ready; none if that isn't worth it.

    It isn't without a Kafka, with a cache, and for a stack of tests, which would be over before.
    """
    kafka = next((each for each in others if each.name == "kafka"), None)
    if kafka is None or not durable or any(each.startswith("-XX:AOTCache=") for each in kafka.argv):
        return []
    return [
        ProcessSpec(
            name=NAME,
            argv=[sys.executable, "-m", __name__],
            log=str(folder / "logs" / f"{NAME}.log"),
            tier=1 + max(each.tier for each in others),
            check="exit",
            optional=True,
        )
    ]


def make() -> Path | None:
    """Makes the cache with a broker that has no topics; returns it, or None if another process makes one."""
    from trackside.embedded import kafka  # which asks this module for its options
    from trackside.embedded.installation import new_id
    from trackside.embedded.ports import free_ports

    folder = cache_folder() / NAME
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        home = folder / "making"
        shutil.rmtree(home, ignore_errors=True)  # of a run that was killed
        try:
            port, controller = free_ports(2)
            spec, _ = kafka.prepare(home / "kafka", port, controller, print, cluster=new_id())
            java, *arguments = spec.argv
            path = cache_file(java, arguments[arguments.index("-cp") + 1])
            if not path.exists():
                _run(replace(spec, argv=[java, QUIET, f"-XX:AOTCacheOutput={home / path.name}", *arguments]))
                (home / path.name).replace(path)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    return path


def _run(spec: ProcessSpec) -> None:
    """Starts a broker, and stops it once it answers: Java writes the cache then. Raises TimeoutError."""
    deadline = time.monotonic() + LIMIT_S
    broker = spawn(spec, sys.stderr.fileno())
    try:
        while not is_responding(spec.check, spec.port):
            if broker.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"the broker did not start: {broker.poll()}")
            time.sleep(LOOK_EVERY_S)
        broker.terminate()
        broker.wait(timeout=LIMIT_S)
    finally:
        broker.kill()
        broker.wait()


def main() -> int:
    """Makes the cache; a failure is only shown, for Kafka starts without one, too."""
    os.nice(LOWEST_PRIORITY)
    try:
        made = make()
    except Exception as error:  # noqa: BLE001 - a full disk, a missing jar
        sys.stderr.write(f"Kafka starts without a cache: {error}\n")
    else:
        sys.stderr.write(f"{made or 'another process makes the cache'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
