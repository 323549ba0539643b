"""Full disks under a worker's spool, cache and store: named in the task, and over once there is room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import WorkerHarness, error_of, of
from tests.integration.worker.saved import CLASS, all_in_store, class_of, put, told, tried_again
from tests.small_disk import SmallDisk, small_disk
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.worker.artifacts import inputs

MIB = 2**20
SAVES = class_of("""
trial.report(0.5)
trial.save("numbers", bytes(trial.parameters()["bytes"]))
return {"done": True}
""")
CATCHES = class_of("""
try:
    trial.save("large", bytes(4 * 2**20))
except SaveError as error:
    code, said = error.code, str(error)
trial.save("small", b"1")
return {"code": code, "said": said}
""")
READS = class_of('return {"bytes": trial.input("words").stat().st_size}')


@pytest.fixture(params=["spool", pytest.param(".", marks=pytest.mark.long)], ids=["spool", "whole folder"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    """A small disk with the spool of the worker only, or with its whole folder."""
    with small_disk(tmp_path / "worker" / request.param, "16m") as mounted:
        yield mounted


async def ended(harness: WorkerHarness, task_id: str, size: int = 0) -> AttemptEnded:
    return await harness.ended(task_id, {"bytes": size}, task_type="a")


async def test_a_full_disk_of_the_spool_fails_what_saves_and_nothing_else(
    tmp_path: Path, store: Path, disk: SmallDisk
) -> None:
    async with started(tmp_path, task_of(tmp_path, SAVES, CLASS)) as harness:
        await harness.joined()  # which removes what isn't of the worker
        disk.fill(leave_bytes=2 * MIB)
        error = error_of(await ended(harness, "large", 4 * MIB), "SAVE", "spool_full")
        assert f"the disk of the spool {tmp_path}/worker/spool is full" in error.message
        assert (await ended(harness, "small", 1_000)).end is AttemptEnd.FINISHED
        disk.empty()
        assert (await ended(harness, "again", 4 * MIB)).end is AttemptEnd.FINISHED
        assert told(all_in_store(store, await harness.events_so_far("again"))) == [(1, "numbers", 1, "file")]
    assert not [*(tmp_path / "worker" / "spool").glob("*/*")]


async def test_a_task_that_catches_a_full_spool_goes_on_and_saves_less(tmp_path: Path, store: Path) -> None:
    async with started(tmp_path, task_of(tmp_path, CATCHES, CLASS), spool_bytes=2 * MIB) as harness:
        end = await ended(harness, "t")
        assert end.result is not None, end.error
        assert end.result["code"] == "spool_full"
        assert "TRACKSIDE_WORKER_SPOOL_BYTES" in end.result["said"]
        assert told(all_in_store(store, await harness.events_so_far("t"))) == [(1, "small", 1, "file")]


async def test_without_room_in_the_cache_a_task_fails_to_load_and_another_one_runs(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "RETRY_AFTER_S", (0.05, 0.1))
    words = put(store, bytes(4 * MIB))
    with small_disk(tmp_path / "cache", "16m") as disk:
        async with started(tmp_path, task_of(tmp_path, READS, CLASS), cache_dir=disk.folder) as harness:
            disk.fill(leave_bytes=2 * MIB)
            failed = await harness.ended("t", task_type="a", inputs={"words": words})
            error = error_of(failed, "LOAD", "cache_unusable")
            for said in ("input 'words'", str(disk.folder), "make room on its disk"):
                assert said in error.message
            monkeypatch.setattr(inputs, "RETRY_AFTER_S", (0.1,) * 300)
            await harness.run("again", task_type="a", inputs={"words": words})
            await harness.output("again", lambda text: "trying again" in text)
            disk.empty()
            assert (await harness.end("again")).result == {"bytes": 4 * MIB}


async def test_on_a_full_disk_of_the_store_an_attempt_ends_when_there_is_room(
    tmp_path: Path, missing_store: Path
) -> None:
    with small_disk(missing_store, "16m") as disk:
        disk.fill(leave_bytes=2 * MIB)
        async with started(tmp_path, task_of(tmp_path, SAVES, CLASS)) as harness:
            await harness.run("large", {"bytes": 4 * MIB}, task_type="a")
            await tried_again("store_full")
            assert (await ended(harness, "small", 1_000)).end is AttemptEnd.FINISHED
            assert not of(await harness.events_so_far("large"), ArtifactSaved)
            disk.empty()
            story = await harness.events_until_end("large")
            assert told(all_in_store(disk.folder, story)) == [(1, "numbers", 1, "file")]
            assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED
