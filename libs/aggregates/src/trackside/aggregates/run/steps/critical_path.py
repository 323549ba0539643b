"""The critical path of a run: the steps without whose durations it would have ended earlier. Pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from trackside.aggregates.run.state import Run
from trackside.domain.display.text import duration
from trackside.domain.pipelines.compiling import needed
from trackside.domain.rows.table import ViewRow


class CriticalStep(NamedTuple):
    """A step of the critical path: when it became ready and when it ended, in ms since 1970."""

    step: str
    ready_ms: int
    ended_ms: int

    @property
    def duration_s(self) -> float:
        """How long it took from readiness to its end, with its wait for devices, s."""
        return (self.ended_ms - self.ready_ms) / 1000


SHOWN_STEPS = 6
"""How many steps of a path are shown; of a longer one its ends."""


def path_text(path: Sequence[CriticalStep]) -> str:
    """Returns a critical path as a line: `prepare 2 s > train 1 min > report 0.5 s`."""
    steps = [f"{each.step} {duration(each.duration_s)}" for each in path]
    if len(steps) > SHOWN_STEPS:
        half = SHOWN_STEPS // 2
        steps = [*steps[:half], f"{len(steps) - 2 * half} more", *steps[-half:]]
    return " > ".join(steps) or "no step has ended"


def critical_path(run: Run) -> list[CriticalStep]:
    """Returns the chain of steps up to the one that ended last, each after the last end that it waited for.

    Of a run that goes on: as far as its steps have ended. Steps that were skipped or omitted are no part.
    """
    ended = {
        name: CriticalStep(name, step.ready_ms, step.ended_ms)
        for name, step in run.steps.items()
        if step.over and step.ready_ms and step.ended_ms
    }
    return _path(ended, lambda name: needed(run.spec_of(name)))


def critical_path_of_rows(steps: Iterable[ViewRow]) -> list[CriticalStep]:
    """Returns the critical path of a run from the rows of its steps, in the order of their definition."""
    rows = {row["step"]: row for row in steps}
    ended = {
        name: CriticalStep(name, _ms(row["ready_at"]), _ms(row["ended_at"]))
        for name, row in rows.items()
        if row["ready_at"] is not None and row["ended_at"] is not None
    }
    return _path(ended, lambda name: rows[name]["needs"])


def _path(ended: dict[str, CriticalStep], needs_of: Callable[[str], Iterable[str]]) -> list[CriticalStep]:
    """Returns the path through steps that have ended, which are in the order of their definition."""
    path: list[CriticalStep] = []
    # Of several that ended at the same time, the last one of the definition.
    last = max(reversed(ended.values()), key=lambda found: found.ended_ms, default=None)
    while last is not None:
        path.append(last)
        before = [ended[name] for name in needs_of(last.step) if name in ended]
        last = max(before, key=lambda found: found.ended_ms, default=None)
    return path[::-1]


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
