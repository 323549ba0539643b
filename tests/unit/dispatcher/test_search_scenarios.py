"""Searches in a real dispatcher: updates of the space, restarts, invalid reports, trials drawn ahead."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.dispatcher import harness
from tests.unit.dispatcher.tuner_histories import SPACE, score
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search import messages
from trackside.aggregates.search.messages import AddTrial, TrialAdded, TrialEnded, TrialSuggested
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.tasks import MetricReported, TaskSubmitted
from trackside.domain.folding.streams import Streams
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog

ODD_REPORTS: list[dict[str, Any]]
ODD_REPORTS = [{"kind": "CUSTOM"}, {"value": [0.5]}, {"step": "first"}, {"value": {"default": {}}}]


def counted(below: int) -> dict[str, Any]:
    return {"n": {"type": "randint", "low": 0, "high": below}}


async def folded(log: MemoryLog) -> Search:
    streams = Streams(AGGREGATES)
    for record in await harness.decoded(log):
        streams.fold(record)
    search = search_of(streams.by_id["s"])
    assert search is not None
    return search


async def test_d9_what_a_search_begins_with_is_known_before_its_first_suggestion() -> None:
    """D9: imported results and first trials are part of the command."""
    past = [{"parameters": {"n": 1}, "value": 5.0}]
    wanted = {"tuner": {"name": "grid"}, "seed": 7, "max_trials": 2, "concurrency": 1}
    log = await harness.searching(space=counted(3), past=past, first=[{"n": 0}], **wanted)
    await harness.run_to_end(log, lambda p: float(p["n"]))
    trials = (await folded(log)).trials
    begun = [(trial.parameters, trial.source) for trial in trials]
    assert begun == [({"n": 0}, "customized"), ({"n": 2}, "algorithm")]


async def test_d12_each_suggestion_says_which_version_of_the_space_it_is_of() -> None:
    """D12: suggestions before an update of the space do not change, those after it are in it."""
    log = await harness.searching(space=counted(8), tuner={"name": "random"}, seed=7, max_trials=6)
    async with harness.dispatcher(log):
        await harness.until(log, harness.submits("s.0"))
        other = {"n": {"type": "randint", "low": 100, "high": 108}}
        await harness.publish(log, "s", messages.UpdateSearchSpace.model_validate({"space": other}))
        await harness.until(log, harness.is_a(messages.SearchSpaceUpdated))
        async with harness.fleet(log, lambda p: float(p["n"])):
            await harness.until(log, harness.is_a(messages.SearchEnded))
    found = await harness.messages(log, messages.TrialSuggested)
    assert [(one.trial, one.space_version) for one in found] == [(0, 1), *((n, 2) for n in range(1, 6))]
    assert [one.parameters["n"] >= 100 for one in found] == [False, *[True] * 5]
    assert [trial.space_version for trial in (await folded(log)).trials] == [1, 2, 2, 2, 2, 2]


async def test_d15_a_report_of_a_kind_that_nobody_knows_is_passed_over_and_stops_nobody() -> None:
    """D15: nor does one whose value is a list, or whose sequence is a text."""
    log = await harness.searching(space=counted(9), tuner={"name": "random"}, seed=7, max_trials=2)
    async with harness.dispatcher(log):
        await harness.until(log, harness.submits("s.0"))
        await harness.begin(log, "s", "s.0")
        token: dict[str, Any] = {"task_id": "s.0", "attempt": 1, "placement": 1}
        token |= {"kind": "PERIODICAL", "step": 0, "value": 0.5}
        good = harness.WORKER.single("s", MetricReported.model_validate(token))
        for odd in ODD_REPORTS:
            octets = json.dumps(token | odd).encode()
            await log.append(*harness.EVENTS, [Outgoing(good.key, octets, good.headers)])
        await harness.end(log, "s", "s.0", 0.75)
        await harness.until(log, harness.suggests(1))
    search = await folded(log)
    assert (search.trials[0].status, search.trials[0].value) == (messages.TrialStatus.SUCCEEDED, 0.75)
    assert search.trials[0].reports == []


async def test_d20_a_trial_that_began_under_another_dispatcher_ends_and_teaches_the_tuner() -> None:
    """D20, D29: the next suggestion is the one that a dispatcher which lived on would have made."""
    tuner = {"name": "tpe", "options": {"n_startup_trials": 1}}
    found = []
    for killed in (False, True):
        log = await harness.searching(space=SPACE, tuner=tuner, seed=7, max_trials=2)
        async with harness.dispatcher(log):
            first = await harness.until(log, harness.submits("s.0"))
            assert isinstance(first.message, TaskSubmitted)
            await harness.begin(log, "s", "s.0")
            if not killed:
                await harness.end(log, "s", "s.0", score(first.message.parameters))
                await harness.until(log, harness.suggests(1))
        if killed:
            await harness.end(log, "s", "s.0", score(first.message.parameters))
            async with harness.dispatcher(log):
                await harness.until(log, harness.suggests(1))
        said = await harness.messages(log)
        ends = [(one.status, one.value) for one in said if isinstance(one, messages.TrialEnded)]
        assert ends == [(messages.TrialStatus.SUCCEEDED, score(first.message.parameters))]
        found.append(await harness.suggestions(log, "s"))
    assert found[0] == found[1]


async def test_d30_trials_that_end_out_of_order_keep_their_own_parameters() -> None:
    log = await harness.searching(space=SPACE, tuner={"name": "random"}, seed=7, max_trials=12, concurrency=4)
    await harness.run_to_end(log, score, last=12, in_flight=4, order=lambda ids: ids[-1])
    search = await folded(log)
    assert search.ends != sorted(search.ends)
    assert [trial.value for trial in search.trials] == [score(trial.parameters) for trial in search.trials]


@pytest.mark.parametrize("tuner", ["random", "tpe"])
async def test_d33_no_two_trials_are_equal_across_a_restart_and_another_space(tuner: str) -> None:
    """D33: nothing is suggested twice, also after a restart and an update of the space."""
    log = await harness.searching(space=counted(4), tuner={"name": tuner}, seed=7, max_trials=99)
    async with harness.dispatcher(log), harness.fleet(log, lambda p: float(p["n"])):
        await harness.until(log, harness.suggests(1))
    async with harness.dispatcher(log):
        wider = messages.UpdateSearchSpace.model_validate({"space": counted(7)})
        await harness.publish(log, "s", wider, "another")
        await harness.publish(log, "s", messages.UpdateSearch(concurrency=2), "faster")
        await harness.until(log, harness.is_a(messages.SearchSpaceUpdated))
        await harness.until(log, harness.is_a(messages.SearchUpdated))
        done = len(await harness.written(log))
        async with harness.fleet(log, lambda p: float(p["n"]), last=99):
            await harness.until(log, harness.is_a(messages.SearchExhausted), done)
    found = [parameters["n"] for parameters in await harness.suggestions(log, "s")]
    assert sorted(found) == list(range(7))
    assert (await folded(log)).status in (
        messages.SearchStatus.TUNER_NO_MORE_TRIAL,
        messages.SearchStatus.DONE,
    )


TRIALS = 12
FINITE = {"layers": {"type": "randint", "low": 0, "high": 40}}


class BatchLog(MemoryLog):
    """A log that knows which events were appended together: the first offset of the batch of each."""

    def __init__(self) -> None:
        super().__init__()
        self.batch_of: dict[int, int] = {}

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        appended = await super().append(topic, partition, batch)
        if topic == harness.TOPICS.events.name:
            offsets = range(appended.offset, appended.offset + len(batch))
            self.batch_of |= dict.fromkeys(offsets, appended.offset)
        return appended


async def searching(tuner: dict[str, Any], space: dict[str, Any], **fields: Any) -> BatchLog:
    log = BatchLog()
    await harness.add_worker(log)
    await harness.start_search(log, "s", space=space, tuner=tuner, seed=7, max_trials=TRIALS, **fields)
    return log


async def searched(tuner: dict[str, Any], space: dict[str, Any], **fields: Any) -> BatchLog:
    log = await searching(tuner, space, **fields)
    await harness.run_to_end(log, score)
    return log


async def together(log: BatchLog) -> list[int]:
    """Returns the trials that were suggested and submitted in the batch of the end of another one."""
    batches: dict[type[Message], set[int]] = {TrialEnded: set(), TaskSubmitted: set()}
    suggested: dict[int, int] = {}
    for record in await harness.decoded(log):
        batch = log.batch_of[record.offset]
        batches.setdefault(type(record.message), set()).add(batch)
        if isinstance(record.message, TrialSuggested):
            suggested[record.message.trial] = batch
    whole = batches[TrialEnded] & batches[TaskSubmitted]
    return [trial for trial, batch in suggested.items() if batch in whole]


@pytest.mark.parametrize(
    ("tuner", "space"),
    [
        ({"name": "random"}, SPACE),
        ({"name": "qmc"}, {"x": {"type": "uniform", "low": 0, "high": 1}}),
        ({"name": "grid"}, FINITE),
        ({"name": "batch", "options": {"sets": [{"layers": at} for at in range(TRIALS)]}}, FINITE),
    ],
)
async def test_the_next_trial_comes_with_the_end_before(tuner: dict[str, Any], space: dict[str, Any]) -> None:
    assert await together(await searched(tuner, space)) == list(range(1, TRIALS))


async def test_nothing_is_drawn_ahead_by_a_tuner_that_learns_or_of_an_end_that_may_reach_the_goal() -> None:
    assert await together(await searched({"name": "tpe"}, SPACE)) == []
    log = await searched({"name": "random"}, SPACE, goal=-1e9)
    assert await together(log) == []
    assert len(await harness.suggestions(log, "s")) == 1


async def test_a_trial_that_a_user_adds_comes_before_the_one_that_was_drawn_ahead() -> None:
    space = {**FINITE, "rate": {"type": "uniform", "low": 0, "high": 1}}
    log = await searching({"name": "random"}, space)
    async with harness.dispatcher(log):
        await harness.until(log, harness.suggests(0))
        await harness.begin(log, "s", "s.0")
        await harness.publish(log, "s", AddTrial(parameters={"layers": 3}))
        await harness.until(log, harness.is_a(TrialAdded))
        await harness.end(log, "s", "s.0", 1.0)
        added = await harness.until(log, harness.suggests(1))
        await harness.begin(log, "s", "s.1")
        await harness.end(log, "s", "s.1", 1.0)
        after = await harness.until(log, harness.suggests(2))
    assert isinstance(added.message, TrialSuggested) and isinstance(after.message, TrialSuggested)
    assert (added.message.source, added.message.parameters["layers"]) == ("customized", 3)
    assert after.message.source == "algorithm"
