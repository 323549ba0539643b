"""Schedules of pipelines: cron in a time zone, one run at a time, and times that were missed (P41)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.aggregates.given import problems, react, refusal
from tests.unit.aggregates.pipeline.given import ask, begun, define, do, end, pipeline, run
from tests.unit.domain.given import STREAM, Told
from trackside.aggregates.pipeline.aggregate import PIPELINE
from trackside.aggregates.pipeline.firing import schedules
from trackside.aggregates.pipeline.messages import RetirePipeline, RunNumbered
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    GRACE_MS,
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    ScheduleArmed,
    ScheduleFired,
    UpdateSchedule,
)
from trackside.aggregates.pipeline.schedule.schedule_state import Schedule
from trackside.contracts.envelope.message import Event, Json, Record
from trackside.contracts.streams.children import ChildRequested
from trackside.domain.outcome import Outcome

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
BEGAN_MS = int(datetime(2026, 3, 2, 12, 30, tzinfo=UTC).timestamp() * 1000)
"""A Monday."""
NAME = "nightly"


@dataclass
class TimedLog(Told):
    time_ms: int = BEGAN_MS

    def fold(self, record: Record) -> Outcome:
        record.offset, record.append_time_ms = self.next_offset, self.time_ms
        self.next_offset += 1
        _, outcome = self.streams.fold(record)
        self.records.append(record)
        self.outcomes.append(outcome)
        return outcome

    def wait_until(self, time_ms: int, ahead_ms: int = 0) -> list[Event]:
        """Lets time pass; returns what counts of what a dispatcher does, whose clock may be ahead."""
        self.time_ms = time_ms
        found: list[Event] = []
        while True:
            new = list(self._due(ahead_ms))
            found += new + react(self)
            if not new:
                return found

    def _due(self, ahead_ms: int) -> Iterator[Event]:
        for proposal in PIPELINE.due(self.stream, self.time_ms + ahead_ms):
            if set(self.tell(*proposal.events, role="dispatcher")) == {Outcome.APPLIED}:
                yield from proposal.events


def scheduled(cron: str = "0 * * * *", **more: Any) -> TimedLog:
    told = TimedLog()
    define(told)
    do(told, CreateSchedule, {"name": NAME, "schedule": {"cron": cron, **more}})
    react(told)
    return told


def schedule(told: Told) -> Schedule:
    return pipeline(told).schedules[NAME]


def spec(**more: Any) -> Json:
    return {"name": NAME, "schedule": {"cron": "0 * * * *", **more}}


def runs(events: list[Event]) -> list[int]:
    return [event.number for event in events if isinstance(event, RunNumbered)]


def hours(ms: int | None) -> float | None:
    return None if ms is None else (ms - BEGAN_MS) / HOUR


def test_a_run_begins_at_its_time_with_what_the_schedule_says() -> None:
    told = scheduled(parameters={"seed": 11}, overrides={"train": {"queue": "gpu"}}, seed=3, use_cache=False)
    assert PIPELINE.next_due_ms(told.stream) == schedule(told).due_ms == BEGAN_MS + HOUR // 2
    assert told.wait_until(BEGAN_MS + HOUR // 2 - 1) == []
    fired, numbered, *after = told.wait_until(BEGAN_MS + HOUR // 2)
    assert isinstance(fired, ScheduleFired) and isinstance(numbered, RunNumbered)
    assert (fired.fire, fired.run, hours(fired.due_ms)) == (1, f"{STREAM}.1", 0.5)
    assert (numbered.parameters, numbered.seed, numbered.use_cache) == ({"seed": 11}, 3, False)
    assert [type(event) for event in after] == [ScheduleArmed, ChildRequested]
    (asked,) = (event for event in after if isinstance(event, ChildRequested))
    assert asked.body["origin"]["schedules"] == [f"{STREAM}/{NAME}"]
    assert (asked.body["overrides"], hours(schedule(told).due_ms)) == ({"train": {"queue": "gpu"}}, 1.5)


def test_a_dispatcher_whose_clock_is_ahead_begins_no_run_early_and_misses_none() -> None:
    told = scheduled()
    assert (told.wait_until(BEGAN_MS, ahead_ms=5 * HOUR), schedule(told).fires) == ([], 0)
    assert runs(told.wait_until(BEGAN_MS + HOUR // 2, ahead_ms=5 * HOUR)) == [1]
    told = scheduled(catch_up="latest")
    events = told.wait_until(BEGAN_MS + HOUR // 2 + MINUTE // 2, ahead_ms=5 * HOUR)
    assert [hours(event.due_ms) for event in events if isinstance(event, ScheduleFired)] == [0.5]


def test_what_two_dispatchers_write_for_one_time_counts_once_and_two_schedules_have_a_run_each() -> None:
    told = scheduled()
    do(told, CreateSchedule, {"name": "other", "schedule": {"cron": "0 * * * *"}})
    react(told)
    told.time_ms = BEGAN_MS + HOUR // 2
    known = pipeline(told).schedules
    one, other = [schedules.fire_events(pipeline(told), each, due_ms=each.due_ms) for each in known.values()]
    assert set(told.tell(*one, role="dispatcher")) == {Outcome.APPLIED}
    assert Outcome.APPLIED not in told.tell(*one, role="dispatcher")
    assert set(told.tell(*other, role="dispatcher")) == {Outcome.OVERTAKEN}  # it has the same number
    assert (pipeline(told).numbered, runs(told.wait_until(told.time_ms))) == (1, [2])
    assert [each.fires for each in known.values()] == [1, 1]


def test_no_run_begins_while_one_of_the_schedule_is_open() -> None:
    """P41: single instance; a run that a user asked for doesn't count."""
    told = scheduled()
    run(told)
    assert runs(told.wait_until(BEGAN_MS + HOUR // 2)) == [2]
    fired, *_ = told.wait_until(BEGAN_MS + HOUR * 3 // 2)
    assert isinstance(fired, ScheduleFired)
    assert (fired.run, fired.skipped) == ("", "schedule_busy")
    assert (schedule(told).fires, schedule(told).skips, schedule(told).last_run) == (2, 1, f"{STREAM}.2")
    end(told, 2)
    assert runs(told.wait_until(BEGAN_MS + HOUR * 5 // 2)) == [3]


def test_a_run_waits_for_the_one_before_if_it_is_to_be_queued_and_not_if_runs_may_overlap() -> None:
    told = scheduled(overlap="queue")
    assert begun(told, told.wait_until(BEGAN_MS + HOUR // 2)) == [1]
    late = told.wait_until(BEGAN_MS + HOUR * 3 // 2)
    assert (runs(late), begun(told, late)) == ([2], [])
    run(told)  # a run of a user doesn't wait behind it
    assert begun(told, react(told)) == [3]
    end(told, 1)
    assert begun(told, react(told)) == [2]
    told = scheduled(overlap="allow")
    told.wait_until(BEGAN_MS + HOUR // 2)
    assert begun(told, told.wait_until(BEGAN_MS + HOUR * 3 // 2)) == [2]


def test_missed_times_are_caught_up_with_as_the_schedule_says() -> None:
    """P41: the dispatcher was down from before 13:00 until 18:45."""
    for catch_up, until_ms, expected, next_hour in (
        ("none", 6 * HOUR + 15 * MINUTE, [], 6.5),
        ("latest", 6 * HOUR + 15 * MINUTE, [5.5], 6.5),
        ("all", 6 * HOUR + 15 * MINUTE, [0.5, 1.5, 2.5, 3.5, 4.5, 5.5], 6.5),
        ("none", HOUR // 2 + GRACE_MS, [0.5], 1.5),  # a little late is not missed
    ):
        told = scheduled(catch_up=catch_up, overlap="allow")
        events = told.wait_until(BEGAN_MS + until_ms)
        assert [hours(event.due_ms) for event in events if isinstance(event, ScheduleFired)] == expected
        assert hours(schedule(told).due_ms) == next_hour


def test_only_the_newest_of_many_missed_times_are_caught_up_with() -> None:
    told = scheduled("* * * * *", catch_up="all", overlap="allow")
    events = told.wait_until(BEGAN_MS + 400 * DAY)
    fired = [event.due_ms for event in events if isinstance(event, ScheduleFired)]
    assert fired == [BEGAN_MS + 400 * DAY - minute * MINUTE for minute in range(99, -1, -1)]


def test_a_schedule_that_is_paused_begins_no_run_and_catches_up_with_nothing() -> None:
    told = scheduled(catch_up="all")
    do(told, PauseSchedule, {"name": NAME, "reason": "holidays"})
    assert do(told, PauseSchedule, {"name": NAME}) == []
    assert PIPELINE.next_due_ms(told.stream) is None
    assert told.wait_until(BEGAN_MS + DAY) == []
    do(told, ResumeSchedule, {"name": NAME})
    assert (do(told, ResumeSchedule, {"name": NAME}), runs(told.wait_until(BEGAN_MS + DAY))) == ([], [])
    assert hours(schedule(told).due_ms) == 24.5


def test_a_schedule_is_fired_by_hand_also_while_it_is_paused() -> None:
    told = scheduled()
    do(told, PauseSchedule, {"name": NAME})
    fired, numbered = do(told, FireSchedule, {"name": NAME})
    assert isinstance(fired, ScheduleFired) and isinstance(numbered, RunNumbered)
    assert (fired.due_ms, fired.run) == (None, f"{STREAM}.1")
    assert refusal(ask(told, FireSchedule, {"name": NAME}))[:2] == ("schedule_busy", "$.name")
    react(told)
    end(told, 1)
    assert len(do(told, FireSchedule, {"name": NAME})) == 2


def test_a_schedule_that_is_updated_has_another_time() -> None:
    told = scheduled()
    assert do(told, UpdateSchedule, spec()) == []
    told.time_ms += 10 * MINUTE
    do(told, UpdateSchedule, spec(cron="15 * * * *"))
    react(told)
    assert (hours(schedule(told).due_ms), told.wait_until(BEGAN_MS + HOUR // 2)) == (0.75, [])


def test_a_schedule_that_is_deleted_or_whose_pipeline_is_retired_is_gone() -> None:
    told = scheduled()
    do(told, DeleteSchedule, {"name": NAME})
    assert PIPELINE.next_due_ms(told.stream) is None
    assert refusal(ask(told, FireSchedule, {"name": NAME}))[:2] == ("unknown_schedule", "$.name")
    do(told, CreateSchedule, spec())  # its name is free
    react(told)
    assert (schedule(told).fires, hours(schedule(told).due_ms)) == (0, 0.5)
    assert refusal(ask(told, CreateSchedule, spec()))[:2] == ("already_exists", "$.name")
    do(told, RetirePipeline)
    assert told.wait_until(BEGAN_MS + DAY) == []
    assert refusal(ask(told, CreateSchedule, spec()))[0] == "already_terminal"
    define(told)
    assert refusal(ask(told, FireSchedule, {"name": NAME}))[:2] == ("unknown_schedule", "$.name")


def test_a_schedule_whose_parameters_no_longer_fit_says_why_it_begins_no_run() -> None:
    told = scheduled(parameters={"seed": 11})
    define(told, parameters={"seed": {"type": "string", "default": "a"}})
    fired, *_ = told.wait_until(BEGAN_MS + HOUR // 2)
    assert isinstance(fired, ScheduleFired)
    assert (fired.run, fired.skipped) == ("", "bad_parameters")
    assert schedule(told).message
    assert hours(schedule(told).due_ms) == 1.5


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"cron": "0 0 31 2 *"}, ("bad_cron", "$.schedule.cron")),
        ({"cron": "0 0 30 2 *"}, ("bad_cron", "$.schedule.cron")),
        ({"cron": "61 * * * *"}, ("bad_cron", "$.schedule.cron")),
        ({"cron": "* * * * * *"}, ("bad_cron", "$.schedule.cron")),
        ({"cron": "every day"}, ("bad_cron", "$.schedule.cron")),
        ({"timezone": "Europe/Bärlin"}, ("unknown_value", "$.schedule.timezone")),
        ({"timezone": "../../etc/passwd"}, ("unknown_value", "$.schedule.timezone")),
        ({"cron": None}, ("missing_field", "$.schedule.cron")),
        ({"version": 9}, ("unknown_pipeline_version", "$.schedule.version")),
        ({"parameters": {"seed": "x"}}, ("bad_parameters", "$.schedule.parameters.seed")),
        ({"overrides": {"trian": {}}}, ("unknown_step", "$.schedule.overrides.trian")),
    ],
)
def test_a_schedule_that_can_not_work_is_refused_and_a_good_one_accepted(given: Json, expected: Any) -> None:
    told = define(TimedLog())
    assert problems(ask(told, CreateSchedule, spec(**given))) == [expected]
    do(told, CreateSchedule, spec())
    assert problems(ask(told, UpdateSchedule, spec(**given))) == [expected]


def test_a_pipeline_has_so_many_schedules_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    told = scheduled()
    monkeypatch.setattr(schedules, "MAX_SCHEDULES", 1)
    wanted = {"name": "other", "schedule": {"cron": "0 * * * *"}}
    assert refusal(ask(told, CreateSchedule, wanted))[:2] == ("too_many_schedules", "$.name")
    do(told, DeleteSchedule, {"name": NAME})
    do(told, CreateSchedule, wanted)
