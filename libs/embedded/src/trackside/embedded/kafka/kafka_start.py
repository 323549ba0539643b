"""A cache with which Kafka starts in half the time: its classes, as Java had loaded them in another run.

Java writes it when a run ends that was begun for that: JEP 483 and JEP 515. It is for one Java and one list
of jars, and Java does without one that doesn't fit. `python -m trackside.embedded.kafka.make_cache`
makes it: the supervisor runs that once, after the first start of a stack, and lets everything else go first.
"""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from trackside.embedded.files import cache_folder
from trackside.embedded.processes import ProcessSpec

NAME = "kafka-start"
MAKER = "trackside.embedded.kafka.make_cache"

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
            argv=[sys.executable, "-m", MAKER],
            log=str(folder / "logs" / f"{NAME}.log"),
            tier=1 + max(each.tier for each in others),
            check="exit",
            optional=True,
        )
    ]
