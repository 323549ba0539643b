"""The critical path of a run: the steps without whose durations it would have ended earlier. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from trackside.aggregates.run.state import Run
from trackside.domain.display.text import duration
from trackside.domain.pipelines.compiling import needed


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
    path: list[CriticalStep] = []
    last = max(ended.values(), key=lambda found: (found.ended_ms, run.steps[found.step].number), default=None)
    while last is not None:
        path.append(last)
        before = [ended[name] for name in needed(run.spec_of(last.step)) if name in ended]
        last = max(before, key=lambda found: found.ended_ms, default=None)
    return path[::-1]
