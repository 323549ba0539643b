"""Searches whose tuner promotes, in a real dispatcher: tasks end at their limits, and after a kill."""

from functools import partial
from typing import Any

from tests.unit.dispatcher import harness
from tests.unit.dispatcher.test_search_scenarios import folded
from tests.unit.dispatcher.tuner_histories import SPACE, score
from trackside.aggregates.search.messages import AddTrial, TrialEnded, TrialStatus
from trackside.contracts.message import Record
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, MetricReported, TaskStopRequested
from trackside.eventlog.memory import MemoryLog
from trackside.replay.derive.rerun import rerun_command

TUNERS: dict[str, dict[str, Any]] = {
    "asha": {"max_resource": 9, "reduction_factor": 3},
    "hyperband": {"max_resource": 4, "reduction_factor": 2},
    "pbt": {"interval": 2, "population_size": 3},
}


async def started(name: str, **fields: Any) -> MemoryLog:
    tuner = {"name": name, "options": TUNERS[name]}
    return await harness.searching(space=SPACE, tuner=tuner, seed=7, **{"max_trials": 14, **fields})


async def test_a_rerun_has_the_same_trials_which_continue_its_own() -> None:
    log = await started("hyperband")
    await harness.run_to_end(log, score, last=14)
    before = (await folded(log)).trials
    command = rerun_command(await folded(log), "s", 9)
    again = await harness.searching(
        space=SPACE, tuner=command.tuner.model_dump(mode="json"), max_trials=14, concurrency=5
    )
    await harness.run_to_end(again, score, last=14)
    after = (await folded(again)).trials
    assert [(one.parameters, one.from_trial, one.step_limit) for one in after] == [
        (one.parameters, one.from_trial, one.step_limit) for one in before
    ]


async def test_a_trial_of_a_user_has_the_largest_limit_and_no_other_continues_it() -> None:
    log = await started("asha", max_trials=12)
    await harness.publish(log, "s", AddTrial(parameters={"optimizer": "adam"}, tell_tuner=True))
    await harness.run_to_end(log, score, last=12)
    trials = (await folded(log)).trials
    added = [trial for trial in trials if trial.source == "customized"]
    assert [(trial.step_limit, trial.from_trial) for trial in added] == [(9, None)]
    assert added[0].number not in {trial.from_trial for trial in trials}


async def test_a_trial_is_stopped_at_its_limit_and_the_next_one_continues_it() -> None:
    log = await started("pbt", concurrency=1)
    async with harness.dispatcher(log):
        for trial in range(4):
            await harness.until(log, harness.submits(f"s.{trial}"))
            await harness.begin(log, "s", f"s.{trial}")
            token = {"task_id": f"s.{trial}", "attempt": 1, "placement": 1}
            limit = (await folded(log)).trials[trial].step_limit
            assert limit is not None
            for step in range(limit):
                report = MetricReported(kind="PERIODICAL", step=step, value=float(trial), **token)
                await harness.append(log, harness.WORKER, "s", report)
            stops = await harness.until(log, partial(_stops, task_id=f"s.{trial}"))
            assert isinstance(stops.message, TaskStopRequested) and stops.message.reason == "step_limit"
            over = AttemptEnded(incarnation="i1", end=AttemptEnd.CANCELLED, **token)
            await harness.append(log, harness.WORKER, "s", over)
            await harness.until(log, partial(_ends, trial=trial))
    trials = (await folded(log)).trials[:4]
    assert [(trial.status, trial.value) for trial in trials] == [
        (TrialStatus.SUCCEEDED, float(trial.number)) for trial in trials
    ]
    assert [(trial.from_trial, trial.step_limit) for trial in trials[:3]] == [(None, 2)] * 3
    assert (trials[3].from_trial, trials[3].step_limit) == (2, 4)


def _stops(record: Record, task_id: str) -> bool:
    return isinstance(record.message, TaskStopRequested) and record.message.task_id == task_id


def _ends(record: Record, trial: int) -> bool:
    return isinstance(record.message, TrialEnded) and record.message.trial == trial
