import re
from pathlib import Path

import pytest
import typer
import yaml

from tests.unit.docs.pages import page
from tests.unit.summaries.tensorboard_files import items_of, scalars_of, whole
from trackside.aggregates.summary.messages import MAX_FILES
from trackside.cli.app import app
from trackside.contracts.tasks.summaries import MAX_TAGS
from trackside.projections.summaries.items import MAX_STEPS
from trackside.projections.summaries.scalars import CURVE_LIMIT, MAX_CURVES, MAX_POINTS
from trackside.summaries.event_files.framing import LONGEST_RECORD
from trackside.summaries.kinds.registry import BUILT_IN, GROUP
from trackside.summary_indexer import updaters
from trackside.summary_indexer.settings import SummaryIndexerSettings

PAGE = page("summaries.md")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_training_of_the_page_writes_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TRACKSIDE_TASK_ID", "TRACKSIDE_PARAMETERS"):
        monkeypatch.delenv(name, raising=False)
    exec(blocks("python")[0], {})  # noqa: S102 - the page's own
    [path] = tmp_path.glob("runs/*/*")
    pieces = whole(path)
    points = scalars_of(pieces)
    items = [(item.kind, item.tag.removesuffix("/text_summary")) for item in items_of(pieces)]
    assert {tag: len(rows) for tag, rows in points.items()} == {"loss": 200, "accuracy": 200}
    kinds = {("histogram", "predicted"), ("image", "decision"), ("text", "notes")}
    assert len(items) == 12 and set(items) == kinds
    assert f"{sum(map(len, points.values()))} points, {len(items)} other values" in PAGE


def test_its_files_are_a_catalogue_and_a_batch_and_its_settings_and_entry_points_are_there() -> None:
    catalogue, tasks = (yaml.safe_load(block) for block in blocks("yaml"))
    assert {task["task_type"] for task in tasks["groups"][0]["tasks"]} == set(catalogue["tasks"])
    named = set(re.findall(r"`(TRACKSIDE_\w+)`", PAGE))
    settings = page("reference/settings.md")
    assert {name for name in named if f"`{name}`" not in settings} == set() and len(named) > 6
    assert f"`{GROUP}`" in PAGE and f"`{updaters.GROUP}`" in PAGE


def test_every_command_of_summaries_that_the_page_names_is_one() -> None:
    command = typer.main.get_command(app)
    known = set(getattr(command, "commands")["summaries"].commands)  # noqa: B009 - a group has them
    named = set(re.findall(r"trackside summaries (\w+)", PAGE))
    named |= set(re.findall(r"^\| `(\w+)", PAGE[PAGE.index("| command |") :].split("\n\n")[0], re.MULTILINE))
    assert named <= known and len(named) > 12


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    assert f"| tags of a job | {MAX_TAGS:,};" in PAGE
    assert f"| event files of a job | {MAX_FILES:,} |" in PAGE
    assert f"| bytes of a record in a file | {LONGEST_RECORD // 2**20} MiB |" in PAGE
    of_curves = f"| {MAX_POINTS:,} in {MAX_CURVES:,} curves; `--limit` thins each to {CURVE_LIMIT:,} points"
    assert of_curves in PAGE
    sizes = {name: kind.page_size for name, kind in BUILT_IN.items()}
    pages = "{image} images, {histogram} histograms, {tensor} tensors, {graph} graph, {text} others"
    assert pages.format(**sizes) in PAGE
    assert f"`--limit` up to {MAX_STEPS:,} |" in PAGE
    assert f"curves of the {SummaryIndexerSettings().cache_jobs} jobs" in PAGE.replace("\n", " ")
