"""A summary job as tests tell of it."""

from typing import Any

from tests.unit.domain.given import Told, accepted, received
from trackside.aggregates.summary.messages import (
    SummarizedTask,
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryFileReplaced,
    SummaryJobFound,
    SummaryJobSpec,
)

A, B = "events.out.tfevents.1.a", "events.out.tfevents.2.b"
TASK = SummarizedTask(stream="s", task="s.1")
DIRECTORY = SummaryJobSpec(base="/data", path="runs/1")


def found(spec: SummaryJobSpec = DIRECTORY) -> Told:
    """Tells of a job that has no files yet."""
    told = Told()
    told.tell(received(), accepted(), SummaryJobFound(command_id="c-1", job=spec))
    return told


def indexed(begin: int, end: int, file: str = A) -> SummaryFileIndexed:
    """Returns that so many bytes of a file are indexed."""
    return SummaryFileIndexed(file=file, begin=begin, end=end, records=1)


def quarantined(offset: int, file: str = A, **more: Any) -> SummaryFileQuarantined:
    """Returns that a file can't be read from there on."""
    given = {"file": file, "offset": offset, "code": "damaged_record", "again_at_ms": 5_000, **more}
    return SummaryFileQuarantined.model_validate(given)


def replaced(number: int, file: str = A) -> SummaryFileReplaced:
    """Returns that a file is another one now."""
    return SummaryFileReplaced(file=file, number=number)
