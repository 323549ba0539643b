"""Real processes are killed while a search runs; at the end the results are as without faults.

`make test` kills a process of each kind once. `make long` makes every aimed fault, and random faults, about
one a second, without waiting for recovery. One of these runs beside busy loops, and its log is verified again
and again while it grows. `tests/chaos/settings.py` says how to have more of them, and how on secure stacks,
where there are no faults of the network.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.chaos import assertions, faults
from tests.chaos.faults import Fault
from tests.chaos.harness import SLOTS, ChaosHarness, start_stack, watched_files, watched_folders
from tests.chaos.history import TIMEOUT_S, History
from tests.chaos.processes import processes_in
from tests.chaos.proxy import Proxy, port_of_broker
from tests.chaos.random_faults import RandomFaults, pause
from tests.chaos.settings import BUSY_LOOPS, RANDOM_FAULTS, RUNS, SECURE, STARVED_FAULTS
from tests.chaos.starvation import busy_loops
from trackside.aggregates.search.messages import SearchSpec, StartSearch, Tuner
from trackside.aggregates.search.space.space import Choice, Uniform
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.resources import Retry, RetryPolicy
from trackside.contracts.wire.topic_rights import ADMIN, PUBLISHER
from trackside.embedded import stack
from trackside.embedded.ports import free_ports
from trackside.embedded.stack import Stack
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.sdk import Client
from trackside.sdk.connection.publication import Accepted
from trackside.verify.log import verify_topics

TRIALS = 24
MANY_FAULTS = 100
"""After this many faults an attempt was repeated and an event ignored."""
MEAN_INTERVAL_S = 1.0
"""Between two random faults."""
SEARCH_ID = "chaos"


@pytest.fixture
def running(tmp_path: Path, leash: Path) -> Iterator[Stack]:
    """Yields a stack of the test's own, without the Kafka client's messages about a broker that is away."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    folder = tmp_path / ".trackside"
    yield start_stack(folder, leash)
    stack.stop(folder)


@pytest.mark.timeout(1_800)
async def test_a_search_survives_the_kill_of_anything(running: Stack, seed: int) -> None:
    rng = random.Random(seed)
    chosen = [*faults.ONE_KILL_EACH]
    rng.shuffle(chosen)
    await assert_survives(running, seed, chosen, TRIALS)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("number", range(RUNS))
async def test_a_long_search_survives_many_kills(running: Stack, seed: int, number: int) -> None:
    rng = random.Random(seed + number)
    chosen = [*faults.TARGETED, *faults.SLOW_FAULTS, *faults.ANY_MOMENT]
    rng.shuffle(chosen)
    await assert_survives(running, seed + number, chosen, 2 * len(chosen))


@pytest.fixture
def stack_behind_proxy(tmp_path: Path, leash: Path) -> Iterator[tuple[Stack, Proxy]]:
    """Yields a stack of the test's own whose services reach the broker through a proxy."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    folder = tmp_path / ".trackside"
    with Proxy(free_ports(1)[0], lambda: port_of_broker(folder)) as proxy:
        yield start_stack(folder, leash, "" if SECURE else proxy.address), proxy
        stack.stop(folder)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("number", range(RUNS))
async def test_a_search_survives_a_fault_a_second(
    stack_behind_proxy: tuple[Stack, Proxy], seed: int, number: int
) -> None:
    await assert_survives_random_faults(*stack_behind_proxy, seed + number, RANDOM_FAULTS)


@pytest.mark.long
@pytest.mark.timeout(3_600)
async def test_on_a_starved_machine_nothing_wrong_is_found_at_any_length_of_the_log(
    stack_behind_proxy: tuple[Stack, Proxy], seed: int
) -> None:
    running, proxy = stack_behind_proxy
    lengths: list[int] = []
    with busy_loops(BUSY_LOOPS):
        verifying = asyncio.create_task(verify_while_it_grows(running, lengths))
        try:
            await assert_survives_random_faults(running, proxy, seed, STARVED_FAULTS)
        finally:
            verifying.cancel()
            outcome = (await asyncio.gather(verifying, return_exceptions=True))[0]
        if isinstance(outcome, AssertionError):
            raise outcome
    print(f"verified at {len(lengths)} lengths: {lengths}")  # noqa: T201
    assert len(set(lengths)) > 2


async def verify_while_it_grows(running: Stack, lengths: list[int]) -> None:
    """Verifies the log again and again, and notes its length; goes on where the broker is away."""
    async with KafkaLog(running.kafka(ADMIN), client_id="chaos-verify") as log:
        while True:
            try:
                report = await verify_topics(log, Topics())
            except TransientError:
                continue
            assert report.findings == []
            lengths.append(report.events)


@asynccontextmanager
async def begun_search(running: Stack, seed: int, trials: int) -> AsyncIterator[ChaosHarness]:
    """Begins a search whose trials wait until they are released."""
    async with open_harness(running, seed) as harness:
        with annotated(harness, seed):
            harness.release_trials(0)
            publication = await harness.client.publish(search(seed, trials), SEARCH_ID)
            assert isinstance(await harness.client.answer(publication, TIMEOUT_S), Accepted)
            yield harness


async def assert_survives_random_faults(running: Stack, proxy: Proxy, seed: int, faults: int) -> None:
    """Runs a search with random faults, and checks the results."""
    trials = faults // 2 + 2 * SLOTS
    async with begun_search(running, seed, trials) as harness:
        await harness.until_devices_busy()
        random_faults = RandomFaults(running, harness.rng, proxy, harness.note, kills=harness.kills)
        try:
            await inject(harness, random_faults, faults)
        finally:
            await random_faults.stop()
        harness.note(f"stopped after {dict(random_faults.counts)}")
        await harness.until("all programs are ready", lambda: everything_is_ready(running))
        harness.release_trials(trials - harness.released)
        for count in range(1, trials + 1):
            await harness.history.until(f"{count} ends", lambda n=count: ended(harness) >= n)  # type: ignore[misc]
        await assert_consistent(harness, trials, expect_damage=faults >= MANY_FAULTS)
    stack.stop(running.folder)
    assert processes_in(running.folder) == []


async def inject(harness: ChaosHarness, random_faults: RandomFaults, faults: int) -> None:
    """Injects that many faults, one after another; every second one lets a trial end."""
    for number in range(faults):
        await pause(harness.rng.uniform(0.5, 1.5) * MEAN_INTERVAL_S)
        if number % 2:
            harness.release_trials()
        if number % 10 == 0:
            harness.publish()
        random_faults.inject()


def ended(harness: ChaosHarness) -> int:
    """Counts the trials that have ended."""
    assert harness.history.search is not None
    return sum(trial.ended_at >= 0 for trial in harness.history.search.trials)


def everything_is_ready(running: Stack) -> bool:
    """Returns whether every process of a stack is ready or has ended as it must."""
    return all(
        one.state in ("ready", "ended") for one in stack.load(running.folder).status.processes.values()
    )


async def assert_survives(running: Stack, seed: int, chosen: list[Fault], trials: int) -> None:
    """Runs a search, injects the faults one after the other, and checks the results."""
    async with begun_search(running, seed, trials) as harness:
        for fault in chosen:
            await harness.until_devices_busy()
            harness.note(fault.__name__)
            await fault(harness)
        assert harness.released < trials - SLOTS, "the search is too short for its faults"
        harness.release_trials(trials - harness.released)
        stream = await harness.client.wait(SEARCH_ID, timeout_s=10 * TIMEOUT_S)
        assert stream.closed
        await assert_consistent(harness, trials)
    stack.stop(running.folder)
    assert processes_in(running.folder) == []


async def assert_consistent(harness: ChaosHarness, trials: int, *, expect_damage: bool = True) -> None:
    """Checks everything that must hold at the end; `expect_damage`: the faults must show in the log."""
    history = harness.history
    published = [await sending for sending in harness.published]
    commands = {publication.stream_id for publication in published}
    await history.until(
        "answers to all commands",
        lambda: all(
            stream_id in history.streams.by_id and not history.streams.by_id[stream_id].unanswered
            for stream_id in commands
        ),
    )
    await history.until("the end of the search", lambda: history.streams.by_id[SEARCH_ID].closed)
    assertions.each_trial_ended_once(history, trials)
    if expect_damage:
        assertions.faults_had_effect(history)
    assertions.each_attempt_ran_once_at_most(harness)
    assertions.each_publication_was_answered(history, published)
    harness.note_unexpected_restarts()
    await assertions.topics_are_those_that_are_declared(harness.running.kafka(ADMIN))
    await assertions.rows_are_what_the_log_says(harness.log, harness.topics, harness.running.postgres_dsn)


@asynccontextmanager
async def open_harness(running: Stack, seed: int) -> AsyncIterator[ChaosHarness]:
    """Yields a harness that reads the log while the block runs."""
    topics = Topics()
    async with (
        KafkaLog(running.kafka(ADMIN), client_id="chaos") as log,
        Client(running.kafka(PUBLISHER), name="chaos") as client,
        asyncio.TaskGroup() as group,
    ):
        history = History(log, topics, SEARCH_ID)
        following = group.create_task(history.follow())
        with watched_files(watched_folders(running.folder)) as changed:
            rng = random.Random(seed)
            yield ChaosHarness(running, history, log, client, topics, SEARCH_ID, rng, group, changed)
        following.cancel()


@contextmanager
def annotated(harness: ChaosHarness, seed: int) -> Iterator[None]:
    """Adds the faults and the ends of the services' logs to any failure."""
    try:
        yield
    except BaseException as error:
        logs = (harness.running.folder / "logs").glob("*.log")
        said = [f"--- {log.name}\n{log_tail(log)}" for log in sorted(logs)]
        error.add_note("\n".join([*said, f"seed {seed}; faults, at seconds:", *harness.fault_log]))
        raise
    finally:
        print("\n".join([f"seed {seed}; faults, at seconds:", *harness.fault_log]))  # noqa: T201


def log_tail(log: Path) -> str:
    """Returns the last lines of a log, without the repeated ones of the Kafka client."""
    lines = log.read_text("utf-8", "replace").splitlines()
    return "\n".join([line for line in lines if '"aiokafka' not in line][-20:])


def search(seed: int, trials: int) -> StartSearch:
    """Returns the command of a search of short trials that are retried without limit."""
    spec = SearchSpec(
        task_type="gated",
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
