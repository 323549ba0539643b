"""Commands about jobs as a user types them: answered by a dispatcher, and their outcome read back."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.command_line import tried
from tests.integration.projections.harness import running_projections
from tests.integration.summary_indexer.harness import POINTS_PER_BATCH, WORKER, IndexerProcess, batch, publish
from tests.integration.summary_indexer.watched import Runs, append, begin_file
from tests.polling import poll_until
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.contracts.tasks.summaries import ItemArtifact, ReportedItem, SummaryItemsReported

STREAM, TASK = "s", "s.1"


@dataclass(frozen=True)
class Typed:
    """Types commands of `trackside summaries`."""

    capsys: pytest.CaptureFixture[str]

    async def tried(self, *arguments: str) -> tuple[int, str, str]:
        return await asyncio.to_thread(tried, self.capsys, *arguments)

    async def done(self, *arguments: str) -> str:
        code, out, err = await self.tried("summaries", *arguments)
        assert code == 0, err
        return out

    async def refused(self, *arguments: str, code: int = 2) -> str:
        """Returns what is said of a command that must be refused with an exit code."""
        found, out, err = await self.tried("summaries", *arguments)
        assert (found, out) == (code, ""), (out, err)
        return err

    async def shown(self, job: str) -> dict[str, Any]:
        """Returns what `show` knows of a job; nothing if there is no such job."""
        code, out, _ = await self.tried("summaries", "show", job, "--json")
        found: dict[str, Any] = json.loads(out) if code == 0 else {}
        return found

    async def until_shown(self, job: str, holds: Callable[[dict[str, Any]], bool]) -> None:

        async def is_shown() -> bool:
            found = await self.shown(job)
            return bool(found) and holds(found)

        await poll_until(is_shown)

    async def listed(self, *options: str) -> dict[str, dict[str, Any]]:
        code, out, err = await self.tried("summaries", "ls", "--json", *options)
        if code == 1 and "the read models are not there" in err:
            return {}  # no service has made its tables yet
        assert code == 0, err
        return {job["job_id"]: job for job in json.loads(out)["jobs"]}


@pytest.fixture
async def indexer(own_runs: Runs, commands_find_it: None) -> AsyncIterator[IndexerProcess]:
    """Yields an indexer that runs beside a dispatcher; commands of this process find both."""
    topics, dsn = own_runs.sandbox.topics, own_runs.sandbox.dsn
    async with running_projections(own_runs.log, dsn, "dispatcher", "scheduler", topics=topics):
        yield await own_runs.sandbox.indexer().start()


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(capsys)


@pytest.mark.usefixtures("indexer")
async def test_what_people_say_of_a_task_is_shown_and_a_wrong_word_is_refused(
    own_runs: Runs, typed: Typed
) -> None:
    """S13, S22."""
    await publish(own_runs.log, own_runs.sandbox.topics, TASK, batch(TASK, 0))
    await typed.until_shown(TASK, lambda job: job["points"] == POINTS_PER_BATCH)
    await typed.done("annotate", TASK, "--tag", "10", "--remark", "r" * 128)
    await typed.until_shown(TASK, lambda job: (job["tag"], job["remark"]) == (10, "r" * 128))
    assert (await typed.listed())[TASK]["tag"] == 10

    assert "128" in await typed.refused("annotate", TASK, "--remark", "r" * 129)
    assert "equal to 10" in await typed.refused("annotate", TASK, "--tag", "11")

    await typed.done("delete", TASK, "--reason", "wrong")
    await typed.until_shown(TASK, lambda job: job["status"] == "DELETED")
    assert TASK not in await typed.listed() and TASK in await typed.listed("--all")
    await typed.done("restore", TASK)
    await typed.until_shown(TASK, lambda job: job["status"] == "ACTIVE" and job["points"] > 0)
    await typed.done("delete", TASK, "--purge")
    await typed.until_shown(TASK, lambda job: job["status"] == "DELETED" and job["points"] == 0)
    await typed.done("restore", TASK)
    await typed.until_shown(TASK, lambda job: job["status"] == "ACTIVE")
    found = await typed.shown(TASK)
    assert (found["points"], found["tag"], found["remark"]) == (0, 10, "r" * 128)
    await publish(own_runs.log, own_runs.sandbox.topics, TASK, batch(TASK, 100))
    await typed.until_shown(TASK, lambda job: job["points"] == POINTS_PER_BATCH)


@pytest.mark.long
async def test_a_quarantined_file_is_read_again_and_a_job_is_cached_on_command(
    indexer: IndexerProcess, typed: Typed, own_runs: Runs
) -> None:
    """S5, S6."""
    file = begin_file(own_runs.base / "a", steps=range(10))
    whole = file.read_bytes()
    append(file, b"x" * 40)
    code, _, _ = await typed.tried("summaries", "import", str(own_runs.base))
    assert code == 1

    async def is_listed() -> bool:
        return any(job["quarantined"] and job["points"] for job in (await typed.listed()).values())

    await poll_until(is_listed)
    [job] = await typed.listed()
    said = await typed.refused("retry", job, f"{file.name}x")
    assert "unknown_summary_file" in said and f"has no file '{file.name}x'" in said and file.name in said
    await typed.done("retry", job, file.name)
    await typed.until_shown(job, lambda found: found["file_list"][0]["again_at_ms"] is None)
    file.write_bytes(whole)
    await typed.done("import", str(own_runs.base))
    await typed.until_shown(job, lambda found: found["quarantined"] == 0 and found["points"] == 10)

    await indexer.until(f"/summaries/jobs/{job}", lambda shown: shown["cache_status"] == "NOT_IN_CACHE")
    await typed.done("cache", job)
    await indexer.until(f"/summaries/jobs/{job}", lambda shown: shown["cache_status"] == "CACHED")
    for command in (("annotate", "--tag", "1"), ("cache",), ("delete",), ("restore",), ("retry",)):
        assert "there is no job 'summary-0'" in await typed.refused(*command, "summary-0", code=1)


@pytest.mark.long
@pytest.mark.usefixtures("commands_find_it")
async def test_an_image_that_the_store_has_lost_is_found_by_verify_log(own_runs: Runs, typed: Typed) -> None:
    """S14, INV-22: its record is in the topic of metrics, not among the events."""
    store = open_store(StoreSettings(store=str(own_runs.sandbox.folder / "store")))
    image = store.put(b"an image")
    artifact = ItemArtifact(sha256=image.sha256, size_bytes=image.size_bytes, media_type="image/png")
    item = ReportedItem(kind="image", tag="digits", step=3, time_ms=1, body={"width": 1}, artifact=artifact)
    message = SummaryItemsReported(stream=STREAM, task_id=TASK, attempt=1, items=[item])
    await publish(own_runs.log, own_runs.sandbox.topics, TASK, WORKER.single(STREAM, message))
    code, out, err = await typed.tried("verify-log", "--store", "--digests", "--json")
    assert code == 0, err
    [checked] = [each for each in json.loads(out)["invariants"] if each["invariant"] == "INV-22"]
    assert (checked["checked"], checked["holds"]) == (1, True)
    store.delete(image.sha256, 2**53)
    code, out, _ = await typed.tried("verify-log", "--store")
    assert code == 1 and f"artifact_missing: file://{own_runs.sandbox.folder}" in out
    assert f"lacks image 'digits' of {TASK}, step 3, 8 B, sha256 {image.sha256}" in out
