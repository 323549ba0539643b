"""Real processes are killed while a search runs; at the end it is as if nobody had touched it.

`make chaos` runs more of it: TRACKSIDE_CHAOS_RUNS searches, each with a seed of its own and more faults; and
as many more in which TRACKSIDE_CHAOS_FAULTS come about one a second, whatever the last one has left.
"""

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.chaos import faults, noticing, proofs
from tests.chaos.faults import Fault
from tests.chaos.history import PATIENCE_S, History
from tests.chaos.proxy import Proxy, port_of_broker
from tests.chaos.scene import SLOTS, Scene, folders_of, started
from tests.chaos.storm import Storm
from trackside.contracts.resources import Retry, RetryPolicy
from trackside.contracts.search_space import Choice, Uniform
from trackside.contracts.searches import SearchSpec, StartSearch, Tuner
from trackside.contracts.topics import Topics
from trackside.embedded import stack
from trackside.embedded.ports import free_ports
from trackside.embedded.stack import Stack
from trackside.eventlog.kafka import KafkaLog
from trackside.sdk import Client
from trackside.sdk.publication import Accepted

LONG_RUNS = int(os.environ.get("TRACKSIDE_CHAOS_RUNS", "0"))
TRIALS = 30
LONG_ROUNDS = 2
STORM_FAULTS = int(os.environ.get("TRACKSIDE_CHAOS_FAULTS", "100"))
MANY_FAULTS = 100
"""After so many an attempt was repeated, and an event ignored."""
SEARCH_ID = "chaos"


@pytest.fixture
def running(tmp_path: Path, leash: Path) -> Iterator[Stack]:
    """Gives a stack of the test's own; the client's own words about a broker that is gone are not shown."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    folder = tmp_path / ".trackside"
    yield started(folder, leash)
    stack.stop(folder)


@pytest.mark.timeout(1_800)
async def test_a_search_survives_the_kill_of_anything(running: Stack, seed: int) -> None:
    chance = random.Random(seed)
    chosen = [*faults.EACH, chance.choice(faults.ANY_MOMENT)]
    chance.shuffle(chosen)
    await survives(running, seed, chosen, TRIALS)


@pytest.mark.skipif(not LONG_RUNS, reason="long; `make chaos` runs it")
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("number", range(LONG_RUNS))
async def test_a_long_search_survives_many_kills(running: Stack, seed: int, number: int) -> None:
    chance = random.Random(seed + number)
    chosen = [*faults.EACH, *faults.HARSH, *faults.ANY_MOMENT] * LONG_ROUNDS
    chance.shuffle(chosen)
    await survives(running, seed + number, chosen, 2 * len(chosen))


@pytest.fixture
def proxied(tmp_path: Path, leash: Path) -> Iterator[tuple[Stack, Proxy]]:
    """Gives a stack of the test's own whose services reach the broker through a proxy."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    folder = tmp_path / ".trackside"
    with Proxy(free_ports(1)[0], lambda: port_of_broker(folder)) as proxy:
        yield started(folder, leash, proxy.address), proxy
        stack.stop(folder)


@pytest.mark.skipif(not LONG_RUNS, reason="long; `make chaos` runs it")
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("number", range(LONG_RUNS))
async def test_a_search_survives_a_fault_a_second(
    proxied: tuple[Stack, Proxy], seed: int, number: int
) -> None:
    running, proxy = proxied
    trials = STORM_FAULTS // 2 + 2 * SLOTS
    async with scene_of(running, seed + number) as scene:
        with told(scene, seed + number):
            scene.rise(0)
            publication = await scene.client.publish(search(seed + number, trials), SEARCH_ID)
            assert isinstance(await scene.client.answer(publication, PATIENCE_S), Accepted)
            await scene.filled()
            storm = Storm(scene, proxy)
            try:
                await storm.rage(STORM_FAULTS)
            finally:
                await storm.calm()
            scene.say(f"calm after {storm.counts}")
            await scene.until("all programs are ready", lambda: everything_is_ready(running))
            scene.rise(trials - scene.tide)
            for number_ended in range(1, trials + 1):
                await scene.history.until(f"{number_ended} ends", lambda n=number_ended: ended(scene) >= n)  # type: ignore[misc]
            await prove(scene, trials, harmed=STORM_FAULTS >= MANY_FAULTS)
    stack.stop(running.folder)
    assert proofs.processes_in(running.folder) == []


def ended(scene: Scene) -> int:
    """Counts the trials that have ended."""
    assert scene.history.search is not None
    return sum(trial.ended_at >= 0 for trial in scene.history.search.trials)


def everything_is_ready(running: Stack) -> bool:
    """Says whether every program of a stack runs."""
    return all(
        one.state in ("ready", "ended") for one in stack.load(running.folder).status.processes.values()
    )


async def survives(running: Stack, seed: int, chosen: list[Fault], trials: int) -> None:
    """Runs a search, commits the faults one after the other, and proves that it shows nowhere."""
    async with scene_of(running, seed) as scene:
        with told(scene, seed):
            scene.rise(0)
            publication = await scene.client.publish(search(seed, trials), SEARCH_ID)
            assert isinstance(await scene.client.answer(publication, PATIENCE_S), Accepted)
            for fault in chosen:
                await scene.filled()
                scene.say(fault.__name__)
                await fault(scene)
            assert scene.tide < trials - SLOTS, "the search is too short for its faults"
            scene.rise(trials - scene.tide)
            stream = await scene.client.wait(SEARCH_ID, timeout_s=10 * PATIENCE_S)
            assert stream.closed
            await prove(scene, trials)
    stack.stop(running.folder)
    assert proofs.processes_in(running.folder) == []


async def prove(scene: Scene, trials: int, *, harmed: bool = True) -> None:
    """Checks everything that must be so at the end; `harmed` says that the faults must show in the log."""
    history = scene.history
    published = [await sending for sending in scene.published]
    commands = {publication.stream_id for publication in published}
    await history.until(
        "answers to all commands",
        lambda: all(
            stream_id in history.streams.by_id and not history.streams.by_id[stream_id].unanswered
            for stream_id in commands
        ),
    )
    await history.until("the end of the search", lambda: history.streams.by_id[SEARCH_ID].closed)
    proofs.each_trial_ended_once(history, trials)
    if harmed:
        proofs.something_was_at_stake(history)
    proofs.each_attempt_ran_once_at_most(scene)
    proofs.each_publication_was_answered(history, published)
    scene.say_what_ended_of_itself()
    await proofs.topics_are_those_that_are_declared(scene.running.bootstrap_servers)
    await proofs.rows_are_what_the_log_says(scene.log, scene.topics, scene.running.postgres_dsn)


@asynccontextmanager
async def scene_of(running: Stack, seed: int) -> AsyncIterator[Scene]:
    """Gives a scene that reads the log for as long as the block runs."""
    topics = Topics()
    async with (
        KafkaLog(running.bootstrap_servers, client_id="chaos") as log,
        Client(running.bootstrap_servers, name="chaos") as client,
        asyncio.TaskGroup() as group,
    ):
        history = History(log, topics, SEARCH_ID)
        following = group.create_task(history.follow())
        with noticing.changes_of(folders_of(running.folder)) as changed:
            chance = random.Random(seed)
            yield Scene(running, history, log, client, topics, SEARCH_ID, chance, group, changed)
        following.cancel()


@contextmanager
def told(scene: Scene, seed: int) -> Iterator[None]:
    """Adds to any failure what was done before it, and what the services said."""
    try:
        yield
    except BaseException as error:
        logs = (scene.running.folder / "logs").glob("*.log")
        said = [f"--- {log.name}\n{said_by(log)}" for log in sorted(logs)]
        error.add_note("\n".join([*said, f"seed {seed}; faults, at seconds:", *scene.chronicle]))
        raise
    finally:
        print("\n".join([f"seed {seed}; faults, at seconds:", *scene.chronicle]))  # noqa: T201


def said_by(log: Path) -> str:
    """Gives the end of what a program said, without what its Kafka client says again and again."""
    lines = log.read_text("utf-8", "replace").splitlines()
    return "\n".join([line for line in lines if '"aiokafka' not in line][-20:])


def search(seed: int, trials: int) -> StartSearch:
    """Gives the command of a search of short trials, which may be lost as often as it takes."""
    spec = SearchSpec(
        task_type="short",
        space={
            "value": Uniform(type="uniform", low=0.0, high=1.0),
            "seconds": Choice(type="choice", values=[0.1, 0.2, 0.3]),
        },
        tuner=Tuner(name="random"),
        max_trials=trials,
        concurrency=SLOTS,
        seed=seed,
        retry=RetryPolicy(lost=Retry(times=100), failed=Retry(times=100)),
    )
    return StartSearch(**spec.model_dump())
