"""Which tasks settle, and what comes later for one that is forgotten: the same as if it was still there."""

import pytest

from tests.unit.aggregates.batch.test_evolve import finish as finish_in_batch
from tests.unit.aggregates.batch.test_evolve import name, running
from tests.unit.aggregates.batch.test_evolve import task as submitted_in_batch
from tests.unit.domain.given import (
    APPLIED,
    STREAM,
    Told,
    assigned,
    begun,
    ended,
    finish,
    over,
    report,
    search_running,
    submitted,
    suggested,
    task_id,
)
from tests.unit.domain.test_task_reuse import asked, going_on, taken, within
from trackside.aggregates.batch.aggregate import BATCH
from trackside.aggregates.batch.messages import GroupEnded, StopTasks
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.folding.lookup import NO_LOOKUP
from trackside.domain.folding.streams import load, pack
from trackside.domain.streams.stream import shrink


def one_ended(is_newest: bool = False) -> Told:
    """Tells of a search whose first trial has ended; a second one waits unless that is the newest."""
    told = search_running()
    told.tell(suggested(0), submitted(0))
    finish(told, 0, 0.5)
    if not is_newest:
        told.tell(suggested(1), submitted(1))
    return told


def test_a_task_is_forgotten_once_it_and_its_trial_have_ended() -> None:
    told = one_ended()
    shrink(told.stream)
    assert list(told.stream.tasks) == [task_id(1)]
    assert told.stream.is_settled(task_id(0))
    for event in (assigned(1), begun(1), ended(trial=1)):
        told.tell(event)
    shrink(told.stream)
    assert list(told.stream.tasks) == [task_id(1)], "its trial has not ended"
    assert told.tell(over(1, 0.5)) == APPLIED
    shrink(told.stream)
    assert told.stream.tasks == {}


def test_a_task_that_continues_with_other_trials_is_kept_until_it_ends() -> None:
    told = going_on(max_trials=4)
    shrink(told.stream)
    assert told.search.trials[0].reports == [(3, 0.5)]
    until_idle: list[Message] = [report(0, 0.75, requests=1), asked(2), over(1, 0.75)]
    for event in until_idle:
        assert told.tell(event) == APPLIED
        shrink(told.stream)
    assert list(told.stream.tasks) == [task_id(0)], "it is idle"
    lost = load(pack(told.stream), AGGREGATES)
    assert told.tell(within(2)) == told.tell(taken(2)) == told.tell(ended()) == APPLIED
    shrink(told.stream)
    assert list(told.stream.tasks) == [task_id(0)], "its last trial has not ended"
    assert told.tell(over(2)) == APPLIED
    shrink(told.stream)
    assert told.stream.tasks == {}
    told.streams.by_id[STREAM] = lost
    assert told.tell(ended(AttemptEnd.LOST), role="scheduler") == APPLIED
    shrink(told.stream)
    assert told.stream.tasks == {}, "it ended while it was idle"


@pytest.mark.parametrize("is_newest", [False, True])
def test_whatever_comes_later_for_a_forgotten_task_has_no_effect(is_newest: bool) -> None:
    whole, small = one_ended(is_newest), one_ended(is_newest)
    shrink(small.stream)
    late = [submitted(0), assigned(), begun(), report(9, 0.1), ended(), over(0, 0.5), submitted(1)]
    again = submitted(1).model_copy(update={"task_id": task_id(0)})
    for event in (*late, again, assigned(attempt=2), asked(), within(2)):
        before = pack(small.stream)
        assert whole.tell(event) == small.tell(event), event
        if event is not late[-1]:
            assert pack(small.stream) == before, event


def test_a_trimmed_trial_keeps_its_last_finite_report() -> None:
    told = search_running()
    told.tell(suggested(0), submitted(0))
    for event in (assigned(), begun(), report(0, 0.25), report(1, 0.5), report(2, None), ended(), over(0)):
        assert told.tell(event) == APPLIED
    trial = told.search.trials[0]
    assert trial.reports == [(0, 0.25), (1, 0.5), (2, None)]
    before = trial.last_report()
    shrink(told.stream)
    assert trial.reports == trial.last_report() == before == [(1, 0.5)]


def test_what_is_not_the_name_of_a_settled_task_has_not_settled() -> None:
    told = one_ended()
    shrink(told.stream)
    for other in ("00", "-0", "2", "1", "\u0660", "9" * 5_000, "", "x"):
        assert not told.stream.is_settled(f"{STREAM}.{other}")
        assert not told.stream.is_settled(f"another-1.{other}")


def test_a_stop_of_one_task_of_a_batch_is_answered_the_same_if_that_is_forgotten() -> None:
    whole, small = running(2, 1), running(2, 1)
    for told in (whole, small):
        assert told.tell(submitted_in_batch(0, 1)) == told.tell(submitted_in_batch(0, 2)) == APPLIED
        finish_in_batch(told, 0, 1)
        finish_in_batch(told, 0, 2, AttemptEnd.FAILED)
        assert told.tell(GroupEnded(group=0, ends={"finished": 1, "failed": 1})) == APPLIED
    shrink(small.stream)
    assert small.stream.tasks == {}
    stop = BATCH.commands[StopTasks]
    for wanted in ("1", "2", "3", name(0, 1), name(0, 2), name(0, 3), name(1, 1), "another", f"{STREAM}.9.1"):
        found = [stop(told.stream, StopTasks(task=wanted), "c-2", NO_LOOKUP) for told in (whole, small)]
        assert found[0] == found[1]
        if wanted in ("2", name(0, 2)):
            message = f"task {name(0, 2)} is over: failed"
            assert found[1] == Problem(code="already_terminal", path="$.task", message=message)


def test_what_has_not_had_its_turn_in_a_batch_has_not_settled() -> None:
    told = running(3, 1)
    for number in (1, 2):
        assert told.tell(submitted_in_batch(0, number)) == APPLIED
        finish_in_batch(told, 0, number)
    shrink(told.stream)
    assert told.stream.is_settled(name(0, 1)) and told.stream.is_settled(name(0, 2))
    for other in ("1.3", "2.1", "9.1", "0.1", "01.1", "x.1", "1", "1.", ""):
        assert not told.stream.is_settled(f"{STREAM}.{other}")
        assert not told.stream.is_settled(f"another.{other}")
