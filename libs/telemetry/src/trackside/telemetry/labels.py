"""The labels of metrics, each with the values that it can have.

Where the values are an enumeration of the code they are listed, so that every series exists at 0 before its
first event. A value outside of the list, such as a code of a user's plugin, is counted as `other`: what users
name can't add series. The names of statuses and reasons are repeated here because this package is below those
that define them; tests/house compares them.
"""

from dataclasses import dataclass
from typing import Final, Literal

from trackside.contracts.envelope.refusals import (
    ARTIFACT_CODES,
    DEAD_LETTER_CODES,
    REFUSAL_CODES,
    TASK_REFUSAL_CODES,
)
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.contracts.trust.trust import DISTRUST

OTHER: Final = "other"
"""The value of a label in place of one that is not listed."""


@dataclass(frozen=True, slots=True)
class MetricLabel:
    """One label: `values` lists what it can be, or is empty where a process learns it when it starts.

    `means` says what the value is. `bounded`: values that are not listed become `other`.
    """

    name: str
    means: str
    values: tuple[str, ...] = ()
    bounded: bool = True


def _open(name: str, means: str) -> MetricLabel:
    return MetricLabel(name, means, bounded=False)


TOPIC: Final = _open("topic", "a topic of the log, with its prefix")
FOLDER: Final = _open("folder", "a folder whose disk is watched")
DEVICE: Final = _open("device", "the id of a device of the worker")
JOB: Final = _open("job", "the id of an incremental job")
OWNER: Final = _open("projection", "the service that writes the read models")
TABLE: Final = _open("projection", "a table of the read models")
SERVICE: Final = _open("service", "the role of the process")
VERSION: Final = _open("version", "the version of Trackside")
PYTHON: Final = _open("python", "the version of Python")
STAGE: Final = _open("stage", "the stage of the job")
STAGE_STATE: Final = _open("state", "the state of the stage")
MODEL: Final = _open("model", "which model of the job")
METRIC: Final = _open("metric", "the name of a metric of the job")

COMMAND_TYPE: Final = MetricLabel("type", "the wire type of a command that this release knows")
TUNER: Final = MetricLabel("tuner", "a tuner that is installed, or built in")

VERDICT: Final = MetricLabel("verdict", "why the event had no effect", ("duplicate", "overtaken", "parked"))
DEAD_LETTER_CODE: Final = MetricLabel("reason", "the code of a dead letter", (*DEAD_LETTER_CODES, OTHER))
REFUSAL_CODE: Final = MetricLabel("code", "the code of a refusal", (*REFUSAL_CODES, OTHER))
SEARCH_END: Final = MetricLabel(
    "status", "the status of a search that has ended", ("DONE", "STOPPED", "ERROR")
)
TRIAL_END: Final = MetricLabel(
    "status",
    "the status of a trial that has ended",
    ("SUCCEEDED", "FAILED", "USER_CANCELED", "SYS_CANCELED", "EARLY_STOPPED"),
)
IGNORED_REASON: Final = MetricLabel(
    "reason", "why the report had no effect", ("late", "stale", "repeat", "foreign", "orphan")
)
DISTRUST_REASON: Final = MetricLabel(
    "reason",
    "why the signature does not count",
    DISTRUST,
)
LANE: Final = MetricLabel("lane", "an advisor process", ("tuner", "assessor", "own-tuner", "own-assessor"))
WAIT_REASON: Final = MetricLabel(
    "reason",
    "why the task waits: a free device fits it now; a live device fits it, and is taken; it pauses before "
    "its next try; no live worker can ever run it; a disk is nearly full",
    ("device_free", "device_busy", "retry", "unschedulable", "disk_low"),
)
WORKER_STATE: Final = MetricLabel("state", "the state of a worker", ("present", "left", "lost"))
RETURN_CAUSE: Final = MetricLabel(
    "cause", "why the task was queued again", ("preempted", "lost", "refused", "recalled")
)
ATTEMPT_END: Final = MetricLabel("status", "how the attempt ended", tuple(end.value for end in AttemptEnd))
RESOURCE: Final = MetricLabel("resource", "the memory that was used up", ("host", "device"))
TASK_REFUSAL_CODE: Final = MetricLabel(
    "code", "the code of a refusal by a worker", (*TASK_REFUSAL_CODES, OTHER)
)
UPLOAD_CODE: Final = MetricLabel("code", "the code of an error of the store", (*ARTIFACT_CODES, OTHER))
SUMMARY_CODE: Final = MetricLabel(
    "code",
    "why the bytes were not stored",
    (*ARTIFACT_CODES, "bad_summary", "spool_full", "too_many_tags", OTHER),
)
COMMAND_ANSWER: Final = MetricLabel(
    "answer",
    "what became of the command; `unanswered`: no answer in time, or no Kafka",
    ("accepted", "refused", "unanswered"),
)
CACHED: Final = MetricLabel("cached", "whether the curve was in memory", ("yes", "no"))


MetricKind = Literal["counter", "gauge", "histogram"]

CALLS: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Buckets of what is over within seconds: appends, transactions, suggestions."""
HOPS: Final = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
"""Buckets of what a service promises a time for: 0.5 s, 1 s and 5 s are bounds."""
MINUTES: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0)
"""Buckets of starts and uploads."""
DAYS: Final = (
    0.005,
    0.02,
    0.1,
    0.5,
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    900.0,
    3_600.0,
    14_400.0,
    86_400.0,
    604_800.0,
)
"""Buckets of tasks and trials: of milliseconds, or of a week."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `buckets` are the upper bounds of a histogram, in the unit that the name ends with.

    `of` are its labels with their values.
    """

    name: str
    kind: MetricKind
    help: str
    of: tuple[MetricLabel, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """Returns the name as Prometheus has it, without the `_total` that it adds to a counter."""
        return self.name.replace(".", "_")

    @property
    def owner(self) -> str:
        """Returns the package that counts it, such as `scheduler`."""
        return self.name.split(".")[1]

    @property
    def labels(self) -> tuple[str, ...]:
        """Returns the names of its labels."""
        return tuple(label.name for label in self.of)
