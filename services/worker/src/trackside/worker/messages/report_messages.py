"""What a task reports and saves, in messages to its worker and in files; see process_messages."""

from typing import Any, NamedTuple

ReportedValue = float | str | dict[str, Any]
"""A number, or `{"value": number or null, "others": {name: number}}`; nan, inf and -inf are strings."""


class StepReport(NamedTuple):
    """An intermediate value of a trial, reported at `time_ms` since 1970."""

    step: int
    value: ReportedValue
    time_ms: int


class MetricPoint(NamedTuple):
    """A point of a metric, logged at `time_ms` since 1970; nan, inf and -inf are strings."""

    tag: str
    step: int
    time_ms: int
    value: float | str


class ReportBatch(NamedTuple):
    """Intermediate values of the trial."""

    reports: list[StepReport]


class FinalValue(NamedTuple):
    """The final value of the trial."""

    final: ReportedValue


class PointBatch(NamedTuple):
    """Points of metrics."""

    points: list[MetricPoint]


class SummaryValueReport(NamedTuple):
    """A value that is no number, as its SummaryKind has packed it; `item` counts those of a tag and step.

    `body` is the whole value, unless `file` isn't 0: then it is the number of a file in the spool of the
    placement with the value's bytes, and `body` describes them.
    """

    kind: str
    tag: str
    step: int
    time_ms: int
    item: int
    body: dict[str, Any]
    file: int = 0
    sha256: str = ""
    size_bytes: int = 0
    media_type: str = ""


class SummaryOmitted(NamedTuple):
    """A value was left out: its bytes can't be kept here."""

    code: str
    reason: str


class StoredRequest(NamedTuple):
    """The task waits until the bytes of all summaries so far are in the store; requests count from 1."""

    request: int


class StoredAnswer(NamedTuple):
    """The answer to a StoredRequest: the bytes are in the store, or were left out."""

    request: int


class ArtifactReady(NamedTuple):
    """An artifact is in the spool of its placement, where this is its record; see the spool for its content.

    `number` counts what the placement saves from 1. `sha256` and `size_bytes` of a folder are those of its
    reference. `requests` is how many requests for another trial's parameters were answered before, and
    `interrupts` how often training had run out of memory, earlier placements included.

    The record of a checkpoint has what was reported since the one before, and what the training `resumed`
    from, as a CheckpointReference: a worker that is killed may not have sent it. The message has neither.
    """

    number: int
    name: str
    version: int
    kind: str
    sha256: str
    size_bytes: int
    media_type: str
    step: int | None
    metadata: dict[str, Any]
    requests: int
    interrupts: int = 0
    reports: list[StepReport] = []  # noqa: RUF012 - nothing changes it
    resumed: dict[str, Any] | None = None
