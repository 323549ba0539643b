"""The page for users of TensorBoard and MindInsight: left columns have their names, right ones have ours."""

import importlib
import json
import re
from dataclasses import fields, is_dataclass
from functools import partial, reduce
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from tests.house.source import ROOT
from tests.unit.docs.pages import named, page
from tests.unit.docs.pages import rows as table_below
from trackside.aggregates import documents
from trackside.cli.app import app
from trackside.sdk import SummaryWriter
from trackside.summaries.kinds.registry import BUILT_IN

PAGE = page("tensorboard.md")
rows = partial(table_below, PAGE)
NAMES = json.loads((ROOT / "tests" / "unit" / "docs" / "tensorboard_names.json").read_text("utf-8"))
HTTP_PAGES, SETTINGS = page("reference/summaries.md"), page("reference/settings.md")
PACKAGES = ("trackside.projections.summaries", "trackside.summary_indexer")
"""Where the modules are that the table of the data manager names."""


def names(heading: str, table: int = 0) -> list[str]:
    return [name for row in rows(heading, table) for name in named(row[0])]


def commands() -> set[str]:
    """Returns the names of all commands, such as "trackside summaries ls"."""
    found, pending = set(), [("trackside", typer.main.get_command(app))]
    while pending:
        name, command = pending.pop()
        if isinstance(command, TyperGroup):
            pending += [(f"{name} {inner}", each) for inner, each in command.commands.items()]
        else:
            found.add(name)
    return found


def is_python(path: str) -> bool:
    """Returns whether a path names a module's function, class or field in one of the packages."""
    parts = path.split(".")
    for package in PACKAGES:
        for cut in range(len(parts) - 1, 0, -1):
            try:
                module = importlib.import_module(".".join([package, *parts[:cut]]))
                reduce(_attribute, parts[cut:], module)
            except (ImportError, AttributeError):
                continue
            return True
    return False


def _attribute(holder: Any, name: str) -> Any:
    if is_dataclass(holder) and name in {each.name for each in fields(holder)}:
        return None
    return getattr(holder, name)


def is_route(text: str) -> bool:
    known = set(re.findall(r"^\| `(/[^`]+)` \|", HTTP_PAGES, re.MULTILINE))
    kinds = set(named(HTTP_PAGES[HTTP_PAGES.index("A `{kind}` is one of") :].partition(".")[0])[1:])
    first, *rest = text.removeprefix("GET ").split("/summaries/jobs/{job}/")
    kind, *more = (rest or [""])[0].split("/")
    path = ["/summaries/jobs/{job}", "{kind}" if kind in kinds else kind, *more]
    return first in known or "/".join(path) in known


def is_ours(text: str) -> bool:
    if text.startswith("trackside "):
        return any(f"{text} ".startswith(f"{command} ") for command in commands())
    if text.startswith("GET "):
        return is_route(text)
    if text.startswith("TRACKSIDE_"):
        return f"`{text}`" in SETTINGS
    return text in {kind.__name__ for kind in documents.messages()} or is_python(text)


def test_the_page_is_of_the_releases_that_the_names_are_of() -> None:
    release = {name: each["release"] for name, each in NAMES.items()}
    assert f"torch {release['torch'].rpartition('.')[0]}," in PAGE.replace("\n", " ")
    for name in ("tensorboardX", "tensorboard"):
        assert release[name] in PAGE
    first = NAMES["mindinsight"]["first_release"]
    assert f"MindInsight {release['mindinsight']} and {first}" in PAGE


def test_every_call_of_both_writers_has_its_row_and_those_that_are_kept_are_there() -> None:
    table = rows("## SummaryWriter")
    originals = {*NAMES["torch"]["SummaryWriter"], *NAMES["tensorboardX"]["SummaryWriter"]}
    assert sorted(names("## SummaryWriter")) == sorted(originals)
    kept = {name for row in table for name in named(row[0]) if row[1] == "kept"}
    assert {name for name in originals if hasattr(SummaryWriter, name)} == kept
    assert {row[1] for row in table} == {"kept", "-"}


def test_every_call_page_plugin_and_http_read_of_the_others_has_its_row() -> None:
    expected = [f"tf.summary.{name}" for name in NAMES["tensorflow"]["tf.summary"]]
    expected += [f"mindspore.{name}" for name in NAMES["mindspore"]["calls"]]
    assert sorted(names("## tf.summary and MindSpore")) == sorted(expected)
    shown = [page for row in rows("## Pages", 1) for page in row[0].split(", ")]
    assert sorted(shown) == sorted(NAMES["mindinsight"]["pages"])
    of_ours = {page.lower().replace(" ", "") for row in rows("## Pages") for page in row[0].split(", ")}
    assert {plugin.replace("_", "") for plugin in NAMES["tensorboard"]["plugins"]} <= of_ours
    assert sorted(names("## HTTP")) == sorted(NAMES["mindinsight"]["routes"])
    assert sorted(names("## HTTP", 1)) == sorted(NAMES["tensorboard"]["routes"])
    assert set(NAMES["mindinsight"]["kinds"]) <= set(BUILT_IN)
    assert ", ".join(NAMES["mindinsight"]["statuses"]) in PAGE


def test_every_part_of_the_data_manager_has_its_row() -> None:
    found: dict[str, list[str]] = {}
    for row in rows("## The data manager"):
        for name in named(row[0]):
            if row[0].startswith("**"):
                found[name] = []
            else:
                found[[*found][-1]].append(name)
    assert {part: sorted(methods) for part, methods in found.items()} == NAMES["mindinsight"]["data_manager"]


@pytest.mark.thorough
def test_everything_of_ours_that_the_tables_name_is_there() -> None:
    columns = [("## Pages", 0), ("## Pages", 1), ("## HTTP", 0), ("## HTTP", 1), ("## The data manager", 0)]
    ours = {name for heading, table in columns for row in rows(heading, table) for name in named(row[1])}
    options = {name for name in ours if name.startswith("-")}
    assert sorted(name for name in ours - options if not is_ours(name)) == []
    assert len(ours) > 60
