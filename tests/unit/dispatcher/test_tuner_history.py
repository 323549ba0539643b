"""The history that a tuner receives is the same at any time, and append-only."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.domain.given import (
    Told,
    assigned,
    begun,
    ended,
    finish,
    interrupted,
    over,
    report,
    search_running,
    status,
    submitted,
    suggested,
    task_active,
)
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import Assessor, TrialStatus
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStatus
from trackside.dispatcher.advice.tuner_history import HistoryItem, TunerHistory, ended_item
from trackside.domain.folding.streams import load, pack

TRIALS = 12


def tell(told: Told, *messages: Message) -> Told:
    """Tells messages one by one."""
    for message in messages:
        told.tell(message)
    return told


def past_of(told: Told, trial: int) -> list[Any]:
    return [item[:2] for item in TunerHistory().until(told.search, trial)]


def lived(seed: int, concurrency: int) -> tuple[Told, dict[int, list[HistoryItem]]]:
    """Runs a search whose trials end in any order; returns the history for each trial at the time."""
    random, told = Random(seed), search_running(max_trials=TRIALS, concurrency=concurrency)
    history, at_the_time = TunerHistory(), {}
    while told.search.next_trial is not None or told.search.active:
        number = told.search.next_trial
        if number is not None and (not told.search.active or random.random() < 0.6):
            at_the_time[number] = list(history.until(told.search, number))
            told.tell(suggested(number), submitted(number))
        else:
            trial = random.choice(sorted(told.search.active))
            finish(told, trial, random.random(), random.choice([AttemptEnd.FINISHED, AttemptEnd.FAILED]))
    return told, at_the_time


@pytest.mark.thorough
@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_the_past_of_a_trial_only_grows_whenever_it_is_told(seed: int, concurrency: int) -> None:
    told, at_the_time = lived(seed, concurrency)
    assert sorted(at_the_time) == list(range(TRIALS))
    for number, then in at_the_time.items():
        assert TunerHistory().until(told.search, number) == then
        if number:
            before = at_the_time[number - 1]
            assert then[: len(before)] == before
            assert ("suggested", number - 1, {"lr": (number - 1) / 10}) in then
    whole = TunerHistory().until(told.search, TRIALS - 1)
    assert [item[1] for item in whole if item[0] == "suggested"] == list(range(TRIALS - 1))
    ends = [item[1] for item in whole if item[0] == "ended"]
    assert ends == told.search.ends[: len(ends)]


def test_a_trial_is_told_the_ends_that_the_log_had_when_its_slot_opened() -> None:
    told = search_running(concurrency=2)
    told.tell(suggested(0), submitted(0))
    told.tell(suggested(1), submitted(1))
    finish(told, 1, 0.5)
    finish(told, 0, 0.6)
    before = [("suggested", 0), ("suggested", 1), ("ended", 1)]
    assert past_of(told, 2) == before
    told.tell(suggested(2), submitted(2))
    assert past_of(told, 3) == [*before, ("suggested", 2), ("ended", 0)]


def test_how_a_trial_ended_is_said_in_the_tuner_s_words_and_the_last_value_of_a_stopped_may_count() -> None:
    ends = [(TrialStatus.SUCCEEDED, 0.5, "complete"), (TrialStatus.EARLY_STOPPED, 0.25, "pruned")]
    failed = [TrialStatus[name] for name in ("SUCCEEDED", "FAILED", "USER_CANCELED", "SYS_CANCELED")]
    for outcome, value, state in [*ends, *((each, None, "failed") for each in failed)]:
        told = tell(task_active(), report(1, 0.25), report(2, None), ended(), over(0, value, outcome))
        assert ended_item(told.search.trials[0]) == ("ended", 0, state, value, [(1, 0.25)])
    cases = ((True, 0.25, "complete"), (False, 0.25, "pruned"), (True, None, "pruned"))
    for counts, value, expected in cases:
        told = task_active(assessor=Assessor(count_last_value=counts))
        tell(told, report(1, 0.25), ended(), over(0, value, TrialStatus.EARLY_STOPPED))
        told.tell(suggested(1), submitted(1))
        asked = [("suggested", 0, {"lr": 0.0}), ("suggested", 1, {"lr": 0.1})]
        item = ("ended", 0, expected, value, [(1, 0.25)])
        assert TunerHistory().until(told.search, 2) == [*asked, item]


def test_d18_an_assessor_is_told_reports_new_attempts_and_ends_in_the_order_of_the_log() -> None:
    told = task_active(assessor=Assessor())
    told.tell(report(1, 0.1))
    told.tell(ended(AttemptEnd.LOST), role="scheduler")
    told.tell(suggested(1), submitted(1))
    repeat = report(1, 0.5, 1)
    tell(told, assigned(1), begun(1), report(1, None, 1), repeat, ended(trial=1), over(1, None))
    feed = [(0, 1, 0.1), (0, None, None), (1, 1, None), (1, "SUCCEEDED", None)]
    assert told.stream.root.assessor_feed == feed
    assert load(pack(told.stream), AGGREGATES).root.assessor_feed == feed
    told = tell(task_active(), report(1, 0.1), ended(), over(0, 0.1))
    assert told.stream.root.assessor_feed == []


def test_an_attempt_that_trains_again_after_an_interrupt_restarts_the_past_of_its_trial() -> None:
    told = task_active(assessor=Assessor())
    tell(told, status(TaskStatus.TRAINING), report(1, 0.1), interrupted())
    again = (status(TaskStatus.TRAINING, interrupts=1), report(1, 0.2, interrupts=1))
    tell(told, *again, begun())  # a repeat, which changes nothing
    assert told.stream.root.assessor_feed == [(0, 1, 0.1), (0, None, None), (0, 1, 0.2)]
