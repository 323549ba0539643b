"""What a watcher has reported of its dataset, as the event that follows: it comes from outside. Pure."""

import math
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from trackside.aggregates.dataset.messages import (
    MAX_METRICS,
    DatasetChanged,
    DatasetEnd,
    DatasetObserved,
    DatasetRefused,
    DatasetTruncated,
)
from trackside.aggregates.dataset.state import Dataset
from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.tasks.tasks import Figure
from trackside.domain.tasks.task import Task

MAX_MESSAGE = 1_000
"""How many characters of a watcher's message are kept."""
_LARGEST = 2**53
_DIGITS = frozenset("0123456789abcdef")
_NAMED = ("nan", "inf", "-inf")


def reported_event(dataset: Dataset, watcher: Task) -> Event | None:
    """Returns the event of what a watcher has reported last; None if that is known, or can't be read.

    It reports how far the dataset goes (`end`), which counts once it has acknowledged the end that it was
    given, and what is wrong after it (`problem`).
    """
    said = watcher.attempt.ready
    by = {"attempt": watcher.attempt.number, "placement": watcher.attempt.placement}
    by["watcher"] = dataset.watchers
    end = _further(dataset.end, said.get("end")) if _has_begun(watcher) else None
    if end is not None:
        return DatasetObserved(
            **by,
            begin=dataset.end.lines,
            end=end.lines,
            begin_byte=dataset.end.size,
            end_byte=end.size,
            sha256=end.sha256,
            metrics=dict(_metrics(said.get("metrics"))),
        )
    problem = said.get("problem")
    if problem is None:
        return None
    return _stop(dataset, problem if isinstance(problem, dict) else {"message": problem}, by)


def _has_begun(watcher: Task) -> bool:
    """Returns whether its placement has found what was observed, as the newest instruction has it."""
    given, answer = watcher.instruction, watcher.acknowledgement
    return given is not None and watcher.acknowledged == given.number and answer is not None and answer[0]


def _further(known: DatasetEnd, said: Any) -> DatasetEnd | None:
    """Returns an end that a watcher reports, if it is one and has more samples; each has a byte or more."""
    try:
        end = DatasetEnd.model_validate(said)
    except ValidationError:
        return None
    return end if 0 < end.lines - known.lines <= end.size - known.size else None


def _stop(dataset: Dataset, problem: Json, by: dict[str, int]) -> Event:
    """Returns the event of a problem; one that is not as expected stops the dataset with what is readable."""
    number, code = dataset.stops + 1, problem.get("code")
    size, sha256 = _count(problem.get("size")), problem.get("sha256")
    if code == "truncated" and size is not None and size < dataset.end.size:
        return DatasetTruncated(**by, stop=number, observed_bytes=dataset.end.size, size_bytes=size)
    if code == "changed":
        digest = sha256 if isinstance(sha256, str) and len(sha256) == 64 and set(sha256) <= _DIGITS else ""
        return DatasetChanged(**by, stop=number, observed_sha256=dataset.end.sha256, sha256=digest)
    return DatasetRefused(
        **by,
        stop=number,
        code=code if isinstance(code, str) and is_identifier(code) else "unreadable_report",
        line=_count(problem.get("line")),
        message=str(problem.get("message", ""))[:MAX_MESSAGE],
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def _metrics(said: Any) -> Iterator[tuple[str, Figure]]:
    """Yields the metrics that can be ones, the first of them; numbers that are not finite by their names."""
    usable = [item for item in said.items() if is_identifier(item[0])] if isinstance(said, dict) else []
    for name, value in usable[:MAX_METRICS]:
        if value in _NAMED:
            yield name, value
        elif type(value) is int or type(value) is float:
            yield name, _figure(value)


def _figure(value: int | float) -> Figure:
    try:
        number = float(value)
    except OverflowError:
        return "inf" if value > 0 else "-inf"
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
