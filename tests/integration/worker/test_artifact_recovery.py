"""Saves that are disturbed: by a store that is gone, and by processes that are killed."""

import asyncio
from pathlib import Path

import pytest

from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import LIMIT_S, error_of, of
from tests.integration.worker.processes import (
    kill_store_process,
    killable_worker,
    next_line,
    recovered,
    wait_until_gone,
)
from tests.integration.worker.saved import CLASS, all_in_store, class_of, told
from tests.polling import poll_until
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, MetricReported

SAVES = """
trial.report(os.getpid())
for number in range(COUNT):
    trial.save("numbers", str(number).encode() * 1_000)
"""


async def successor(tmp_path: Path, recovery_timeout_s: float = LIMIT_S) -> list[Message]:
    """Runs another worker in the same folder until it has joined and task `a` has ended."""
    catalogue = tmp_path / "catalogue.yaml"
    async with started(tmp_path, catalogue, recovery_timeout_s=recovery_timeout_s) as harness:
        await harness.joined()
        return await harness.events_until_end("a")


def killed_after(tmp_path: Path, body: str, files: int, endings: int) -> str:
    """Kills a worker once so many artifacts are in its spool, and so many endings on its disk."""
    catalogue = task_of(tmp_path, class_of(body), CLASS)
    worker = tmp_path / "worker"
    with killable_worker(worker, {}, str(catalogue), "a") as process:
        incarnation, pid = next_line(process), int(next_line(process))

        def there() -> bool:
            records = [*(worker / "spool").glob("*/*.json")]
            return len(records) == files and len([*(worker / "endings").glob("*.json")]) == endings

        asyncio.run(poll_until(lambda: asyncio.to_thread(there), LIMIT_S))
        process.kill()
        assert wait_until_gone(pid)
    return incarnation


async def test_what_a_killed_worker_had_not_uploaded_is_saved_by_the_next_one(
    tmp_path: Path, missing_store: Path
) -> None:
    body = SAVES.replace("COUNT", "3") + "import time\ntime.sleep(600)\n"
    incarnation = await asyncio.to_thread(killed_after, tmp_path, body, 3, 0)
    await asyncio.to_thread(missing_store.mkdir)
    story = await successor(tmp_path)
    assert told(all_in_store(missing_store, story)) == [(n, "numbers", n, "file") for n in (1, 2, 3)]
    recovered(story, AttemptEnd.LOST, incarnation)
    assert not [*(tmp_path / "worker" / "spool").iterdir()]


@pytest.mark.long
async def test_an_attempt_that_finished_before_its_worker_was_killed_finishes_with_its_artifacts(
    tmp_path: Path, missing_store: Path
) -> None:
    await asyncio.to_thread(killed_after, tmp_path, SAVES.replace("COUNT", "3"), 3, 1)
    await asyncio.to_thread(missing_store.mkdir)
    story = await successor(tmp_path)
    assert len(all_in_store(missing_store, story)) == 3
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED


@pytest.mark.long
async def test_what_a_killed_training_reported_before_its_checkpoint_is_reported_by_the_next_worker(
    tmp_path: Path, missing_store: Path
) -> None:
    body = """
trial.report(os.getpid(), 0)
trial.checkpoint(1, {"seen": 1})
trial.report(1.5, 1)
trial.checkpoint(2, {"seen": 2})
trial.report(2.5, 2)
import time
time.sleep(600)
"""
    await asyncio.to_thread(killed_after, tmp_path, body, 2, 0)
    await asyncio.to_thread(missing_store.mkdir)
    story = await successor(tmp_path)
    saved = [event.step for event in all_in_store(missing_store, story)]
    steps = [event.step for event in of(story, MetricReported)]
    assert (saved, steps) == ([1, 2], [0, 1])
    assert of(story, AttemptEnded)[0].end is AttemptEnd.LOST


@pytest.mark.long
async def test_a_worker_joins_although_the_store_is_gone_and_the_attempt_has_failed(
    tmp_path: Path, missing_store: Path
) -> None:
    await asyncio.to_thread(killed_after, tmp_path, SAVES.replace("COUNT", "1"), 1, 1)
    story = await successor(tmp_path, recovery_timeout_s=0.5)
    end = of(story, AttemptEnded)[0]
    error_of(end, "SAVE", "store_unreachable")
    assert end.recovered and not of(story, ArtifactSaved)


async def has_ending(folder: Path) -> None:
    """Waits until the end of the attempt is on the disk."""
    endings = folder / "worker" / "endings"
    await poll_until(lambda: asyncio.to_thread(lambda: bool([*endings.glob("*.json")])), LIMIT_S)


async def test_a_task_goes_on_while_the_store_is_gone_and_its_attempt_ends_once_it_is_back(
    tmp_path: Path, missing_store: Path
) -> None:
    script = class_of(SAVES.replace("COUNT", "3") + "return {}")
    async with started(tmp_path, task_of(tmp_path, script, CLASS)) as harness:
        await harness.run("a", task_type="a")
        await has_ending(tmp_path)
        assert not of(await harness.events_so_far("a"), ArtifactSaved)
        await asyncio.to_thread(missing_store.mkdir)
        story = await harness.events_until_end("a")
    assert len(all_in_store(missing_store, story)) == 3
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED


async def test_a_worker_that_leaves_waits_no_longer_for_the_store_than_for_its_tasks(
    tmp_path: Path, missing_store: Path
) -> None:
    script = class_of(SAVES.replace("COUNT", "1"))
    async with started(tmp_path, task_of(tmp_path, script, CLASS), stop_grace_s=0.5) as harness:
        await harness.run("a", task_type="a")
        await has_ending(tmp_path)
    assert (await harness.end("a")).end is AttemptEnd.LOST


async def test_a_store_process_that_is_killed_again_and_again_loses_nothing(
    tmp_path: Path, store: Path
) -> None:
    script = class_of(SAVES.replace("COUNT", "300") + "return {}")
    async with started(tmp_path, task_of(tmp_path, script, CLASS)) as harness:
        await harness.run("a", task_type="a")
        ended = asyncio.create_task(harness.events_until_end("a"))
        kills = 0
        while not ended.done():
            if kills < 5 and kill_store_process():
                kills += 1
                await harness.event(ArtifactSaved, "a", kills * 10)
            await asyncio.wait([ended], timeout=0.05)
        story = ended.result()
    assert kills and len(all_in_store(store, story)) == 300
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED
    assert [event.version for event in of(story, ArtifactSaved)] == list(range(1, 301))


async def test_what_a_killed_task_had_handed_over_is_saved(tmp_path: Path, store: Path) -> None:
    script = class_of(SAVES.replace("COUNT", "100") + "os.kill(os.getpid(), 9)")
    async with started(tmp_path, task_of(tmp_path, script, CLASS)) as harness:
        story = await harness.story("a", task_type="a")
    assert len(all_in_store(store, story)) == 100
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FAILED
