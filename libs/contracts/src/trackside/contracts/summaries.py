"""Summaries: metric points and output for looking at, which decide nothing."""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from trackside.contracts.message import WORKER, Event


class Series(BaseModel):
    """Points of one tag as columns of equal length; a value that isn't finite is None."""

    model_config = ConfigDict(frozen=True)
    tag: str
    steps: list[int]
    times_ms: list[int]
    values: list[float | None]


class MetricPointsReported(Event):
    """A batch of metric points of one attempt."""

    written_by: ClassVar[frozenset[str]] = WORKER
    stream: str
    task_id: str
    attempt: int
    series: list[Series]


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
