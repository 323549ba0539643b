"""Two rounds of a job on two dispatchers leave the same files and models, whatever is killed or paused.

What they leave follows from the lines of the dataset alone: each sample is in one manifest, each model has
all samples of the rounds before, the newest one is live everywhere. One test makes a few faults. The other
one makes those of each kind after each event, in a few jobs, and prints which.
"""

import asyncio
import importlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chaos.history import TIMEOUT_S
from tests.chaos.rounds.cluster import RoundsCluster, rounds_cluster
from tests.chaos.rounds.faults import KINDS, Faults
from tests.chaos.rounds.job import BATCH, REPLICAS, ROUNDS, TRAIN_OF_BATCH, TwoRounds, sha256
from tests.chaos.rounds.replayed import assert_replayed
from tests.chaos.rounds.sweep import Sweep, positions_of
from tests.chaos.rounds.waits import sitecustomize
from tests.chaos.settings import RUNS
from tests.integration import command_line
from tests.stack import Servers
from trackside.projections.reading.reads import open_read_models
from trackside.projections.tables.owners import DISPATCHER, OWNERS
from trackside.verify.postgres import verify_with_postgres

JOBS = 4
"""How many jobs share the faults of a long run, at most, for each of its TRACKSIDE_CHAOS_RUNS."""
FEW, LAST = 2, 150
"""How many faults a short run has, and the number of an event that each of these jobs has."""


@pytest.fixture
async def cluster(
    stack: Servers, database: str, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RoundsCluster]:
    """Yields services that wait for their next try only shortly, as this process believes, too."""
    for name in sitecustomize.WAITS:
        sitecustomize.shorten(importlib.import_module(name), monkeypatch.setattr)
    async with rounds_cluster(stack, database, topic_prefix, tmp_path) as found:
        yield found


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_rounds_leave_the_same_whatever_is_killed_or_paused(
    cluster: RoundsCluster, seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """I2, I16, I20, I22, I26, I36: first undisturbed, then with faults of random kinds at random events."""
    undisturbed = TwoRounds(cluster, "undisturbed")
    await undisturbed.run(_nothing)
    await undisturbed.assert_right()
    tasks = cluster.running_tasks(undisturbed.name, undisturbed.dataset)
    ready = [task for task in tasks if task.attempts[-1].ready]
    assert len(ready) > REPLICAS
    assert all(cluster.process_of(task) for task in ready)  # else no fault of a task would be made
    await until_rows(cluster)
    for name, value in cluster.addresses.items():
        monkeypatch.setenv(name, value)
    rows = await asyncio.to_thread(command_line.answer, capsys, "rounds", undisturbed.name)
    assert [(row["round"], row["status"], row["deployed"]) for row in rows] == [
        (number, "completed", True) for number in range(1, ROUNDS + 1)
    ]
    assert {(row["train_samples"], row["eval_samples"]) for row in rows} == {
        (TRAIN_OF_BATCH, BATCH - TRAIN_OF_BATCH)
    }
    assert rows[-1]["sha256"] == sha256((undisturbed.folder / "live.json").read_bytes())
    await assert_replayed(undisturbed, capsys)
    await undisturbed.delete()
    rng = random.Random(seed)
    await disturbed(cluster, "disturbed", set(rng.sample(range(1, LAST), FEW)), rng.sample(KINDS, FEW), rng)
    await assert_verified(cluster)


@pytest.mark.long
@pytest.mark.timeout(14_400)
async def test_rounds_leave_the_same_with_faults_of_each_kind_after_every_event(
    cluster: RoundsCluster, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed = TwoRounds(cluster, "undisturbed")
    await undisturbed.run(_nothing)
    await undisturbed.assert_right()
    positions = positions_of(undisturbed, cluster.history.records)
    await undisturbed.delete()

    def say(words: str) -> None:
        with capsys.disabled():
            print(words, flush=True)  # noqa: T201

    sweep = Sweep(cluster, positions, random.Random(seed), say)
    try:
        await sweep.run(JOBS * RUNS)
    finally:
        say(sweep.report())
    await assert_verified(cluster)


async def _nothing(_: int) -> None:
    """Lets the job continue."""


async def disturbed(
    cluster: RoundsCluster, name: str, at: set[int], kinds: list[str], rng: random.Random
) -> None:
    """Runs a job with faults after events of these numbers; it has to leave what every job leaves."""
    job = TwoRounds(cluster, name)
    faults = Faults(job, at, kinds, rng)
    try:
        await job.run(faults.after)
        await job.assert_right()
        assert faults.made
        await job.delete()
    finally:
        print("\n".join([name, *faults.made, f"not made: {faults.due}"]))  # noqa: T201


async def until_rows(cluster: RoundsCluster) -> None:
    """Waits until the rows have all that is in the log."""
    async with open_read_models(cluster.database) as models:
        for topic in OWNERS[DISPATCHER].topics(cluster.topics):
            for partition, end in (await cluster.log.ends(topic.name)).items():
                if end:
                    await models.until(DISPATCHER, topic.name, partition, end, TIMEOUT_S)


async def assert_verified(cluster: RoundsCluster) -> None:
    """Checks the log, and compares the rows with a rebuild."""
    await until_rows(cluster)
    report = await verify_with_postgres(cluster.log, cluster.topics, cluster.database)
    assert report.findings == []
    assert all(report.checked[each] for each in ("INV-15", "INV-23", "INV-24"))
