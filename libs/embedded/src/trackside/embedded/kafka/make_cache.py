"""Makes the cache with which Kafka starts in half the time; run by the supervisor, once."""

import fcntl
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from trackside.embedded.checks import is_responding
from trackside.embedded.files import cache_folder
from trackside.embedded.kafka import kafka
from trackside.embedded.kafka.kafka_start import NAME, cache_file
from trackside.embedded.ports import free_ports
from trackside.embedded.processes import ProcessSpec, spawn

LIMIT_S = 600.0
LOOK_EVERY_S = 0.2
LOWEST_PRIORITY = 19
QUIET = "-Xlog:all=error"
"""Java would warn of each class that it leaves out."""


def make() -> Path | None:
    """Makes the cache with a broker that has no topics; returns it, or None if another process makes one."""
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
            spec, _ = kafka.prepare(home / "kafka", port, controller, print, cluster=kafka.new_id())
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
