"""Summaries over HTTP: what the pages answer, and how they refuse what can't be answered."""

import asyncio
import json

import asyncpg
import numpy as np
import pytest

from tests.integration.summaries.given import items, points
from tests.integration.summaries.site import Site
from trackside.summaries.event_files.values import Graph, GraphNode, Image, TextRows

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0" + bytes(20)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


async def test_jobs_tags_and_curves_are_read_over_http(site: Site) -> None:
    """S2, S12, S20, S21."""
    await site.rows.write(points("s.1", "train/loss", [1.0, None, 0.5]), points("s.2", "train/loss", [2.0]))
    status, listed = await site.get("/summaries/jobs", limit=1)
    assert (status, listed["total"], listed["jobs"][0]["job_id"]) == (200, 2, "s.1")
    _, second = await site.get("/summaries/jobs", limit=1, cursor=listed["next_cursor"])
    assert second["jobs"] == (await site.get("/summaries/jobs", limit=1, offset=1))[1]["jobs"]
    _, job = await site.get("/summaries/jobs/s.1")
    assert (job["points"], job["tags"], job["cache_status"]) == (3, {"scalar": 1}, "NOT_IN_CACHE")
    _, tags = await site.get("/summaries/jobs/s.1/tags", kind="scalar")
    assert [tag["tag"] for tag in tags["tags"]] == ["train/loss"]
    _, found = await site.get("/summaries/jobs/s.1/scalars", tag="train/loss", axis="wall", from_step=0)
    (curve,) = found["curves"]
    assert (curve["steps"], curve["positions"]) == ([0, 1, 2], [0, 1_000, 2_000])
    assert (curve["values"], curve["non_finite"]) == ([1.0, None, 0.5], {"1": "nan"})
    both = await site.raw("/summaries/scalars?job=s.2&job=s.1&tag=train/loss&limit=all")
    assert [each["job_id"] for each in both[1]["curves"]] == ["s.2", "s.1"]


async def test_a_job_whose_times_are_no_dates_is_listed_with_the_others(site: Site) -> None:
    """A wall time of 5e11 s in one event file."""
    far = points("far", "loss", [1.0, 0.5])
    series = [each.model_copy(update={"times_ms": [500_000_000_000_000, 2**63 - 1]}) for each in far.series]
    await site.rows.write(far.model_copy(update={"series": series}), points("near", "loss", [1.0]))
    status, listed = await site.get("/summaries/jobs")
    assert (status, {job["job_id"] for job in listed["jobs"]}) == (200, {"far", "near"})
    status, curves = await site.get("/summaries/jobs/far/scalars", tag="loss", axis="wall")
    assert (status, curves["curves"][0]["values"]) == (200, [1.0, 0.5])


async def test_values_of_other_kinds_are_read_over_http(site: Site) -> None:
    """S14, S21."""
    graph = Graph([GraphNode("layer/weight", "Op", [], []), GraphNode("layer/bias", "Op", [], [])])
    long_text = TextRows(["long " * 10_000])
    await site.rows.write(
        items(
            "j",
            site.item("text", TextRows(["hello"]), 1),
            site.item("text", long_text, 2),
            site.item("tensor", np.arange(20_000.0).reshape(100, 200)),
            site.item("graph", graph),
        )
    )
    _, texts = await site.get("/summaries/jobs/j/texts", tag="a")
    assert (texts["steps"], [value["step"] for value in texts["values"]]) == (2, [1, 2])
    _, text = await site.get("/summaries/jobs/j/texts/a/2")
    assert text["body"]["value"]["texts"] == long_text.texts
    _, sliced = await site.get("/summaries/jobs/j/tensors/a/0", part="slice", dims="[1, 0:2]")
    assert (sliced["slice"], sliced["shape"]) == ([200.0, 201.0], [100, 200])
    assert (await site.get("/summaries/jobs/j/tensors/a/0"))[1]["statistics"]["maximum"] == 19_999
    _, top = await site.get("/summaries/jobs/j/graphs/a/0")
    assert [(node["path"], node["nodes"]) for node in top["nodes"]] == [("layer", 2)]
    assert (await site.get("/summaries/jobs/j/graphs/a/0", search="bias"))[1]["total"] == 1
    assert (await site.get("/summaries/jobs/j/graphs/a/0", all="true"))[1]["total"] == 2


async def test_a_picture_is_served_as_one_and_svg_only_as_a_download(site: Site) -> None:
    """S21."""
    fake = site.item("image", Image(SVG, 0, 0), 1)
    assert fake.artifact is not None
    claimed = fake.artifact.model_copy(update={"media_type": "image/svg+xml"})
    pictures = [
        site.item("image", Image(PNG, 3, 2), tag="a/b c"),
        fake.model_copy(update={"artifact": claimed, "tag": "a/b c"}),
    ]
    await site.rows.write(items("j", *pictures))
    _, listed = await site.get("/summaries/jobs/j/images", tag="a/b c")
    assert [value["step"] for value in listed["values"]] == [0, 1]
    async with site.client.get(f"{site.address}/summaries/jobs/j/images/a%2Fb%20c/0") as answer:
        assert (answer.content_type, await answer.read()) == ("image/png", PNG)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    async with site.client.get(f"{site.address}/summaries/jobs/j/images/a/b c/1") as answer:
        assert (answer.content_type, await answer.read()) == ("application/octet-stream", SVG)
        assert answer.headers["Content-Disposition"] == "attachment"
        assert "sandbox" in answer.headers["Content-Security-Policy"]


async def test_what_can_not_be_answered_is_refused_as_json(site: Site) -> None:
    """S5, S11, S21."""
    await site.rows.write(points("j", "loss", [1.0]), items("j", site.item("text", TextRows(["a"]))))
    for target, status, code, path in (
        ("/summaries/jobs/nobody", 404, "unknown_job", "job"),
        ("/summaries/jobs/%2e%2e", 400, "bad_query", "job"),
        ("/summaries/jobs/a..b", 400, "bad_query", "job"),
        ("/summaries/jobs/a%00b", 400, "bad_query", "job"),
        ("/summaries/jobs/j/../../health", 404, "unknown_page", ""),
        ("/summaries/scalars?job=j%00", 400, "bad_query", "job"),
        ("/summaries/scalars", 400, "bad_query", "job"),
        ("/summaries/scalars?job=j&tag=los", 404, "unknown_tag", "tag"),
        ("/summaries/scalars?job=j&tag=%00", 404, "unknown_tag", "tag"),
        ("/summaries/scalars?job=j&tag=%ff%fe", 404, "unknown_tag", "tag"),
        ("/summaries/scalars?job=j&smooth=1", 400, "bad_query", "smooth"),
        ("/summaries/scalars?job=j&limit=0", 400, "bad_query", "limit"),
        ("/summaries/scalars?job=j&limit=True", 400, "bad_query", "limit"),
        ("/summaries/scalars?job=j&limit=1&limit=2", 400, "bad_query", "limit"),
        ("/summaries/scalars?job=j&from_step=9223372036854775808", 400, "bad_query", "from_step"),
        ("/summaries/scalars?job=j&axis=up", 400, "bad_query", "axis"),
        ("/summaries/scalars?" + "&".join(["job=j"] * 101), 413, "too_many_values", "job"),
        ("/summaries/scalars?job=j&tag=" + "a" * 62_000, 413, "too_many_values", ""),
        ("/summaries/jobs?limit=1000", 400, "bad_query", "limit"),
        ("/summaries/jobs?page=-1", 400, "bad_query", "page"),
        ("/summaries/jobs?cursor=1", 400, "bad_query", "cursor"),
        ("/summaries/jobs/j/texts/a/7", 404, "unknown_step", "step"),
        ("/summaries/jobs/j/texts/a/0?index=4", 404, "unknown_step", "step"),
        ("/summaries/jobs/j/texts", 400, "bad_query", "tag"),
        ("/summaries/jobs/j/sounds?tag=a", 404, "unknown_page", ""),
        ("/nothing", 404, "unknown_page", ""),
    ):
        found, answer = await site.raw(target)
        error = answer["error"]
        assert (found, error["code"], error["path"]) == (status, code, path), target[:80]
    async with site.client.post(f"{site.address}/summaries/jobs") as posted:
        assert (posted.status, (await posted.json())["error"]["code"]) == (405, "bad_method")
        assert posted.headers["Allow"] == "GET, HEAD"
    assert (await site.get("/health"))[1]["alive"] is True


async def test_a_query_that_waits_too_long_is_cancelled_and_refused(site: Site, database: str) -> None:
    await site.rows.write(points("j", "loss", [1.0]))
    blocker = await asyncpg.connect(database)
    async with blocker.transaction():
        await blocker.execute("LOCK TABLE trackside.metric_points IN ACCESS EXCLUSIVE MODE")
        status, answer = await site.get("/summaries/scalars", job="j")
        assert (status, answer["error"]["code"]) == (503, "query_timeout")
        assert (await site.get("/summaries/jobs"))[0] == 200
    await blocker.close()
    assert (await site.get("/summaries/scalars", job="j"))[0] == 200


async def test_reads_are_refused_while_there_is_nothing_to_read(site: Site, database: str) -> None:
    """S7."""
    reads, site.api.reads = site.api.reads, None
    assert (await site.get("/summaries/jobs"))[1]["error"]["code"] == "still_loading"
    site.api.reads = reads
    connection = await asyncpg.connect(database)
    await connection.execute("ALTER SCHEMA trackside RENAME TO away")
    assert (await site.get("/summaries/jobs"))[1]["error"]["code"] == "still_loading"
    await connection.execute("ALTER SCHEMA away RENAME TO trackside")
    await connection.close()
    assert (await site.get("/summaries/jobs"))[0] == 200


async def test_an_error_of_ours_is_an_answer_and_not_the_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(job_id: str) -> str:
        raise ZeroDivisionError(job_id)

    await site.rows.write(points("j", "loss", [1.0]))
    assert site.api.reads is not None
    with monkeypatch.context() as patch:
        patch.setattr(site.api.reads.curves.cache, "status", broken)
        status, answer = await site.get("/summaries/jobs/j")
        assert (status, answer["error"]["code"]) == (500, "internal_error")
    assert (await site.get("/summaries/jobs/j"))[0] == 200


async def test_hundreds_of_requests_at_once_are_answered_or_refused(site: Site) -> None:
    await site.rows.write(points("j", "loss", [1.0]))
    found = await asyncio.gather(*(site.get("/summaries/scalars", job="j") for _ in range(150)))
    assert {status for status, _ in found} <= {200, 503}
    assert json.loads(json.dumps(found[0][1]))["curves"][0]["values"] == [1.0]
