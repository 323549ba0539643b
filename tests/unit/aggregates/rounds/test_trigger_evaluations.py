"""When the triggers of a job are evaluated and written, and that no time is missed (I7, I10, I13)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import BETTER, JOB, JobLog, condition
from trackside.aggregates.rounds.job.deploy_messages import DeployDecided
from trackside.aggregates.rounds.messages import RoundStarted, StageState, TriggerEvaluated
from trackside.contracts.envelope.message import Json

HOUR_S = 3_600.0
NIGHT: Json = {"type": "daily", "start": "01:00", "end": "02:00", "timezone": "Europe/Berlin"}


def train(trigger: Json | None, check_period_s: float = 0) -> Json:
    given = {} if trigger is None else {"trigger": trigger}
    return {"task_type": "train", "check_period_s": check_period_s, **given}


def evaluated(log: JobLog, stage: str = "train") -> list[tuple[bool, bool]]:
    return [(event.result, event.fired) for event in log.of(TriggerEvaluated) if event.stage == stage]


def times(log: JobLog, stage: str = "train") -> list[str]:
    found = [event for event in log.of(TriggerEvaluated) if event.stage == stage and event.fired]
    return [f"{datetime.fromtimestamp(event.evaluated_ms / 1000, UTC):%m-%d %H:%M}" for event in found]


def test_an_evaluation_is_written_only_on_a_change_or_a_begin(log: JobLog) -> None:
    log.create(train=train(condition("num_of_samples", ">=", 400)))
    for _ in range(49):
        log.append(10)
    assert evaluated(log) == []
    log.append(10)
    assert evaluated(log) == [(True, True)]
    (event,) = log.of(TriggerEvaluated)
    assert event.values["num_of_samples"].value == 400


def test_the_check_period_is_the_least_time_between_two_begins(log: JobLog) -> None:
    """I7: Sedna reads it, and ignores it."""
    log.first_round(train=train(None, check_period_s=600))
    log.next_round()
    assert len(log.of(RoundStarted)) == 1
    log.wait(599)
    log.work()
    assert len(log.of(RoundStarted)) == 1
    log.wait(1)
    log.work()
    assert len(log.of(RoundStarted)) == 2
    fired = [event for event in log.of(TriggerEvaluated) if event.stage == "train" and event.fired]
    first, second = [event.evaluated_ms for event in fired]
    assert second - first == 600_000


def test_the_check_period_is_the_least_time_between_two_deployments(log: JobLog) -> None:
    """I7: what is not deployed is decided at once, and a command does not wait."""
    log.next_accuracy = lambda number: (0.0, 0.6, 0.7, 0.1, 0.8)[number]
    better = condition("accuracy_delta", ">", 0.05)
    log.first_round(train=train(None), deploy={"trigger": better, "check_period_s": 600})
    log.next_round()
    assert [event.deploy for event in log.of(DeployDecided)] == [True]
    log.wait(599)
    assert [event.deploy for event in log.of(DeployDecided)] == [True]
    log.wait(1)
    log.work()
    log.next_round()
    assert [event.deploy for event in log.of(DeployDecided)] == [True, True, False]
    log.next_round()
    assert len(log.of(DeployDecided)) == 3
    log.command(JOB, "trackside.fire-deploy.v1", {})
    assert [event.deploy for event in log.of(DeployDecided)] == [True, True, False, True]


def test_a_window_begins_rounds_by_time_alone(log: JobLog) -> None:
    """I9, I10: a trigger with nothing but a timer."""
    log.create(train=train(NIGHT))
    for _ in range(3):
        log.append(10)
        log.wait(24 * HOUR_S)
        log.work()
    assert times(log) == ["11-15 00:00", "11-16 00:00", "11-17 00:00"]


def test_a_window_without_samples_wakes_a_job_at_its_edges_and_begins_a_round_with_some(log: JobLog) -> None:
    log.create(train=train(NIGHT))
    log.wait(7 * 24 * HOUR_S)
    assert evaluated(log) == [(True, False), (False, False)] * 7
    log.wait(2 * HOUR_S)
    assert log.job.blocked == "no_samples"
    log.append(10)
    assert (evaluated(log)[14:], log.job.blocked) == ([(True, False), (True, True)], "")


@pytest.mark.parametrize("metric", ["seconds_since_last_round", "num_of_new_samples"])
def test_a_round_waits_for_time_or_for_new_samples(log: JobLog, metric: str) -> None:
    wanted = {"seconds_since_last_round": 2 * HOUR_S, "num_of_new_samples": 8}[metric]
    log.create(train=train(condition(metric, ">=", wanted)))
    log.append(5)
    log.work()
    assert not log.of(RoundStarted)
    if metric == "num_of_new_samples":
        log.append(5)
    else:
        log.wait(2 * HOUR_S)
    log.work()
    assert (len(log.of(RoundStarted)), log.of(TriggerEvaluated)[0].values[metric].value) == (1, wanted)


def test_both_of_two_triggers_begin_a_round_when_the_last_of_them_holds_or_either_does(log: JobLog) -> None:
    enough, other = condition("num_of_samples", ">=", 8), JobLog()
    log.create(train=train({"type": "all_of", "triggers": [NIGHT, enough]}))
    log.append(10)
    log.wait(HOUR_S)
    assert evaluated(log) == []
    log.wait(HOUR_S)
    assert times(log) == ["11-15 00:00"]
    parts = [condition("num_of_samples", ">=", 80), {"type": "cron", "cron": "0 23 * * *"}]
    other.create(train=train({"type": "any_of", "triggers": parts}))
    other.append(100)
    other.work()
    other.append(5)
    other.wait(24 * HOUR_S)
    other.work()
    assert times(other) == ["11-14 22:13", "11-14 23:00"]


@pytest.mark.parametrize(
    ("accuracy", "windows", "waits"),
    [
        pytest.param(0.9, [NIGHT], True, id="a better model"),
        pytest.param(0.5, [NIGHT], False, id="a worse model"),
        pytest.param(0.9, [NIGHT, {**NIGHT, "start": "03:00", "end": "04:00"}], False, id="never at once"),
    ],
)
def test_only_a_better_model_waits_for_a_time(log: JobLog, accuracy: Any, windows: Any, waits: bool) -> None:
    log.next_accuracy = lambda number: accuracy
    log.first_round(deploy={"trigger": {"type": "all_of", "triggers": [BETTER, *windows]}})
    assert bool(log.of(DeployDecided)) is not waits
    if waits:
        assert (log.job.stage, log.job.stage_state) == ("deploy", StageState.WAITING)
        log.wait(2 * HOUR_S)
    (decided,) = log.of(DeployDecided)
    assert decided.deploy is waits
