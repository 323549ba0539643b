"""Every aggregate is one folder of the same shape, and in the registry."""

from pathlib import Path
from typing import Any

import pytest

from tests.house import source
from trackside.aggregates.registry import AGGREGATES
from trackside.domain.aggregate import AggregateType

FOLDERS = sorted(
    path for path in source.package("libs/aggregates").iterdir() if (path / "__init__.py").is_file()
)
CORE = {
    *("__init__.py", "aggregate.py", "causes.py", "evolve.py", "examples.py", "invariants.py", "messages.py"),
    *("rows.py", "state.py", "tables.sql"),
}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_aggregate_folder_has_the_files_that_every_one_has(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} >= CORE


def test_the_registry_has_every_folder_under_its_name() -> None:
    modules = {kind: type(aggregate).__module__ for kind, aggregate in AGGREGATES.by_kind.items()}
    assert modules == {folder.name: f"trackside.aggregates.{folder.name}.aggregate" for folder in FOLDERS}
    states = {kind: aggregate.state.__module__ for kind, aggregate in AGGREGATES.by_kind.items()}
    assert states == {folder.name: f"trackside.aggregates.{folder.name}.state" for folder in FOLDERS}


@pytest.mark.parametrize("aggregate", AGGREGATES.types, ids=lambda aggregate: aggregate.kind)
def test_what_an_aggregate_begins_and_ends_with_are_events_of_its_own(aggregate: AggregateType[Any]) -> None:
    assert {aggregate.begins_with, aggregate.ends_with, *aggregate.mailed} <= set(aggregate.events)


def test_the_import_rules_know_every_folder() -> None:
    rules = {rule["id"]: rule for rule in source.project()["tool"]["importlinter"]["contracts"]}
    folders = {folder.name: f"trackside.aggregates.{folder.name}" for folder in FOLDERS}
    assert sorted(rules["aggregates"]["modules"]) == sorted(folders.values())
    assert {name: rules[f"{name}-modules"]["containers"] for name in folders} == {
        name: [dotted] for name, dotted in folders.items()
    }
