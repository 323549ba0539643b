"""Summaries: metric points, values of other kinds, and output for looking at, which decide nothing."""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.message import SUMMARY_INDEXER, WORKER, Event, Json, is_absent
from trackside.contracts.tasks.tasks import NonFinite

MAX_TAGS = 10_000
"""How many tags the values of a task, or of a directory with event files, may have; others are left out."""


class Series(BaseModel):
    """Points of one tag as columns of equal length.

    A value that isn't finite is None, and `non_finite` says at its index what it is; older records don't say.
    """

    model_config = ConfigDict(frozen=True)
    tag: str
    steps: list[int]
    times_ms: list[int]
    values: list[float | None]
    non_finite: dict[int, NonFinite] = Field(default={}, exclude_if=is_absent)


class MetricPointsReported(Event):
    """A batch of metric points of one attempt, or of a session of a directory with event files.

    For a directory, `stream` and `task_id` are the id of its job, and `attempt` is the number of the session.
    """

    written_by: ClassVar[frozenset[str]] = WORKER | SUMMARY_INDEXER
    stream: str
    task_id: str
    attempt: int
    series: list[Series]


class ItemArtifact(BaseModel):
    """The bytes of a value in the store of the installation: SHA-256, size in bytes, media type."""

    model_config = ConfigDict(frozen=True)
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size_bytes: Annotated[int, Field(ge=0)]
    media_type: str = ""


class ReportedItem(BaseModel):
    """A value other than a number: an image, a histogram, a text and so on.

    `index` counts the values of one tag and step from 0. `body` is the value in the form of its kind; where
    there is an `artifact`, that is the value, and `body` only describes it.
    """

    model_config = ConfigDict(frozen=True)
    kind: str
    tag: str
    step: int
    time_ms: int
    index: int = 0
    body: Json
    artifact: ItemArtifact | None = Field(default=None, exclude_if=is_absent)


class SummaryItemsReported(Event):
    """Values other than numbers of one attempt, or of a session of a directory: see MetricPointsReported."""

    written_by: ClassVar[frozenset[str]] = WORKER | SUMMARY_INDEXER
    stream: str
    task_id: str
    attempt: int
    items: list[ReportedItem]


class SummariesPurged(Event):
    """The values of a job that the topic has before this record are removed from the read models.

    They stay in the log. Values that come later are shown again.
    """

    written_by: ClassVar[frozenset[str]] = SUMMARY_INDEXER
    stream: str
    task_id: str


class SummaryUpdaterFailed(Event):
    """A function that installed packages run after new values, an updater, has failed; it is run again later.

    `failures` counts its calls that failed since the summary-indexer was started. An updater that keeps
    failing is reported with growing pauses, so not each failure has a record. The time is in ms since 1970.
    """

    written_by: ClassVar[frozenset[str]] = SUMMARY_INDEXER
    name: str
    error: str
    failures: int
    time_ms: int


class OutputWritten(Event):
    """Lines that an attempt wrote to its standard output or error.

    Line numbers count within a placement, from 1. Behind these lines `left_out` more came too fast.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    stream: str
    task_id: str
    attempt: int
    source: Literal["stdout", "stderr"]
    first_line: int
    lines: list[str]
    placement: int = 1
    left_out: int = 0
