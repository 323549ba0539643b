"""The worker, its store process, the task and the store are killed at each step of a save, of a resume and of
an instruction: nothing that the log says is wrong afterwards, and nothing is missing.

Both are for `make long`: each victim once in each story, and everything at every step of each.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.chaos.history import TIMEOUT_S
from tests.chaos.kills.cluster import STORE_FAILED, Cluster, cluster, first_of
from tests.chaos.kills.points import FUNCTIONS, STEPS, STORE, Step
from tests.chaos.kills.tasks import losses
from tests.chaos.settings import RUNS
from tests.stack import Servers
from trackside.aggregates.batch.messages import GroupSpec, StopTasks, SubmitTasks, TaskSpec
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import ArtifactReference, ArtifactSaved
from trackside.contracts.tasks.resources import Retry, RetryPolicy, ServicePolicy
from trackside.verify.log import verify

RETRY = RetryPolicy(lost=Retry(times=100), failed=Retry(times=100))
TRAINING: Json = {"rate": 0.1, "steps": 6, "every": 2, "dies_at": 4, "waits": True}
Kill = tuple[Step, str]


@pytest.fixture
async def killed(stack: Servers, database: str, topic_prefix: str, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Yields a cluster whose processes can be killed at each step."""
    async with cluster(stack, database, topic_prefix, tmp_path, FUNCTIONS) as found:
        yield found


def chosen(rng: random.Random) -> list[Kill]:
    """Returns one kill of each victim in each story, each at a random step."""
    fitting: dict[tuple[str, str], list[Kill]] = {}
    for step in STEPS:
        for victim in step.victims:
            fitting.setdefault((step.story, victim), []).append((step, victim))
    return [rng.choice(kills) for kills in fitting.values()]


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_each_victim_is_killed_at_a_step_of_each_story(killed: Cluster, seed: int) -> None:
    instructions = [step for step in STEPS if step.story == "instruction"]
    await assert_survives(killed, chosen(random.Random(seed)), is_service=False)
    await assert_survives(killed, [(random.Random(seed).choice(instructions), "worker")], is_service=True)


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("number", range(RUNS))
@pytest.mark.parametrize(
    ("story", "is_service"),
    [*((story, False) for story in ("save", "resume", "instruction")), ("instruction", True)],
)
async def test_everything_is_killed_at_every_step(
    killed: Cluster, seed: int, number: int, story: str, is_service: bool
) -> None:
    kills = [(step, victim) for step in STEPS for victim in step.victims if step.story == story]
    random.Random(seed + number).shuffle(kills)
    await assert_survives(killed, kills, is_service)


async def assert_survives(killed: Cluster, kills: Sequence[Kill], is_service: bool) -> None:
    """Kills one after the other, each in a story of its own, and checks the story and then the whole log."""
    numbers = count(len(killed.history.streams.by_id))
    for step, victim in kills:
        print(f"{step.story}: {victim} is killed when {step.name}")  # noqa: T201
        stream_id = f"{step.story}-{next(numbers)}"
        try:
            await STORIES[step.story](killed, stream_id, step, victim, is_service)
        except BaseException as error:
            error.add_note(f"{stream_id}: {victim} killed when {step.name}, at {step.path[-1]}")
            raise
    print(f"killed: {killed.kills}")  # noqa: T201
    assert await verify(killed.log, killed.topics) == []


async def submit(killed: Cluster, stream_id: str, task_type: str, parameters: Json, service: bool) -> None:
    """Submits a batch of one task."""
    fields = {"service": ServicePolicy()} if service else {"retry": RETRY}
    task = TaskSpec(task_type=task_type, parameters=parameters, name="a", **fields)
    await killed.client.send(SubmitTasks(groups=[GroupSpec(tasks=[task])]), stream_id)


async def kill_on_the_way(
    killed: Cluster, stream_id: str, step: Step, victim: str, story: Awaitable[object]
) -> None:
    """Holds a process at a step of a story, kills the victim there, and waits for the end of the story."""
    reached = killed.pauses.stop_at(*step.path)
    if step.is_of_end:
        killed.release(f"{stream_id}.1.a")
    whole = asyncio.ensure_future(story)
    try:
        await first_of(reached, asyncio.shield(whole))  # it may be over before another process has read that
        async with asyncio.timeout(TIMEOUT_S):
            await reached
        failed = killed.pauses.passed(STORE_FAILED)
        await killed.kill(victim)
        killed.release(f"{stream_id}.1.a")
        killed.pauses.go_on()
        if victim == STORE:
            await first_of(failed, asyncio.shield(whole))
            killed.put_store_back()
        async with asyncio.timeout(TIMEOUT_S):
            await whole
        await killed.until_back()
    finally:
        whole.cancel()


async def saves(killed: Cluster, stream_id: str, step: Step, victim: str, _: bool) -> None:
    """What was handed over is saved, once; each artifact has its bytes, and none is of an unknown task."""

    async def story() -> None:
        await submit(killed, stream_id, "saving", {}, service=False)
        await killed.until_closed(stream_id)

    await kill_on_the_way(killed, stream_id, step, victim, story())
    task = killed.only_task(stream_id)
    assert task is not None
    noted = killed.notes(task.task_id)
    begun, handed_over = ({sha256 for word, sha256 in noted if word == each} for each in ("begun", "saved"))
    saved = [event for event in killed.history.applied(ArtifactSaved) if event.task_id == task.task_id]
    digests = Counter(event.sha256 for event in saved)
    assert set(digests.values()) == {1}, "two artifacts have the same bytes"
    assert handed_over <= set(digests) <= begun, "not what was handed over"
    versions = {name: [each.version for each in saved if each.name == name] for name in ("first", "second")}
    assert all(found == sorted(set(found)) for found in versions.values()), versions
    assert task.artifacts["first"].version == versions["first"][-1]
    assert_bytes(killed, saved)


def assert_bytes(killed: Cluster, saved: Sequence[ArtifactSaved]) -> None:
    """The store has the bytes of each artifact."""
    fields = {"uri", "sha256", "size_bytes", "media_type"}
    for event in saved:
        assert killed.store.verify(ArtifactReference(**event.model_dump(include=fields))) == "ok", event


async def resumes(killed: Cluster, stream_id: str, step: Step, victim: str, _: bool) -> None:
    """Each step counts once, with the loss of an undisturbed training; an interval is lost at most."""

    async def story() -> None:
        await submit(killed, stream_id, "training", TRAINING, service=False)
        await killed.until_closed(stream_id)

    await kill_on_the_way(killed, stream_id, step, victim, story())
    task = killed.only_task(stream_id)
    assert task is not None
    assert task.reports == list(enumerate(losses(TRAINING["rate"], TRAINING["steps"])))
    attempts = [int(attempt) for attempt, _ in killed.notes(task.task_id)]
    assert len(attempts) <= TRAINING["steps"] + TRAINING["every"] * (max(attempts) - 1), attempts
    assert_bytes(
        killed, [event for event in killed.history.applied(ArtifactSaved) if event.task_id == task.task_id]
    )


async def instructs(killed: Cluster, stream_id: str, step: Step, victim: str, is_service: bool) -> None:
    """The newest instruction is acknowledged, whatever was killed."""
    await submit(killed, stream_id, "serving" if is_service else "instructed", {}, is_service)
    task_id = await killed.history.until("its task", lambda: _task_id(killed, stream_id))
    await killed.history.until("its start", lambda: _runs(killed, stream_id))
    sent = {"value": stream_id}
    asked = killed.client.instruct(stream_id, task_id, sent, timeout_s=TIMEOUT_S)
    await kill_on_the_way(killed, stream_id, step, victim, asked)
    await killed.history.until("its acknowledgement", lambda: _acknowledged(killed, stream_id, sent))
    if is_service:
        await killed.client.send(StopTasks(), stream_id)
    else:
        await killed.client.instruct(stream_id, task_id, {"end": True}, timeout_s=TIMEOUT_S)
    await killed.until_closed(stream_id)


def _task_id(killed: Cluster, stream_id: str) -> str | None:
    task = killed.only_task(stream_id)
    return None if task is None else task.task_id


def _runs(killed: Cluster, stream_id: str) -> bool:
    task = killed.only_task(stream_id)
    return task is not None and "state" in task.artifacts


def _acknowledged(killed: Cluster, stream_id: str, sent: Json) -> bool:
    """Returns whether the attempt that runs, perhaps a later one, has acknowledged the first instruction."""
    task = killed.only_task(stream_id)
    return task is not None and (task.acknowledged, task.acknowledgement) == (1, (True, {"body": sent}))


STORIES: dict[str, Callable[[Cluster, str, Step, str, bool], Awaitable[None]]] = {
    "save": saves,
    "resume": resumes,
    "instruction": instructs,
}
