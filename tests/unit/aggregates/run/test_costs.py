"""What a decision and a fold cost: as much as they change, however large the run is. Counted, not timed."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tests.unit.aggregates.given import of_kind
from tests.unit.aggregates.run.given import CAPABILITIES, RunLog, started, step
from tests.unit.domain.given import STREAM
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run import messages
from trackside.aggregates.run.rows import GateRows, RunRows, StepRows
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested
from trackside.domain.commands.react import react
from trackside.domain.rows.table import Projection
from trackside.domain.streams.stream import shrink

SMALL, LARGE = 25, 110
FEW = 30
"""How many more calls the same decision may take in a run of four times the size."""


def calls_of(act: Callable[[], Any]) -> int:
    """Returns how many functions are called, those of C too."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def _names(size: int) -> list[str]:
    return [f"s{at}" for at in range(size)]


def _steps(size: int, **fields: Any) -> list[Json]:
    return [step(name, **fields) for name in _names(size)]


def chain(size: int) -> RunLog:
    return started(step("s0"), *(step(f"s{at}", f"s{at - 1}") for at in range(1, size)))


def wide(size: int) -> RunLog:
    return started(*_steps(size))


def running(log: RunLog) -> RunLog:
    for name in log.submitted:
        log.place(name)
    return log


def held(size: int) -> RunLog:
    log = wide(size)
    log.command(messages.PausePipelineRun(running="return"))
    assert len(log.run.held) == size
    return log


def resumed(size: int) -> RunLog:
    log = held(size)
    log.command(messages.ResumePipelineRun())
    assert log.run.held == {}
    return log


def aborting(size: int) -> RunLog:
    log = running(wide(size))
    log.command(messages.AbortPipelineRun())
    assert (len(log.run.steps["s0"].stopping), log.run.ending) == (1, {})
    return log


def aborting_items(size: int) -> RunLog:
    log = running(started(step("s0", each=list(range(size)))))
    log.command(messages.AbortPipelineRun())
    assert (len(log.run.steps["s0"].stopping), log.run.ending) == (size, {})
    return log


def retried(size: int) -> RunLog:
    log = started(step("s0", each=list(range(size))))
    for index in range(size):
        log.finish(f"s0.{index}", end=AttemptEnd.FAILED)
    log.command(messages.RetryFailedSteps())
    return log


CASES: dict[str, tuple[Callable[[int], RunLog], str]] = {
    "a chain": (chain, "s0"),
    "steps side by side": (wide, "s0"),
    "a step that needs all others": (lambda size: started(*_steps(size), step("last", *_names(size))), "s0"),
    "a fan-out": (lambda size: started(step("s0", each=_names(size), at_once=5), step("last", "s0")), "s0.0"),
    "fan-outs at their limits": (lambda size: started(*_steps(size, each=[1, 2, 3], at_once=1)), "s0.0"),
    "a run that was resumed": (resumed, "s0"),
    "a run whose tasks are held": (held, "s0"),
    "a run that is aborted": (aborting, "s0"),
    "a fan-out that is aborted": (aborting_items, "s0.0"),
    "a fan-out that is retried": (retried, "s0.0.g1"),
}


QUICK = ("a chain", "a fan-out", "a fan-out that is aborted")
MARKED = [case if case in QUICK else pytest.param(case, marks=pytest.mark.thorough) for case in CASES]


@pytest.mark.parametrize("case", MARKED)
def test_what_follows_from_the_end_of_a_task_costs_the_same_in_a_run_of_any_size(case: str) -> None:
    make, task = CASES[case]
    counts = []
    for size in (SMALL, LARGE):
        log = make(size)
        log.finish(task)  # caches are warm, and the next task of a chain is there
        other = next(each.task_id for each in log.stream.tasks.values() if each.end is None)
        name = other.removeprefix(f"{STREAM}.")
        counts.append(calls_of(lambda log=log, name=name: log.finish(name)))  # type: ignore[misc]
    assert counts[1] <= counts[0] + FEW, case


@pytest.mark.parametrize("case", MARKED)
def test_a_look_at_a_run_that_lacks_nothing_costs_the_same_in_a_run_of_any_size(case: str) -> None:
    make, _ = CASES[case]
    logs = [make(size) for size in (SMALL, LARGE)]
    counts = [calls_of(lambda log=log: react(log.stream, CAPABILITIES, AGGREGATES)) for log in logs]  # type: ignore[misc]
    assert counts[1] <= counts[0] + FEW, case


def test_an_item_that_was_sent_a_stop_is_not_sent_another() -> None:
    log = running(started(step("s0", each=[1, 2])))
    abort = messages.AbortStep(step="s0", index=0)
    written = [log.command(command) for command in (abort, abort, messages.AbortPipelineRun())]
    stops = [[event.task_id for event in of_kind(TaskStopRequested, events)] for events in written]
    assert stops == [[f"{STREAM}.s0.0"], [], [f"{STREAM}.s0.1"]]


PROJECTIONS: tuple[Projection[Any], ...] = (RunRows(), StepRows(), GateRows())
GATE: Json = {"message": "go?", "form": {}}


def rows_of(log: RunLog) -> dict[tuple[str, tuple[Any, ...]], Any]:
    return {
        (each.table.name, tuple(key)): each.row(log.stream, key)
        for each in PROJECTIONS
        for key in each.keys(log.stream)
    }


def watched(log: RunLog) -> dict[str, int]:
    """Folds a log again; checks that each row that an event changes is touched. Returns how often."""
    again, counts = RunLog(), dict.fromkeys((each.table.name for each in PROJECTIONS), 0)
    before: dict[tuple[str, tuple[Any, ...]], Any] = {}
    for record in log.records:
        again.streams.fold(record)
        now = rows_of(again)
        touched: dict[str, set[tuple[Any, ...]]] = {}
        for each in PROJECTIONS:
            keys = {tuple(key) for key in each.touched(again.stream, record.message)}  # type: ignore[arg-type]
            touched[each.table.name] = keys
            counts[each.table.name] += len(keys)
        for (table, key), row in now.items():
            own = key[: len(next(iter(touched[table]), key))]
            assert before.get((table, key)) == row or own in touched[table], (record.message, table, key)
        before = now
        shrink(again.stream)
    return counts


@pytest.mark.parametrize("action", ["skip", "fail", "continue"])
def test_every_row_that_an_event_changes_is_written(action: str) -> None:
    steps = [
        step("a", on_end=action),
        step("b", "a"),
        step("c", each=[1, 2]),
        step("ask", gate=GATE),
        step("again", "ask", repeat={"until": "result.done", "times": 3}),
    ]
    log = running(started(*steps))
    log.finish("c.0")
    log.finish("a", end=AttemptEnd.FAILED)
    if action != "fail":
        log.command(messages.AbortPipelineRun())
    log.finish("c.1", end=AttemptEnd.CANCELLED)
    assert log.run.over
    log.command(messages.RetryFailedSteps())
    assert watched(log)["gates"] > 0


@pytest.mark.thorough
def test_rows_are_not_written_for_each_event() -> None:
    """That of a run has its definition; the steps of one that is stopped are written once and one by one."""
    log = chain(30)
    for at in range(30):
        log.finish(f"s{at}")
    assert log.run.over
    assert watched(log)["runs"] <= 3
    log = running(wide(30))
    log.command(messages.AbortPipelineRun())
    for at in range(30):
        log.finish(f"s{at}", end=AttemptEnd.CANCELLED)
    assert log.run.over
    events_of_a_step = 8
    assert watched(log)["steps"] <= 30 * (events_of_a_step + 2)
