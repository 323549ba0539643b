"""The verdict about a trial's last report does not race with the end of its task, whichever comes first."""

import asyncio
from random import Random
from typing import Any, Literal

import pytest

from tests.unit.dispatcher import harness
from trackside.aggregates.search.messages import TrialEnded
from trackside.contracts.message import Record
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, MetricReported, TaskStopRequested
from trackside.eventlog.decode import decode
from trackside.eventlog.memory import MemoryLog

THRESHOLD = {"name": "threshold", "options": {"lower": 0.5}}
HYPERBAND = {"name": "hyperband", "options": {"min_resource": 1, "max_resource": 9, "reduction_factor": 3}}
First = Literal["verdict", "final value", "end"]
Ended = tuple[str, float | None]


class GatedAssessor(harness.LocalAdvisor):
    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def request(self, *asked: Any, **more: Any) -> Any:
        await self.gate.wait()
        return await super().request(*asked, **more)


async def report(log: MemoryLog, trial: int, step: int, value: float, final: bool = False) -> None:
    kind = "FINAL" if final else "PERIODICAL"
    token = {"task_id": f"s.{trial}", "attempt": 1, "placement": 1}
    fields = token | {"kind": kind, "step": step, "value": value}
    await harness.append(log, harness.WORKER, "s", MetricReported.model_validate(fields))


async def finish(log: MemoryLog, trial: int, end: AttemptEnd) -> None:
    token = {"task_id": f"s.{trial}", "attempt": 1, "placement": 1, "incarnation": "i1"}
    await harness.append(log, harness.WORKER, "s", AttemptEnded.model_validate(token | {"end": end}))


async def end_of(log: MemoryLog, trial: int) -> Ended:
    found = await harness.until(
        log, lambda record: isinstance(record.message, TrialEnded) and record.message.trial == trial
    )
    assert isinstance(found.message, TrialEnded)
    return found.message.status.value, found.message.value


async def start(log: MemoryLog, assessor: dict[str, Any], trials: int = 1) -> None:
    """Starts a search of one trial at a time, and its first one."""
    space = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
    fields: dict[str, Any] = {"max_trials": trials, "concurrency": 1, "direction": "maximize", "seed": 7}
    await harness.start_search(log, "s", space=space, assessor=assessor, **fields)
    await harness.until(log, harness.suggests(0))
    await harness.begin(log, "s", "s.0")


@pytest.mark.parametrize("first", ["verdict", "final value", "end"])
async def test_a_trial_rejected_at_its_last_report_is_stopped_early_whatever_is_first(first: First) -> None:
    log, assessor = await harness.new_log(), GatedAssessor()
    async with harness.dispatcher(log, assessor=assessor):
        await start(log, THRESHOLD)
        await report(log, 0, 1, 0.9)
        await report(log, 0, 2, 0.3)
        if first != "verdict":
            await report(log, 0, 2, 0.8, final=True)
        if first == "end":
            await finish(log, 0, AttemptEnd.FINISHED)
        assessor.gate.set()
        if first != "end":
            await harness.until(log, harness.is_a(TaskStopRequested))
            await finish(log, 0, AttemptEnd.CANCELLED)
        assert await end_of(log, 0) == ("EARLY_STOPPED", 0.3)


@pytest.mark.parametrize("slow", [False, True])
async def test_a_trial_that_is_kept_at_its_last_report_succeeds_with_its_final_value(slow: bool) -> None:
    log, assessor = await harness.new_log(), GatedAssessor()
    async with harness.dispatcher(log, assessor=assessor):
        await start(log, THRESHOLD)
        if not slow:
            assessor.gate.set()
        await report(log, 0, 1, 0.9)
        await report(log, 0, 1, 0.1, final=True)
        await finish(log, 0, AttemptEnd.FINISHED)
        assessor.gate.set()
        assert await end_of(log, 0) == ("SUCCEEDED", 0.1)


async def test_a_trial_that_went_on_after_its_verdict_has_the_value_of_the_report_that_was_rejected() -> None:
    log, assessor = await harness.new_log(), GatedAssessor()
    async with harness.dispatcher(log, assessor=assessor):
        await start(log, THRESHOLD)
        for step, value in enumerate((0.9, 0.3, 0.7, 0.2)):
            await report(log, 0, step, value)
        assessor.gate.set()
        await harness.until(log, harness.is_a(TaskStopRequested))
        await report(log, 0, 4, 0.95)
        await finish(log, 0, AttemptEnd.CANCELLED)
        assert await end_of(log, 0) == ("EARLY_STOPPED", 0.3)


async def test_a_verdict_that_was_lost_with_its_dispatcher_still_decides_and_no_other_is_waited_for() -> None:
    log = await harness.new_log()
    async with harness.dispatcher(log, assessor=GatedAssessor()):
        await start(log, THRESHOLD)
        await report(log, 0, 1, 0.3)
        await report(log, 0, 1, 0.8, final=True)
        await finish(log, 0, AttemptEnd.FINISHED)
    async with harness.dispatcher(log):
        assert await end_of(log, 0) == ("EARLY_STOPPED", 0.3)
    log = await harness.new_log()
    async with harness.dispatcher(log, assessor=GatedAssessor()):
        await start(log, THRESHOLD)
        await report(log, 0, 0, 0.2, final=True)
        await finish(log, 0, AttemptEnd.FINISHED)
        assert await end_of(log, 0) == ("SUCCEEDED", 0.2)


async def run_trial(log: MemoryLog, assessor: GatedAssessor, trial: int, chance: Random) -> Ended:
    """Runs a trial of nine reports; the assessor is now and then slower than the next report, or the end."""

    def stops(record: Record) -> bool:
        message = record.message
        return isinstance(message, TaskStopRequested) and message.task_id == f"s.{trial}"

    for step in range(1, 10):
        await report(log, trial, step, (trial * 7 % 5) / 5 + step / 100)
        assessor.gate.clear() if chance.random() < 0.5 else assessor.gate.set()
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
        if any(record is not None and stops(record) for record in map(decode, await harness.written(log))):
            await finish(log, trial, AttemptEnd.CANCELLED)
            break
    else:
        await report(log, trial, 9, 1.0, final=True)
        await finish(log, trial, AttemptEnd.FINISHED)
    assessor.gate.set()
    return await end_of(log, trial)


@pytest.mark.thorough
async def test_hyperband_ends_the_same_trials_in_the_same_way_however_late_its_verdicts_are() -> None:
    found = []
    for seed in range(6):
        log, assessor, chance = await harness.new_log(), GatedAssessor(), Random(seed)
        async with harness.dispatcher(log, assessor=assessor):
            await start(log, HYPERBAND, trials=10)
            ends = []
            for trial in range(10):
                if trial:
                    await harness.until(log, harness.suggests(trial))
                    await harness.begin(log, "s", f"s.{trial}")
                ends.append(await run_trial(log, assessor, trial, chance))
            found.append(ends)
    assert all(ends == found[0] for ends in found)
    assert {status for status, _ in found[0]} == {"SUCCEEDED", "EARLY_STOPPED"}
