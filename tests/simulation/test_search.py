"""A search through every kind of fault: what the log says at the end must not depend on them."""

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine

import pytest

from tests.simulation.world import TOPICS, FaultyLog, Worker, dispatcher, scheduler
from trackside.contracts.ids import new_id
from trackside.contracts.message import Record
from trackside.contracts.searches import SearchStatus, StartSearch, TrialEnded, TrialStatus
from trackside.contracts.topics import partition_of
from trackside.dispatcher.memories import opened
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.eventlog.author import Author
from trackside.eventlog.decode import decode

TRIALS = 30
KILLS = 6


def search(assessor: bool) -> StartSearch:
    plain = {
        "task_type": "noop",
        "space": {"x": {"type": "uniform", "low": 0.0, "high": 1.0}},
        "tuner": {"name": "random"},
        "assessor": {"name": "median", "options": {"n_startup_trials": 3}} if assessor else None,
        "max_trials": TRIALS,
        "concurrency": 6,
        "retry": {"lost": 100},
    }
    return StartSearch.model_validate(plain)


async def killed_now_and_then(
    work: Coroutine[None, None, None], again: "Again", kills: int, chance: random.Random
) -> None:
    """Runs a service, kills it a few times at any await, and lets the last one live."""
    for _ in range(kills):
        task = asyncio.create_task(work)
        await asyncio.wait([task], timeout=chance.random() * 0.5)
        if task.done():
            task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        work = again()
    await work


class Again:
    """Makes a service anew."""

    def __init__(self, make: object, *arguments: object) -> None:
        self._make = make
        self._arguments = arguments

    def __call__(self) -> Coroutine[None, None, None]:
        assert callable(self._make)
        made: Coroutine[None, None, None] = self._make(*self._arguments)
        return made


async def folded(log: FaultyLog, stream: str) -> tuple[Stream, list[Record]]:
    """Folds the stream's partition until the search is over; gives what was applied."""
    place = (TOPICS.events.name, partition_of(stream, TOPICS.event_partitions))
    reader = log.reader({place: 0})
    streams, applied = Streams(), []
    while True:
        for entry in await reader.read(60.0):
            record = decode(entry)
            assert record is not None
            found, outcome = streams.fold(record)
            if outcome is Outcome.APPLIED:
                applied.append(record)
            if found.closed:
                return found, applied


async def simulate(chance: random.Random, assessor: bool, limit_s: float, rivals: int = 2) -> None:
    """Runs a search through faults and kills, with so many instances of each deciding service.

    AssertionError if the log is wrong at the end, or if there is no end within `limit_s`.
    """
    log = FaultyLog(chance, rate=0.03)
    await log.ensure(TOPICS.shared)
    workers = [Worker(log, f"w{number}", 2, chance) for number in range(2)]
    services = [
        *(Again(dispatcher, log, str(at)) for at in range(rivals)),
        *(Again(scheduler, log, str(at)) for at in range(rivals)),
        *(Again(worker.run) for worker in workers),
    ]
    command = Author("publisher", "test").single("s", search(assessor), message_id=new_id("c"))
    running = [asyncio.create_task(killed_now_and_then(make(), make, KILLS, chance)) for make in services]
    try:
        joined = await log.reader({(TOPICS.fleet.name, 0): 0}).read(10.0)
        assert joined, "no worker joined"
        await log.publish(TOPICS.commands.name, 2, command)
        await log.publish(TOPICS.commands.name, 0, command)
        watched = asyncio.create_task(folded(log, "s"))
        done, _ = await asyncio.wait(
            [watched, *running], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done - {watched}:
            task.result()
        assert watched in done, f"the search did not end; faults so far: {dict(log.faults)}"
        stream, applied = watched.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    assert_right(stream, applied, workers)
    assert sum(log.faults.values()) >= 5, "the faults did not strike"
    assert any(len(task.attempts) > 1 for task in stream.tasks.values()), "no attempt was lost"
    assert stream.last_offset >= len(applied), "nothing was overtaken"


@pytest.mark.parametrize("round_", range(6))
async def test_a_search_ends_right_through_faults_kills_and_rivals(seed: int, round_: int) -> None:
    await simulate(random.Random(f"{seed}/{round_}"), assessor=round_ % 2 == 1, limit_s=60)


def assert_right(stream: Stream, applied: list[Record], workers: list[Worker]) -> None:
    found = stream.search
    assert found is not None
    assert found.status is SearchStatus.DONE
    space = found.spec.model_dump(mode="json")["space"]
    memory = opened(space, {"name": "random"}, found.seed, "maximize")
    assert [trial.parameters for trial in found.trials] == [memory.ask(number) for number in range(TRIALS)]
    ends = Counter(record.message.trial for record in applied if isinstance(record.message, TrialEnded))
    assert ends == Counter(range(TRIALS))
    for task in stream.tasks.values():
        assert [attempt.number for attempt in task.attempts] == list(range(1, len(task.attempts) + 1))
        assert all(attempt.end is not None for attempt in task.attempts)
    for trial in found.trials:
        assert trial.status in (TrialStatus.SUCCEEDED, TrialStatus.EARLY_STOPPED), "nobody asked for this end"
    for worker in workers:
        assert all(count == 1 for count in worker.ran.values()), "a placement ran twice"
