"""Search, lineage and kinds of packages over HTTP."""

import json

import asyncpg
import pytest

from tests.integration.projections.given_jobs import GivenJob, write_artifacts, write_jobs
from tests.integration.summaries.given import items, points
from tests.integration.summaries.site import Site
from trackside.contracts.tasks.summaries import ItemArtifact, ReportedItem
from trackside.projections.summaries import items as stored_items
from trackside.summaries.event_files.values import Graph, GraphNode, Histogram, HParams, TextRows
from trackside.summaries.kinds.kind import Packed, SummaryKind
from trackside.summaries.kinds.registry import KINDS

ENDED = {"stream": "s", "task_type": "a", "state": "ended", "ending": "finished", "started_ms": 1_000}


def task(job_id: str, rate: float, loss: float) -> GivenJob:
    """Returns a task with a parameter and a metric of one point."""
    return GivenJob(job_id, dict(ENDED), {"rate": rate}, metrics={"loss": {1: {0: loss}}})


async def test_jobs_are_searched_over_http_page_by_page(site: Site) -> None:
    """S22."""
    jobs = [task(f"s.{at}", at / 10, 1.0 / (1 + at)) for at in range(4)]
    jobs.append(GivenJob("summary-1", params={}, reported={"rate": 9}, remark="best \u5b57", tag=3))
    await write_jobs(site.rows.database, jobs)
    asked = {"where": "params.rate >= 0.1 and metrics.loss.min < 0.9", "sort": "metrics.loss.last"}
    status, found = await site.get("/summaries/search", **asked, limit=2)
    assert (status, found["total"], [job["id"] for job in found["jobs"]]) == (200, 3, ["s.3", "s.2"])
    assert found["jobs"][0]["metrics"]["loss"]["min"] == 0.25
    assert found["jobs"][0]["started_at"] == "1970-01-01T00:00:01+00:00"
    assert found["types"] == {
        "params.rate": "float",
        "metrics.loss.min": "float",
        "metrics.loss.last": "float",
    }
    _, second = await site.get("/summaries/search", **asked, limit=2, cursor=found["next_cursor"])
    assert ([job["id"] for job in second["jobs"]], second["next_cursor"]) == (["s.1"], None)
    _, remarked = await site.get("/summaries/search", where='remark contains "\u5b57"', column="params.rate")
    assert [(job["id"], job["tag"], job["params"]) for job in remarked["jobs"]] == [
        ("summary-1", 3, {"rate": 9})
    ]
    _, falling = await site.get("/summaries/search", sort="params.rate", descending="true", limit=1)
    assert [job["id"] for job in falling["jobs"]] == ["summary-1"]
    assert (await site.get("/summaries/search"))[1]["total"] == 5


async def test_a_search_that_can_not_be_answered_is_refused_with_its_place(site: Site, database: str) -> None:
    """S22: and one that would take minutes is cancelled."""
    await write_jobs(site.rows.database, [task("s.1", 0.1, 0.5)])
    deep = "not " * 31 + "tag == 1"
    for parameters, code, path, said in (
        ({"where": "params.rat > 0"}, "unknown_parameter", "where", "rate"),
        ({"where": "params.rate >"}, "bad_filter", "where", "column"),
        ({"where": deep}, "filter_too_deep", "where", "30"),
        ({"sort": "tags"}, "wrong_type", "sort", "tags"),
        ({"limit": 1_000}, "limit_range", "limit", "999"),
        ({"cursor": "AAAA"}, "bad_cursor", "cursor", "cursor"),
        ({"from_step": 1}, "bad_query", "from_step", "expected column, cursor"),
    ):
        status, answer = await site.get("/summaries/search", **parameters)
        error = answer["error"]
        assert (status, error["code"], error["path"]) == (400, code, path), error
        assert said in error["message"] + error["hint"], error
    columns = "&".join(["column=tag"] * 51)
    assert (await site.raw(f"/summaries/search?{columns}"))[1]["error"]["code"] == "too_long"
    nul = await site.get("/summaries/search", where="remark == '\0'")
    assert (nul[0], nul[1]["total"]) == (200, 0), "no row has it"
    blocker = await asyncpg.connect(database)
    async with blocker.transaction():
        await blocker.execute("LOCK TABLE trackside.tasks IN ACCESS EXCLUSIVE MODE")
        status, answer = await site.get("/summaries/search", where="params.rate > 0")
        assert (status, answer["error"]["code"]) == (503, "search_too_slow")
    await blocker.close()
    assert (await site.get("/summaries/search", where="params.rate > 0"))[0] == 200


async def test_a_condition_of_the_greatest_length_fits_in_a_request(site: Site) -> None:
    """Each of its characters is nine in the address."""
    text = "\u5b57" * (4_000 - len('remark == ""'))
    status, found = await site.get("/summaries/search", where=f'remark == "{text}"')
    assert (status, found["total"]) == (200, 0)


async def test_lineage_is_read_over_http(site: Site) -> None:
    """S22."""
    saved, used = ("prepare", "set", "d"), ("train", "set", "d", "prepare")
    await site.rows.read(lambda connection: write_artifacts(connection, [saved], [used]))
    _, train = await site.get("/summaries/jobs/train/lineage")
    assert [row["source"] for row in train["inputs"]] == ["s/prepare/set@1"]
    assert train["inputs"][0]["submitted_at"] == "1970-01-01T00:00:00.006000+00:00"
    assert [(row["level"], row["job_id"]) for row in train["upstream"]] == [(1, "prepare")]
    _, prepare = await site.get("/summaries/jobs/prepare/lineage")
    assert [row["job_id"] for row in prepare["downstream"]] == ["train"]
    dataset = KINDS["text"].pack(TextRows(['{"op": "Batch", "ratio": NaN, "large": 1e999}'])).body
    item = ReportedItem(kind="text", tag="lineage/dataset", step=0, time_ms=1, body=dataset)
    await site.rows.write(items("summary-1", item))
    _, reported = await site.get("/summaries/jobs/summary-1/lineage")
    assert reported["reported"]["dataset"] == {"op": "Batch", "ratio": "nan", "large": "inf"}
    await site.rows.write(points("alone", "loss", [1.0]))
    assert (await site.get("/summaries/jobs/alone/lineage"))[1]["inputs"] == []
    status, answer = await site.get("/summaries/jobs/nobody/lineage")
    assert (status, answer["error"]["code"]) == (404, "unknown_job")


async def test_all_kinds_have_pages(site: Site) -> None:
    """S14: those that the words of paths name, and all of them by their names."""
    tree = Graph([GraphNode("layer/weight", "Op", [], [])])
    values = {
        "hparams": HParams({"rate": 0.1}, ["loss"]),
        "histogram": Histogram([0.0, 1.0], [1.0, 2.0], [3.0, 4.0]),
        "optimized_graph": tree,
    }
    await site.rows.write(items("j", *(site.item(kind, value) for kind, value in values.items())))
    for word, kind in (
        ("hparams", "hparams"),
        ("histograms", "histogram"),
        ("optimized_graphs", "optimized_graph"),
    ):
        _, page = await site.get(f"/summaries/jobs/j/{word}", tag="a")
        assert [value["kind"] for value in page["values"]] == [kind]
        assert (await site.get(f"/summaries/jobs/j/values/{kind}", tag="a"))[1] == page
        one = await site.get(f"/summaries/jobs/j/{word}/a/0")
        assert one[0] == 200 and one == await site.get(f"/summaries/jobs/j/values/{kind}/a/0")
    assert (await site.get("/summaries/jobs/j/optimized_graphs/a/0", all="true"))[1]["total"] == 1


async def test_a_kind_of_a_package_has_pages(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """S14."""
    audio = SummaryKind(
        "audio", 1, lambda value: Packed({}, value, "audio/wav"), lambda _, data: data, _lines
    )
    monkeypatch.setattr(stored_items, "KINDS", {**KINDS, "audio": audio})
    saved = site.store.put(b"RIFF")
    artifact = ItemArtifact(sha256=saved.sha256, size_bytes=4, media_type="audio/wav")
    heard = [
        ReportedItem(kind="audio", tag="a/b", step=at, time_ms=9, body={"s": at}, artifact=artifact)
        for at in (1, 2)
    ]
    await site.rows.write(items("j", *heard))
    _, page = await site.get("/summaries/jobs/j/values/audio", tag="a/b")
    assert (page["steps"], [value["body"] for value in page["values"]]) == (2, [{"s": 2}])
    async with site.client.get(f"{site.address}/summaries/jobs/j/values/audio/a/b/1") as answer:
        assert (answer.content_type, await answer.read()) == ("application/octet-stream", b"RIFF")
        assert answer.headers["Content-Disposition"] == "attachment"
    for name in ("video", "scalar", "..", "a%00b"):
        status, refused = await site.raw(f"/summaries/jobs/j/values/{name}?tag=a")
        assert (status, refused["error"]["code"]) in ((400, "bad_query"), (404, "unknown_page")), name


async def test_a_value_that_a_task_wrote_as_bad_json_is_refused(site: Site) -> None:
    for at, content in enumerate((b"{", b"[" * 100_000, json.dumps({"a": float("nan")}).encode())):
        saved = site.store.put(content)
        artifact = ItemArtifact(sha256=saved.sha256, size_bytes=len(content), media_type="application/json")
        item = ReportedItem(kind="hparams", tag="a", step=at, time_ms=9, body={}, artifact=artifact)
        await site.rows.write(items("j", item))
    for step in (0, 1):
        status, answer = await site.get(f"/summaries/jobs/j/hparams/a/{step}")
        assert (status, answer["error"]["code"]) == (500, "unreadable_value")
    assert (await site.get("/summaries/jobs/j/hparams/a/2"))[1]["body"]["value"] == {"a": "nan"}


def _lines(body: object, width: int) -> list[str]:
    return [str(body)]
