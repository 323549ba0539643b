"""A search of real trainings whose worker is killed every few seconds finds what an undisturbed one finds.

Each training continues from its last checkpoint: its loss depends on the state that is carried over, so that
a step that is lost or made twice would change it. `make test` kills twice, `make long` LONG_KILLS times.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chaos.history import TIMEOUT_S
from tests.chaos.kills.cluster import SLOTS, Cluster, cluster
from tests.chaos.kills.tasks import losses
from tests.chaos.random_faults import pause
from tests.chaos.settings import RUNS
from tests.integration.projections.harness import query
from tests.stack import Servers
from trackside.aggregates.search.messages import SearchSpec, StartSearch, Tuner
from trackside.aggregates.search.space.space import Choice, Uniform
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.envelope.ids import trial_task_id
from trackside.contracts.tasks.resources import Retry, RetryPolicy
from trackside.domain.tasks.task import Task
from trackside.projections.reading.reads import open_read_models
from trackside.projections.tables.owners import OWNERS
from trackside.verify.log import verify

LONG_KILLS = 25
LONG_S = 20 * TIMEOUT_S
EVERY = 5
STEP_S = 0.1
LEAST_S, MOST_S = 2.0, 5.0
"""How long the worker lives before it is killed."""
COUNTED = """
SELECT task_id, step, count(*) FROM dashboards.metrics WHERE tag = 'objective' AND counts GROUP BY 1, 2
"""


@pytest.fixture
async def trained(
    stack: Servers, database: str, topic_prefix: str, tmp_path: Path
) -> AsyncIterator[tuple[Cluster, str]]:
    """Yields a cluster that writes all rows, and its database."""
    services = ("dispatcher", "scheduler", "worker", "summary_indexer")
    async with cluster(stack, database, topic_prefix, tmp_path, set(), services) as found:
        yield found, database


def search(seed: int, trials: int, steps: int, *, waits: bool = False) -> StartSearch:
    """Returns a search whose trials train a line, each with another rate; its tasks may wait at their end."""
    spec = SearchSpec(
        task_type="training",
        space={
            "rate": Uniform(type="uniform", low=0.01, high=0.2),
            "steps": Choice(type="choice", values=[steps]),
            "every": Choice(type="choice", values=[EVERY]),
            "seconds": Choice(type="choice", values=[STEP_S]),
            "waits": Choice(type="choice", values=[waits]),
        },
        tuner=Tuner(name="random"),
        direction="minimize",
        max_trials=trials,
        concurrency=SLOTS,
        seed=seed,
        retry=RetryPolicy(lost=Retry(times=100)),
    )
    return StartSearch(**spec.model_dump())


@pytest.mark.timeout(600)
async def test_a_search_with_a_killed_worker_loses_an_interval_at_most(
    trained: tuple[Cluster, str], seed: int
) -> None:
    killed, database = trained
    await killed.client.send(search(seed, SLOTS, 60, waits=True), "killed")
    over = asyncio.create_task(killed.until_closed("killed", LONG_S))
    kills = await kill_again_and_again(killed, over, 2, random.Random(seed))
    for trial in range(SLOTS):
        killed.release(trial_task_id("killed", trial))
    await over
    assert kills == 2
    await assert_trained(killed, "killed", kills, database)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("number", range(RUNS))
async def test_a_search_under_many_kills_finds_what_an_undisturbed_one_finds(
    trained: tuple[Cluster, str], seed: int, number: int
) -> None:
    killed, database = trained
    await killed.client.send(search(seed + number, 4 * SLOTS, 250), "undisturbed")
    await killed.until_closed("undisturbed", LONG_S)
    await killed.client.send(search(seed + number, 4 * SLOTS, 250), "killed")
    over = asyncio.create_task(killed.until_closed("killed", LONG_S))
    kills = await kill_again_and_again(killed, over, LONG_KILLS, random.Random(seed + number))
    await over
    await assert_trained(killed, "killed", kills, database)
    found, expected = (search_in(killed, name) for name in ("killed", "undisturbed"))
    assert [trial.parameters for trial in found.trials] == [trial.parameters for trial in expected.trials]
    assert [trial.value for trial in found.trials] == [trial.value for trial in expected.trials]
    assert found.best == expected.best
    assert kills >= LONG_KILLS // 2


async def kill_again_and_again(
    killed: Cluster, over: asyncio.Task[None], most: int, rng: random.Random
) -> int:
    """Kills the worker every few seconds, `most` times or until the search is over; returns how often."""
    kills = 0
    while kills < most:
        await asyncio.wait(
            [over, life := asyncio.create_task(pause(rng.uniform(LEAST_S, MOST_S)))],
            return_when=asyncio.FIRST_COMPLETED,
        )
        if over.done():
            life.cancel()
            break
        await killed.kill("worker")
        kills += 1
        await killed.until_back()
    return kills


def search_in(killed: Cluster, stream_id: str) -> Search:
    stream = killed.stream(stream_id)
    assert stream is not None
    found = search_of(stream)
    assert found is not None
    return found


async def assert_trained(killed: Cluster, stream_id: str, kills: int, database: str) -> None:
    """Checks each trial against a training in this process, what was trained for it, its rows and the log."""
    found, stream = search_in(killed, stream_id), killed.stream(stream_id)
    assert stream is not None
    trained_steps = lost = 0
    for trial in found.trials:
        task = stream.tasks[trial_task_id(stream_id, trial.number)]
        steps = task.parameters["steps"]
        expected = losses(task.parameters["rate"], steps)
        assert task.reports == list(enumerate(expected)), trial
        assert trial.value == expected[-1]
        lost += lost_steps(killed, task)
        trained_steps += steps
    assert found.best is not None
    assert found.trials[found.best].value == min(trial.value for trial in found.trials if trial.value)
    print(f"{kills} kills: {lost} of {trained_steps} steps were trained again")  # noqa: T201
    assert lost <= EVERY * kills * SLOTS
    await assert_rows(killed, database)
    assert await verify(killed.log, killed.topics) == []


def lost_steps(killed: Cluster, task: Task) -> int:
    """Returns how many steps a task has made more than once: an interval at most in each further attempt."""
    made: dict[int, list[int]] = {}
    for attempt, step in killed.notes(task.task_id):
        made.setdefault(int(attempt), []).append(int(step))
    again = 0
    for before, after in zip(list(made.values()), list(made.values())[1:], strict=False):
        assert 0 <= before[-1] + 1 - after[0] <= EVERY, (task.task_id, made)
        again += before[-1] + 1 - after[0]
    return again


async def assert_rows(killed: Cluster, database: str) -> None:
    """Once the rows are written no step of a trial counts twice."""
    async with open_read_models(database) as models:
        for owner in OWNERS.values():
            for topic in owner.topics(killed.topics):
                for partition, end in (await killed.log.ends(topic.name)).items():
                    if end:
                        await models.until(owner.name, topic.name, partition, end, TIMEOUT_S)
    rows = await query(database, COUNTED)
    assert rows
    assert {count for _, _, count in rows} == {1}, rows
