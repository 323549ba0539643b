"""Whole searches through the shipped dispatcher, read off the log: their suggestions are Optuna's, and only
depend on what the log says."""

import json
from collections.abc import Callable
from typing import Any

import optuna
import pytest

from tests.unit.dispatcher import harness
from tests.unit.dispatcher.test_optuna_tuner import NUMERIC, SAMPLERS, alone, draw_all, draw_numbers
from tests.unit.dispatcher.tuner_histories import SPACE, HistoryItem, score
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import TrialSuggested
from trackside.dispatcher.tuners.tuner import suggestion_seed
from trackside.domain.folding.streams import Streams
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Outgoing
from trackside.eventlog.memory import MemoryLog


async def searched(tuner: str, space: dict[str, Any], trials: int, in_flight: int = 1) -> MemoryLog:
    wanted = {"space": space, "tuner": {"name": tuner}, "seed": 7, "max_trials": trials}
    log = await harness.searching(**wanted, concurrency=in_flight)
    async with harness.dispatcher(log), harness.fleet(log, score, in_flight, lambda ids: ids[len(ids) // 2]):
        await harness.until(log, harness.suggests(trials - 1))
    return log


def completed(number: int, parameters: dict[str, Any]) -> HistoryItem:
    return ("ended", number, "complete", score(parameters), ())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("tuner", "space", "draw"),
    [("random", SPACE, draw_all), ("tpe", SPACE, draw_all), ("cma-es", NUMERIC, draw_numbers)],
)
async def test_a_search_suggests_bit_for_bit_what_optuna_alone_does(
    tuner: str, space: dict[str, Any], draw: Callable[[optuna.Trial], None]
) -> None:
    """D33: 100 trials, one at a time, from the command to the log."""
    log = await searched(tuner, space, 100)
    expected = alone(lambda n: SAMPLERS[tuner](seed=suggestion_seed(7, n)), 100, 1, draw, completed)
    assert await harness.suggestions(log, "s") == expected


@pytest.mark.thorough
@pytest.mark.parametrize("tuner", ["random", "tpe", "tpe-multivariate"])
async def test_a_dispatcher_killed_behind_any_event_suggests_next_what_it_would_have(tuner: str) -> None:
    """D29: 60 trials, 4 in flight; a dispatcher that knows only the log begins behind each of its events."""
    log = await searched(tuner, SPACE, 60, 4)
    entries = await harness.written(log)
    expected = await harness.suggestions(log, "s")
    assert len({json.dumps(parameters, sort_keys=True) for parameters in expected}) == 60
    commands = await log.reader(
        {(harness.TOPICS.commands.name, at): 0 for at in range(harness.TOPICS.commands.partitions)}
    ).read(0.0)
    streams, compared = Streams(AGGREGATES), 0
    for place, entry in enumerate(entries):
        record = decode(entry)
        assert record is not None
        stream, _ = streams.fold(record)
        number = None if stream.root is None else stream.root.next_trial
        if number is None:
            continue  # nothing is to be suggested: the next suggestion is requested after a later event
        reborn = await harness.new_log()
        for other in (*commands, *entries[: place + 1]):
            again = Outgoing(other.key, other.value, other.headers)
            await reborn.append(other.topic, other.partition, [again])
        async with harness.dispatcher(reborn):
            found = await harness.until(reborn, harness.is_a(TrialSuggested), place + 1)
        assert isinstance(found.message, TrialSuggested)
        assert (found.message.trial, found.message.parameters) == (number, expected[number])
        compared += 1
    assert compared >= 60
