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
