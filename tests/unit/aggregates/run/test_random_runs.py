"""Runs of pipelines drawn by chance: their order, their ends, and what all readers agree on."""

import json
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from tests.unit.aggregates.run.drawn import draw
from tests.unit.aggregates.run.given import CAPABILITIES
from tests.unit.aggregates.run.model import final_states
from tests.unit.aggregates.run.order import read
from tests.unit.aggregates.run.rivals import RivalLog, disturbed, undisturbed
from tests.unit.domain.given import STREAM
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Message
from trackside.domain.commands.react import react
from trackside.domain.folding.streams import Streams, dump, load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import shrink
from trackside.domain.tasks.task import TaskState
from trackside.verify.verifier import Verifier

NO_WORKERS = {"INV-3", "INV-4", "INV-5", "INV-7"}
"""The invariants of workers, which there are none of in these logs."""


def check_against_the_model(seed: object) -> None:
    pipeline = draw(seed, limited=False)
    told = undisturbed(pipeline, seed)
    states, status = final_states(pipeline, STREAM)
    found = {name: step.state.value for name, step in told.run.steps.items()}
    assert (found, told.run.status.value) == ({name: states[name] for name in found}, status)
    assert_whole(told)


def assert_whole(told: RivalLog) -> None:
    """Checks that no decision counts in part, and the order of all that counts."""
    assert (told.torn, read(effects(told))) == ([], [])
    assert told.run.unended == told.run.open == 0


def effects(told: RivalLog) -> Iterator[tuple[Message, bool]]:
    """Yields the events of the run's stream that count, each with whether its task has ended with it."""
    streams = Streams(AGGREGATES)
    for record in told.records:
        stream, outcome = streams.fold(record)
        if outcome is Outcome.APPLIED and stream.stream_id == STREAM:
            task = stream.tasks.get(getattr(record.message, "task_id", ""))
            yield record.message, task is not None and task.state is TaskState.ENDED


def assert_readers_agree(told: RivalLog, random: Random) -> None:
    """Checks that readers which forget settled tasks, or begin with a snapshot, fold and decide the same."""
    small, restored = Streams(AGGREGATES), Streams(AGGREGATES)
    for record, outcome in zip(told.records, told.outcomes, strict=True):
        name = record.envelope.stream
        if random.random() < 0.1 and name in restored.by_id:
            restored.by_id[name] = load(pack(restored.by_id[name]), AGGREGATES)
        found, own = small.fold(record)
        assert own is outcome is restored.fold(record)[1], record
        shrink(found)
        if random.random() < 0.1:
            decided = [react(reader.by_id[name], CAPABILITIES, AGGREGATES) for reader in (small, restored)]
            assert decided[0] == decided[1]
    for name, stream in told.streams.by_id.items():
        assert json.loads(dump(restored.by_id[name])) == json.loads(dump(stream))


def assert_verified(told: RivalLog) -> int:
    """Checks that `trackside verify-log` finds nothing in the log; returns how often it looked at a step."""
    verifier = Verifier()
    for record in told.records:
        verifier.take(record)
    findings = [*verifier.finish(), *verifier.findings.open]
    assert [str(each) for each in findings if each.invariant not in NO_WORKERS] == []
    return verifier.findings.checked["INV-11"]


@pytest.mark.thorough
def test_very_many_runs_end_as_the_model_says(seed: int) -> None:
    for number in range(500):
        check_against_the_model(f"{seed}/{number}")


@pytest.mark.thorough
def test_no_step_begins_early_or_twice_and_every_run_ends_whoever_writes_late(seed: int) -> None:
    ends, commands, looks = Counter[str](), Counter[str](), 0
    for number in range(300):
        drawn = f"{seed}/{number}"
        told = disturbed(draw(drawn, limited=True), drawn)
        assert_whole(told)
        assert_readers_agree(told, Random(drawn))
        looks += assert_verified(told)
        ends[told.run.status.value] += 1
        commands.update(type(event).__name__ for event, _ in effects(told))
    assert ends.keys() == {"SUCCEEDED", "FAILED", "ABORTED", "TIMED_OUT"}
    assert [name for name in DRAWN if not commands[name]] == []
    assert looks > 1_000


DRAWN = [
    *["ChildStopRequested", "GateDecided", "RunAbortRequested", "RunArchived", "RunPaused", "RunResumed"],
    *["RunRevived", "RunTimeLimitReached", "RunUpdated", "StepAbortRequested", "StepExpanded"],
    *["StepRepeated", "StepSkipped", "TaskHeld", "TaskReleased", "TaskStopRequested"],
]
