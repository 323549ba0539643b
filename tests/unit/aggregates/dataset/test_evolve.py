"""The fold of datasets: what comes twice, too late, of another placement, or out of order has no effect."""

import pytest

from tests.unit.aggregates.dataset.given import (
    DatasetLog,
    by,
    digest,
    observed,
    refused,
    registered,
    truncated,
    watched,
)
from tests.unit.domain.given import submitted
from trackside.aggregates.dataset.messages import (
    DatasetChanged,
    DatasetDeleted,
    DatasetPaused,
    DatasetResumed,
    DatasetStatus,
)
from trackside.contracts.fleet import WATCH_DATASET
from trackside.contracts.instructions import InstructionGiven
from trackside.contracts.message import Event
from trackside.contracts.parts import Part
from trackside.contracts.tasks import AttemptEnd, TaskSubmitted
from trackside.domain.outcome import Outcome

APPLIED, DUPLICATE, OVERTAKEN = Outcome.APPLIED, Outcome.DUPLICATE, Outcome.OVERTAKEN
CHANGED = DatasetChanged(**by(), stop=1, observed_sha256=digest(5), sha256=digest(6))
PAUSED, DELETED = DatasetPaused(command_id="c-8", change=1), DatasetDeleted(command_id="c-9", change=1)
RESUMED = DatasetResumed(command_id="c-9", change=1)


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (observed(5, 7), APPLIED),
        (observed(0, 5), DUPLICATE),
        (observed(3, 5), DUPLICATE),
        (observed(6, 7), OVERTAKEN),
        (observed(4, 7), OVERTAKEN),
        (observed(5, 7, begin_byte=49), OVERTAKEN),
        (observed(5, 7, end_byte=51), OVERTAKEN),
        (observed(5, 7, watcher=2), OVERTAKEN),
        (observed(5, 7, attempt=2), OVERTAKEN),
        (observed(5, 7, placement=2), OVERTAKEN),
        (truncated(), APPLIED),
        (truncated(stop=0), DUPLICATE),
        (truncated(stop=2), OVERTAKEN),
        (truncated(observed_bytes=60), OVERTAKEN),
        (truncated(size=50), OVERTAKEN),
        (truncated(size=-1), OVERTAKEN),
        (truncated(placement=2), OVERTAKEN),
        (CHANGED, APPLIED),
        (CHANGED.model_copy(update={"observed_sha256": digest(4)}), OVERTAKEN),
        (CHANGED.model_copy(update={"watcher": 0}), OVERTAKEN),
        (refused(), APPLIED),
        (refused(attempt=0), OVERTAKEN),
        (PAUSED, APPLIED),
        (PAUSED.model_copy(update={"change": 0}), DUPLICATE),
        (PAUSED.model_copy(update={"change": 2}), OVERTAKEN),
        (RESUMED, OVERTAKEN),
        (DELETED, APPLIED),
        (submitted(None), OVERTAKEN),
    ],
)
def test_only_what_follows_has_an_effect(event: Event, outcome: Outcome) -> None:
    log = watched(5)
    before = repr(log.dataset)
    assert log.tell(event) == [outcome]
    assert (repr(log.dataset) != before) == (outcome is APPLIED)


def test_a_stop_counts_once_and_nothing_is_observed_after_it() -> None:
    log = watched(5)
    assert log.tell(truncated()) == [APPLIED]
    assert log.tell(truncated()) == [DUPLICATE]
    assert log.tell(observed(5, 7)) == [OVERTAKEN]
    assert log.tell(refused(stop=2)) == [OVERTAKEN]
    assert log.dataset.status is DatasetStatus.TRUNCATED
    assert log.tell(PAUSED) == [OVERTAKEN]


def test_what_the_watcher_before_has_reported_has_no_effect_after_it_was_resumed() -> None:
    log = watched(5)
    log.tell(PAUSED)
    log.tell(RESUMED.model_copy(update={"change": 2}))
    for late in (observed(5, 7), truncated(), refused()):
        assert log.tell(late) == [OVERTAKEN]


def test_what_the_placement_before_has_reported_counts_until_another_one_was_given_the_end() -> None:
    log = watched(5)
    log.lose()
    assert log.tell(observed(5, 6)) == [APPLIED]
    log.place()
    log.say()
    assert log.tell(observed(6, 7)) == [OVERTAKEN]
    assert log.tell(observed(6, 7, attempt=2)) == [APPLIED]


def test_an_end_that_was_given_too_late_does_not_count() -> None:
    """A dispatcher that has read less gives the placement an end that is known to be an old one."""
    log = watched(5)
    log.lose()
    assert log.tell(observed(5, 6)) == [APPLIED]
    log.place()
    late = {"lines": 5, "size": 50, "sha256": digest(5)}
    given = InstructionGiven(command_id="", task_id="digits-1.watch.1", number=2, body={"end": late})
    assert log.tell(given) == [APPLIED]
    assert log.dataset.told == (0, 0)
    assert log.tell(observed(6, 7, attempt=2)) == [OVERTAKEN]
    [again] = log.say()
    assert isinstance(again, InstructionGiven) and again.body["end"]["lines"] == 6


def _task(number: int, **changed: object) -> TaskSubmitted:
    fields = {
        "task_id": f"digits-1.watch.{number}",
        "task_type": WATCH_DATASET,
        "parameters": {},
        "part": Part(kind="watch", number=number),
    }
    return TaskSubmitted.model_validate(fields | changed)


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (_task(2), APPLIED),
        (_task(1), OVERTAKEN),
        (_task(3), OVERTAKEN),
        (_task(2, task_type="digits"), OVERTAKEN),
        (_task(2, task_id="digits-1.watch.02"), OVERTAKEN),
        (_task(2, part=None), OVERTAKEN),
        (_task(2, part=Part(kind="trial", number=2)), OVERTAKEN),
    ],
)
def test_only_the_next_watcher_may_be_submitted(event: TaskSubmitted, outcome: Outcome) -> None:
    log = _between_watchers()
    assert log.tell(event) == [outcome]


def test_no_watcher_may_be_submitted_while_one_runs_or_none_is_wanted() -> None:
    assert watched().tell(_task(2)) == [OVERTAKEN]
    log = watched()
    log.tell(PAUSED)
    log.settle()
    log.lose(AttemptEnd.CANCELLED)
    assert log.tell(_task(2)) == [OVERTAKEN]


def test_a_watcher_that_has_ended_is_settled_whether_it_is_kept_or_not() -> None:
    log = _between_watchers()
    assert log.dataset.settled == ["digits-1.watch.1"]
    assert log.dataset.has_settled("digits-1.watch.1")
    for name in ("digits-1.watch.2", "digits-1.watch.0", "digits-1.watch.01", "digits-1.other.1", "x"):
        assert not log.dataset.has_settled(name)
    assert not registered().dataset.has_settled("digits-1.watch.1")


def _between_watchers() -> DatasetLog:
    log = watched()
    log.tell(PAUSED)
    log.settle()
    log.lose(AttemptEnd.CANCELLED)
    log.tell(RESUMED.model_copy(update={"change": 2}))
    return log
