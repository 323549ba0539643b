"""A week of a feed, a sample a minute, in virtual time: rounds at night, twice the same."""

from dataclasses import astuple
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.unit.aggregates.rounds.given import JobLog
from tests.unit.aggregates.rounds.random_job import assert_in_one_place, assert_valid
from trackside.aggregates.rounds.messages import RoundStarted, TriggerEvaluated
from trackside.contracts.message import Message
from trackside.domain.task import Task

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY_MS = int(datetime(2026, 3, 23, 12, tzinfo=BERLIN).timestamp() * 1000)
"""Noon of the Monday before the clocks go forward."""
MINUTES = 7 * 24 * 60
TASK_MINUTES = 45
"""How long each task of a stage runs."""
ATNIGHT = {
    "type": "all_of",
    "triggers": [
        {"type": "condition", "metric": "num_of_samples", "operator": ">=", "threshold": 500},
        {"type": "daily", "start": "22:00", "end": "06:00", "timezone": "Europe/Berlin"},
    ],
}


def week() -> JobLog:
    """Returns the log of a week in which a sample arrives each minute, and each task takes its time."""
    log = JobLog(now_ms=MONDAY_MS)
    log.next_accuracy = lambda number: 0.5 + number / 10
    log.create(
        train={"task_type": "train", "trigger": ATNIGHT},
        deploy={"services": [{"name": "api", "task_type": "serve"}]},
    )
    ends: dict[str, int] = {}
    for minute in range(1, MINUTES + 1):
        due_ms, next_ms = log.next_due_ms(), log.now_ms + 60_000
        if due_ms is None or due_ms > next_ms:
            log.now_ms = next_ms
        else:
            log.wait(60)
        log.append(1)
        while any(work(log, task, ends, minute) for task in log.tasks()):
            pass
    return log


def work(log: JobLog, task: Task, ends: dict[str, int], minute: int) -> bool:
    """Lets a task do what it does next, those of stages once their time is over; returns whether it did."""
    stage = task.task_type in ("train", "evaluate")
    return ends.setdefault(task.task_id, minute + TASK_MINUTES * stage) <= minute and log.do(task)


def told(log: JobLog) -> list[Any]:
    """Returns all that the log says."""
    return [astuple(record) for record in log.records]


def of(log: JobLog, kind: type[Message]) -> list[datetime]:
    """Returns when events of a kind were written, in Berlin."""
    times = [record.append_time_ms for record in log.records if isinstance(record.message, kind)]
    return [datetime.fromtimestamp(each / 1000, UTC).astimezone(BERLIN) for each in times]


def test_a_week_of_a_feed_has_a_round_each_night_and_is_twice_the_same() -> None:
    log = week()
    assert told(week()) == told(log)
    fired = [event for event in log.of(TriggerEvaluated) if event.fired and event.stage == "train"]
    assert [event.round for event in fired] == list(range(1, len(fired) + 1))
    started = [f"{each:%d %H:%M}" for each in of(log, RoundStarted)]
    assert started == ["23 22:25", *(f"{day} 22:00" for day in range(24, 30))], "500 of 625 samples train"
    assert [event.train for event in log.of(RoundStarted)][:2] == [(0, 625), (625, 2_039)]
    assert log.job.live.version == 8
    assert_valid(log)
    assert_in_one_place(log)
