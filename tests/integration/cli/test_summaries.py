"""Jobs, curves and other values from the command line, from rows in Postgres and bytes in a store."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from tests.integration.command_line import answer, said, tried
from tests.integration.summaries.given import given_tables, items, points, reported
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.store import Store
from trackside.cli.render import screen
from trackside.contracts.tasks.summaries import MetricPointsReported, Series, SummaryUpdaterFailed
from trackside.eventlog.clock import now_ms
from trackside.summaries.event_files.values import Graph, GraphNode, Histogram, HParams, Image, TextRows

TASK, OTHER = "digits-1.7", "digits-1.8"
HIDDEN, EMPTY = "summary-00000000000000aa", "summary-00000000000000bb"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x03\x00\x00\x00\x02\x08\x02\x00\x00\x00" + bytes(8)
ROGUE = "a\x1b[31m/../b"
LOSSES = [2.0, 1.0, 0.5, 0.25]
GRAPH = Graph([GraphNode("net/conv", "Conv2D", ["in"], []), GraphNode("in", "Placeholder", [], [])])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(module_tables: str, store_folder: Path) -> str:
    """Returns a database with the rows of two tasks and two directories, one of them deleted."""
    store = Store(FileBlobs(store_folder))
    steps = [0, 1, 2]
    bad: Any = {0: "nan", 1: "-inf"}
    odd = Series(tag="odd", steps=steps, times_ms=steps, values=[None, None, 1.0], non_finite=bad)
    first, last = (
        Histogram([0.0, 1.0], [1.0, 2.0], counts, 0.0, 2.0, 3.0) for counts in ([3.0, 1.0], [0.0, 9.0])
    )
    values = [
        reported(store, "image", Image(PNG, 3, 2), 5, tag=ROGUE),
        reported(store, "histogram", first, 4, tag="weights"),
        reported(store, "histogram", last, 8, tag="weights"),
        reported(store, "tensor", np.arange(12.0).reshape(3, 4), 1, tag="t"),
        reported(store, "text", TextRows(["hello \x1b[2J there"]), 2, tag="notes"),
        reported(store, "graph", GRAPH, 0, tag="g"),
        reported(store, "hparams", HParams({"lr": 0.1}), 0, tag="h"),
    ]
    async with given_tables(module_tables) as rows:
        await rows.write(
            points(TASK, "loss", LOSSES, stream="digits-1"), items(TASK, *values, stream="digits-1")
        )
        await rows.write(points(TASK, "system/cpu", [1.0], first=9, stream="digits-1"))
        await rows.write(MetricPointsReported(stream="digits-1", task_id=TASK, attempt=1, series=[odd]))
        await rows.write(points(OTHER, "loss", [4.0, 3.0], stream="digits-1"))
        for name, time_ms in (("old", 1), ("leaderboard", now_ms() - 60_000), ("leaderboard", now_ms())):
            await rows.write(
                SummaryUpdaterFailed(name=name, error=f"bad\n{time_ms > 1}", failures=3, time_ms=time_ms)
            )
        await rows.directory(HIDDEN, "runs/old", 1, "DELETED")
        await rows.directory(EMPTY, "runs/new", 2)
        await rows.write(points(EMPTY, "loss", [9.0, 8.0, 7.0], stream=EMPTY))
    return module_tables


@pytest.fixture(autouse=True)
def narrow(store_address: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the commands find the store, and draw for 80 columns."""
    monkeypatch.setattr(screen, "WIDTH", 80)


def test_jobs_are_listed_newest_first_with_updaters_that_failed_within_a_day_and_if_asked_for_deleted_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S2, S13, S20."""
    found = answer(capsys, "summaries", "ls")
    assert [job["job_id"] for job in found["jobs"]] == [TASK, EMPTY, OTHER]
    assert (found["total"], found["next"]) == (3, None)
    shown = said(capsys, "summaries", "ls")
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.splitlines()[2].split()[0] == EMPTY and "runs/new" in shown
    assert "1 bad file" in shown
    code, _, err = tried(capsys, "summaries", "ls")
    assert code == 0 and err.count("updater leaderboard: 3 failed calls") == 1 and "old" not in err
    assert err.rstrip().endswith("bad\\nTrue")
    assert [(each["name"], each["failures"]) for each in found["failed_updaters"]] == [("leaderboard", 3)]
    states = {job["job_id"]: job["status"] for job in answer(capsys, "summaries", "ls", "--all")["jobs"]}
    assert states[HIDDEN] == "DELETED" and len(states) == 4


def test_pages_of_jobs_go_by_cursor_and_by_number(capsys: pytest.CaptureFixture[str]) -> None:
    """S20."""
    first = answer(capsys, "summaries", "ls", "--limit", "2")
    assert [job["job_id"] for job in first["jobs"]] == [TASK, EMPTY]
    second = answer(capsys, "summaries", "ls", "--limit", "2", "--after", first["next"])
    assert [job["job_id"] for job in second["jobs"]] == [OTHER]
    assert answer(capsys, "summaries", "ls", "--limit", "2", "--page", "1")["jobs"] == second["jobs"]
    code, _, err = tried(capsys, "summaries", "ls", "--limit", "2")
    assert code == 0 and f"--after {first['next']}" in err


def test_a_job_is_shown_with_charts_tags_and_files_and_curves_of_several_are_in_one_chart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S1, S12."""
    shown = said(capsys, "summaries", "show", TASK)
    assert "last 0.25" in shown and "│" in shown and "weights" in shown and "histogram" in shown
    assert "\x1b" not in shown and "a\\x1b[31m" in shown
    shown = said(capsys, "summaries", "show", EMPTY)
    assert "/data/runs/new" in shown and "1 quarantined" in shown
    assert "bad_crc: bad" in shown
    kinds = {tag["kind"] for tag in answer(capsys, "summaries", "show", TASK)["tags"]}
    assert kinds == {"scalar", "image", "histogram", "tensor", "text", "graph", "hparams"}
    lines = said(capsys, "summaries", "scalars", TASK, EMPTY, "--tag", "loss").splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) <= 22
    drawn = "\n".join(lines)
    assert f"A {TASK}  last 0.25" in drawn and "B runs/new  last 7" in drawn


def test_raw_points_say_what_is_not_finite_and_a_range_is_of_the_axis(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S21."""
    [curve] = answer(capsys, "summaries", "scalars", TASK, "--tag", "odd", "--raw")["curves"]
    assert curve["values"] == ["nan", "-inf", 1.0] and curve["steps"] == [0, 1, 2]
    table = list(csv.reader(io.StringIO(said(capsys, "summaries", "scalars", TASK, "-t", "odd", "--csv"))))
    assert table == [
        ["job", "tag", "attempt", "step", "time_ms", "value"],
        [TASK, "odd", "", "0", "0", "nan"],
        [TASK, "odd", "", "1", "1", "-inf"],
        [TASK, "odd", "", "2", "2", "1.0"],
    ]
    for options, steps in (
        (["--from", "1", "--to", "2"], [1, 2]),
        (["--axis", "relative", "--from", "2"], [2, 3]),
        (["--axis", "wall", "--to", "1970-01-01T00:00:01Z"], [0, 1]),
    ):
        found = answer(capsys, "summaries", "scalars", TASK, "--tag", "loss", *options)
        assert found["curves"][0]["steps"] == steps


def test_curves_are_smoothed_best_and_averaged_before_they_are_thinned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ask = ("summaries", "scalars", TASK, OTHER, "--tag", "loss")
    smooth = answer(capsys, *ask, "--smooth", "0.5", "--limit", "1")["curves"][0]
    assert smooth["values"][-1] == pytest.approx((2 / 8 + 1 / 4 + 0.5 / 2 + 0.25) * 0.5 / (1 - 0.5**4))
    best = answer(capsys, *ask, "--best", "max")["curves"][0]
    assert best["values"] == [2.0] * 4
    [spread] = answer(capsys, *ask, "--mean")["spreads"]
    assert spread["mean"] == [3.0, 2.0, 0.5, 0.25] and spread["count"] == [2, 2, 1, 1]
    assert "loss mean of 2" in said(capsys, *ask, "--mean")


def test_pictures_and_images_are_written_once_to_files_with_names_that_stay_in_the_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """S21."""
    path = tmp_path / "loss.svg"
    said(capsys, "summaries", "scalars", TASK, "--tag", "loss", "--picture", str(path))
    assert path.read_bytes().startswith(b"<?xml") and b"<script" not in path.read_bytes()
    code, _, err = tried(capsys, "summaries", "scalars", TASK, "--tag", "loss", "--picture", str(path))
    assert code == 2 and "exists already" in err
    [row] = answer(capsys, "summaries", "images", TASK)["values"]
    assert (row["step"], row["body"]["width"], row["body"]["height"]) == (5, 3, 2)
    assert "3x2" in said(capsys, "summaries", "images", TASK)
    out = tmp_path / "pictures"
    [written] = answer(capsys, "summaries", "images", TASK, "--step", "5", "--out", str(out))
    [file] = out.iterdir()
    assert file.read_bytes() == PNG and file.suffix == ".png" and written["file"] == str(file)
    assert set(file.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789[]._-m")
    code, _, err = tried(capsys, "summaries", "images", TASK, "--out", str(out))
    assert code == 2 and "exists already" in err


def test_values_of_each_kind_are_shown_and_a_graph_by_scope_by_search_and_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S14, S21; S21."""
    shown = said(capsys, "summaries", "histograms", TASK)
    assert "4 values in 2 buckets" in shown and "step 8" in shown and "█" in shown
    assert "step 4" in said(capsys, "summaries", "histograms", TASK, "--step", "4")
    assert "float64 [3, 4]" in said(capsys, "summaries", "tensors", TASK)
    assert json.loads(said(capsys, "summaries", "tensors", TASK, "--slice", "[1, 1:3]")) == [5.0, 6.0]
    text = said(capsys, "summaries", "text", TASK)
    assert "hello \\x1b[2J there" in text and "\x1b" not in text
    assert "lr" in said(capsys, "summaries", "values", TASK, "hparams")
    assert [node["path"] for node in answer(capsys, "summaries", "graph", TASK)["nodes"]] == ["net", "in"]
    [node] = answer(capsys, "summaries", "graph", TASK, "--parent", "net")["nodes"]
    assert node["node"]["op"] == "Conv2D"
    assert answer(capsys, "summaries", "graph", TASK, "--search", "CONV")["total"] == 1
    assert answer(capsys, "summaries", "graph", TASK, "--all")["total"] == 2
    assert "Conv2D" in said(capsys, "summaries", "graph", TASK, "--all")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["show", "nothing"], 1, "unknown_job at job: there is no job 'nothing'"),
        (["lineage", "nothing"], 1, "unknown_job"),
        (["scalars", TASK, "--tag", "los"], 1, "did you mean 'loss'?"),
        (["scalars", TASK], 2, "name tags to draw with --tag; there are loss, odd"),
        (["scalars", TASK, "--tag", "loss", "--from", "x"], 2, "--from 'x': expected a step"),
        (["scalars", TASK, "--tag", "loss", "--axis", "wall", "--mean"], 2, "leave out --axis wall"),
        (["scalars", TASK, "--tag", "loss", "--picture", "x.gif"], 2, "ends in .png or .svg"),
        (["histograms", TASK, "--step", "5"], 1, "the nearest steps with values: 4, 8"),
        (["tensors", TASK, "--slice", "[9, 0]"], 2, "bad_query at dims: the index 9"),
        (["graph", OTHER], 2, f"job {OTHER} has no values of kind graph"),
        (["values", TASK, "images"], 2, "there is no kind 'images'"),
        (["ls", "--after", "x"], 2, "bad_query at cursor"),
        (["ls", "--where", "state == 'ended'", "--all"], 2, "leave out --page and --all"),
        (["retry", TASK], 2, "is a task: only the jobs of directories have files"),
        (["annotate", TASK], 2, "expected --tag, --remark or both"),
    ],
)
def test_what_is_not_there_or_wrong_is_said(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, text: str
) -> None:
    found, _, err = tried(capsys, "summaries", *arguments)
    assert (found, text in err) == (code, True), err


def test_lists_and_searches_agree_and_a_job_without_lineage_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S22: what `ls --where` finds is what `search` finds."""
    expression = "metrics.loss.last > 1 and kind == 'directory'"
    found = answer(capsys, "summaries", "search", expression)
    assert [job["id"] for job in found["jobs"]] == [EMPTY]
    assert answer(capsys, "summaries", "ls", "--where", expression)["jobs"] == found["jobs"]
    shown = said(capsys, "summaries", "search", expression).splitlines()
    assert shown[0].split()[:3] == ["job", "kind", "metrics.loss.last"]
    assert shown[1].split()[:3] == [EMPTY, "directory", "7"]
    code, _, err = tried(capsys, "summaries", "search", "metrics.los.last > 1")
    assert code == 2 and "unknown_metric at where" in err and "did you mean 'loss'?" in err
    assert tried(capsys, "summaries", "lineage", TASK)[2].startswith(f"job {TASK} has no inputs")
