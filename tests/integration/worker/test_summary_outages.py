"""A store that is away: what tasks report waits for it, in bounds, and what is left out is counted."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import WorkerHarness, items_in, of
from tests.integration.worker.saved import CLASS, bytes_of, class_of, tried_again
from tests.polling import poll_until
from tests.small_disk import small_disk
from trackside.contracts.tasks.summaries import ReportedItem
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.worker.artifacts import summary_uploads as store_outage
from trackside.worker.child.channel.summary_spool import MAX_UNSTORED_FILES

MIB = 2**20
REPORTS = """
from trackside.sdk.in_task.channel import ReportedSummary
given = trial.parameters()
for step in range(given["count"]):
    data = f"{step:08d}".encode() * (given["bytes"] // 8)
    trial.channel().summary(ReportedSummary("image", "a", step, 1, 0, {"width": 1}, data, "image/png"))
    Path(given["progress"]).write_text(str(step + 1))
trial.channel().summary(ReportedSummary("text", "kept", 1, 1, 0, {"value": "x"}))
return {}
"""
TASK = class_of(REPORTS)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gets failed uploads tried again soon."""
    monkeypatch.setattr(store_outage, "FIRST_RETRY_S", 0.05)
    monkeypatch.setattr(store_outage, "LAST_RETRY_S", 0.2)


@pytest.fixture
def blocked_store(missing_store: Path) -> Path:
    """A file where the folder of the store should be."""
    missing_store.touch()
    return missing_store


async def run(harness: WorkerHarness, progress: Path, count: int, size: int, task_id: str = "t") -> None:
    parameters = {"count": count, "bytes": size, "progress": str(progress)}
    await harness.run(task_id, parameters, task_type="a")


async def images(harness: WorkerHarness, task_id: str = "t") -> list[ReportedItem]:
    """Waits for the text that is reported last; returns the images before it, and those of its record."""
    await harness.end(task_id)
    found = await harness.messages(
        harness.topics.metrics, task_id, lambda all_: any(item.kind == "text" for item in items_in(all_))
    )
    return [item for item in items_in(found) if item.kind == "image"]


async def test_a_task_waits_for_a_full_store_and_all_is_stored_once_it_has_room(
    tmp_path: Path, missing_store: Path
) -> None:
    """S14: the task waits in its own process before it has more bytes than its spool may keep."""
    size, count = MIB, 80
    with small_disk(missing_store, "120m") as disk:
        disk.fill(leave_bytes=8 * MIB)
        async with started(tmp_path, task_of(tmp_path, TASK, CLASS)) as harness:
            progress = tmp_path / "progress"
            await run(harness, progress, count, size)
            await tried_again("store_full")
            output = await harness.output("t", lambda text: "summaries wait" in text)
            assert "trackside: summaries wait for the store (store_full): " in output
            await poll_until(_reached(progress, 63))
            for _ in range(3):
                await tried_again("store_full")
            assert _progress(progress) <= 64 + 8, "64 MiB may wait, and some were stored before"
            assert not of(await harness.events_so_far("t"), AttemptEnded)
            disk.empty()
            found = await images(harness)
            end = await harness.end("t")
            assert end.end is AttemptEnd.FINISHED
            assert sorted(item.step for item in found) == [*range(count)]
            for item in found[:: count // 4]:
                assert bytes_of(item, disk.folder) == f"{item.step:08d}".encode() * (size // 8)
    assert not [*(tmp_path / "worker" / "spool").rglob("*.content")]
    assert "left out" not in await harness.output("t", lambda text: True)


@pytest.mark.long
async def test_a_store_that_is_missing_and_comes_back_gets_what_waits(
    tmp_path: Path, blocked_store: Path
) -> None:
    async with started(tmp_path, task_of(tmp_path, TASK, CLASS)) as harness:
        await run(harness, tmp_path / "progress", 300, 8)
        await tried_again("store_unreachable")
        await poll_until(_reached(tmp_path / "progress", MAX_UNSTORED_FILES - 1))
        await asyncio.to_thread(blocked_store.unlink)
        await asyncio.to_thread(blocked_store.mkdir)
        found = await images(harness)
        assert (await harness.end("t")).end is AttemptEnd.FINISHED
    assert sorted(item.step for item in found) == [*range(300)]


@pytest.mark.long
async def test_a_store_that_stays_away_costs_the_images_and_not_the_task(
    tmp_path: Path, blocked_store: Path
) -> None:
    catalogue = task_of(tmp_path, TASK, CLASS)
    async with started(tmp_path, catalogue, upload_timeout_s=0.5) as harness:
        await run(harness, tmp_path / "progress", 600, 8)
        assert (await harness.end("t")).end is AttemptEnd.FINISHED
        assert await images(harness) == []
        output = await harness.output("t", lambda text: "in all 600" in text)
    assert "a summary was left out (store_" in output
    assert not [*(tmp_path / "worker" / "spool").rglob("*.content")]


@pytest.mark.long
async def test_a_worker_that_leaves_does_not_wait_for_the_store_longer_than_it_may(
    tmp_path: Path, blocked_store: Path
) -> None:
    """Its setting is 1 s here, and the store would have 600 s."""
    loop = asyncio.get_running_loop()
    async with started(tmp_path, task_of(tmp_path, TASK, CLASS), stop_grace_s=1) as harness:
        await run(harness, tmp_path / "progress", 3, 8)
        await poll_until(_reached(tmp_path / "progress", 3))
        await tried_again("store_unreachable")
        told_s = loop.time()
    assert loop.time() - told_s < 120


def _reached(progress: Path, count: int) -> Callable[[], Awaitable[bool]]:
    """Returns whether the task has reported so many values."""

    async def reached() -> bool:
        return _progress(progress) >= count

    return reached


def _progress(path: Path) -> int:
    return int((path.read_text() if path.exists() else "") or 0)
