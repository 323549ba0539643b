"""Files that users take away: artifacts from the store, and all trials of a search."""

import csv
import io
import tarfile
import tracemalloc
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from tests.integration.console.given import Browser
from tests.integration.projections.given_jobs import GivenJob, write_jobs
from tests.integration.projections.given_trials import write_search
from tests.integration.projections.harness import query
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.console.pages.searches.artifact_routes import add_artifacts
from trackside.console.pages.searches.exports import Exports, TrialsExport, add_exports
from trackside.console.web.store import OpenedStore, opened_store
from trackside.console.web.users import Role, User
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.pages.trials_page import BATCH_TRIALS, TrialFilter

PAGE = "/tasks/batch/batch.1"
HTML = b"<script>alert(1)</script>"
TRACE = "0af7651916cd43dd8448eb211c80319c"
VIEWER = User("vera", Role.VIEWER)
_ARTIFACT = """
INSERT INTO artifacts (
    log_partition, log_offset, stream_id, task_id, attempt, placement, number, name, version, kind, uri,
    sha256, size_bytes, media_type, metadata, saved_ms
) SELECT 0, count(*), 'batch', 'batch.1', 1, 1, count(*), $1, 1, 'file', $2, $3, $4, $5, '{}', 1000
FROM artifacts
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "store").mkdir()
    return open_store(StoreSettings(store=str(tmp_path / "store")))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rows(module_tables: str) -> str:
    """Returns a database with a task, to which tests add artifacts of different names."""
    async with opened_database(module_tables) as opened:
        fields = {"stream": "batch", "task_type": "t", "name": "", "state": "ended", "ending": "finished"}
        await write_jobs(opened, [GivenJob("batch.1", {**fields, "started_ms": 1, "ended_ms": 2})])
    await query(module_tables, "UPDATE tasks SET trace_id = $1", TRACE)
    return module_tables


async def save(database: str, name: str, reference: ArtifactReference) -> None:
    """Writes the row of an artifact."""
    values = (reference.uri, reference.sha256, reference.size_bytes, reference.media_type)
    await query(database, _ARTIFACT, name, *values)


async def download(rows: str, opened: OpenedStore, query: str) -> httpx2.Response:
    """Returns the answer to a viewer who downloads an artifact."""
    browser = Browser(rows, user=VIEWER)
    async with browser.client(lambda app, pages: add_artifacts(app, pages, opened)) as client:
        return await client.get(f"{PAGE}/artifact?{query}")


async def test_a_file_is_sent_as_an_attachment_of_bytes_and_never_as_html(rows: str, store: Store) -> None:
    await save(rows, 'über "it".html', store.put(HTML, media_type="text/html"))
    answer = await download(rows, OpenedStore(store), "name=%C3%BCber%20%22it%22.html&version=1")
    assert answer.status_code == 200 and answer.content == HTML
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-length"] == str(len(HTML))
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith('attachment; filename="_ber__it_.html-1"')


async def test_a_folder_is_sent_as_an_archive_of_its_files(rows: str, store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "deep").mkdir(parents=True)
    (folder / "weights").write_bytes(bytes(range(256)) * 10)
    (folder / "deep" / "notes.txt").write_text("some")
    await save(rows, "folder", store.put(folder))
    answer = await download(rows, OpenedStore(store), "name=folder&version=1")
    assert 'filename="folder-1.tar"' in answer.headers["content-disposition"]
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        assert sorted(archive.getnames()) == ["folder@1/deep/notes.txt", "folder@1/weights"]
        weights = archive.extractfile("folder@1/weights")
        assert weights is not None and weights.read() == bytes(range(256)) * 10


async def test_without_a_store_the_answer_says_what_to_do(rows: str, store: Store) -> None:
    await save(rows, "model", store.put(b"bytes"))
    answer = await download(rows, opened_store(StoreSettings(store="")), "name=model&version=1")
    assert answer.status_code == 503 and "set TRACKSIDE_STORE for the console" in answer.text
    assert "trackside artifacts get batch/batch.1/model@1" in answer.text
    assert "content-disposition" not in answer.headers


async def test_what_the_store_lacks_and_what_is_outside_of_it_is_refused_with_the_reason(
    rows: str, store: Store
) -> None:
    lost = ArtifactReference(uri=f"store:sha256/{'a' * 64}", sha256="a" * 64, size_bytes=3)
    outside = ArtifactReference(uri="file:///etc/passwd", sha256="b" * 64, size_bytes=3)
    await save(rows, "lost", lost)
    await save(rows, "outside", outside)
    answers = {
        name: await download(rows, OpenedStore(store), f"name={name}&version=1")
        for name in ("lost", "outside", "unknown")
    }
    assert {each.status_code for each in answers.values()} == {404}
    assert "has no blob" in answers["lost"].text
    assert "outside the store, at file:///etc/passwd" in answers["outside"].text
    assert "has saved no artifact unknown@1" in answers["unknown"].text


async def test_the_page_of_a_task_links_its_artifacts_and_its_trace(rows: str, store: Store) -> None:
    await save(rows, "a&b", store.put(b"bytes"))
    page = await Browser(rows).page(PAGE)
    assert f'href="{PAGE}/artifact?name=a%26b&amp;version=1"' in page
    assert f'<span class="mono">{TRACE}</span>' in page and "TRACKSIDE_CONSOLE_TRACE_URL" in page
    linked = Browser(rows, trace_url="https://traces.example.org/trace/{trace_id}")
    assert f'href="https://traces.example.org/trace/{TRACE}"' in await linked.page(PAGE)


async def many_trials(database: str, trials: int) -> None:
    """Writes a search with many trials that have long texts as parameters."""
    await write_search(database, "many", [])
    await query(database, """UPDATE searches SET spec = '{"space": {"x": {}, "text": {}}}'""")
    await query(
        database,
        """INSERT INTO trackside.trials (search_id, trial, task_id, status, source, space_version, value,
        parameters, suggested_ms, ended_ms, report_steps, report_values)
        SELECT 'many', n, 'many.' || n, CASE n % 2 WHEN 0 THEN 'SUCCEEDED' ELSE 'FAILED' END, 'algorithm', 1,
        -n, jsonb_build_object('x', n, 'text', repeat('"', 300)), n, n + 1500, '{}', '{}'
        FROM generate_series(0, $1 - 1) AS n""",
        trials,
    )


async def test_the_trials_of_the_list_are_exported_in_its_order(tables: str) -> None:
    await many_trials(tables, 2_500)
    browser = Browser(tables, user=VIEWER)
    exports = Exports(browser.pages, tables)
    async with browser.client(lambda app, _: add_exports(app, exports)) as client:
        query = "?sort=value&order=asc&status=SUCCEEDED"
        answer = await client.get(f"/experiments/many/trials.csv{query}")
        missing = await client.get("/experiments/none/trials.csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 1_250
    assert [rows[0]["trial"], rows[1]["trial"], rows[-1]["trial"]] == ["2498", "2496", "0"]
    assert rows[0]["x"] == "2498" and rows[0]["duration_s"] == "1.5"
    assert 'filename="many-trials.csv"' in answer.headers["content-disposition"]
    assert missing.status_code == 404 and "no experiment none" in missing.text
    exports.close()


@pytest.mark.long
async def test_an_export_takes_the_memory_of_a_few_batches(tables: str) -> None:
    await many_trials(tables, 16_000)
    exports = Exports(Browser(tables).pages, tables)
    export = TrialsExport("many", ["x", "text"], TrialFilter("value"))
    sent, batches = 0, 0
    tracemalloc.start()
    try:
        async for each in exports.lines(export):
            assert each.count("\n") <= BATCH_TRIALS
            sent, batches = sent + len(each), batches + 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        exports.close()
    assert batches == 17 and sent > 9_600_000
    assert peak < 6_000_000
