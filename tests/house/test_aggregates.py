"""Every aggregate is one folder of the same shape, and in the registry."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.house import source
from tests.house.source import ROOT, shown
from trackside.aggregates.listings import LISTINGS, view_of
from trackside.aggregates.registry import AGGREGATES
from trackside.domain.folding.aggregate import AggregateType

FOLDERS = sorted(
    path for path in source.package("libs/aggregates").iterdir() if (path / "__init__.py").is_file()
)
EXAMPLE = ROOT / "tests/aggregates/repeat"
CORE = {
    *(
        "__init__.py",
        "aggregate.py",
        "causes.py",
        "evolve.py",
        "examples.json",
        "invariants.py",
        "listing.py",
    ),
    *("messages.py", "rows.py", "spec.py", "state.py", "tables.sql", "view.py"),
}
ABOUT_ONE = {
    "trackside.cli.commands.artifacts.resolving": "versions of models as inputs",
    "trackside.cli.commands.change": "the commands that change a search, a run, a job or a dataset",
    "trackside.cli.commands.datasets": "the commands of datasets",
    "trackside.cli.commands.graph": "pictures of runs",
    "trackside.cli.commands.importances": "the parameters of a search",
    "trackside.cli.commands.models": "the commands of models",
    "trackside.cli.commands.pipelines": "the commands of pipelines and their schedules",
    "trackside.cli.commands.replay.rerun": "a new search, run or job from a recorded one",
    "trackside.cli.commands.replay.whatif_run": "predictions of runs",
    "trackside.cli.commands.rounds": "the commands of incremental jobs",
    "trackside.cli.commands.runs": "the commands that continue and decide runs and deployments",
    "trackside.cli.commands.trials": "the trials of a search",
    "trackside.cli.commands.summaries": "the commands of summary jobs",
    "trackside.cli.render.rounds_picture": "pictures of incremental jobs",
    "trackside.cli.demo": "the demo is a search",
    "trackside.compat.clearml": "the pipelines of ClearML",
    "trackside.compat.sedna": "datasets and jobs of incremental learning from Sedna",
    "trackside.dispatcher.monitoring": "searches and trials in metrics and spans",
    "trackside.console.commands": "the commands of each kind of experiment",
    "trackside.console.pages": "the pages of each kind of experiment",
    "trackside.dispatcher.advice": "what searches ask their tuners and assessors",
    "trackside.dispatcher.advisor": "the process of tuners and assessors",
    "trackside.dispatcher.assessors": "assess the trials of a search",
    "trackside.dispatcher.plugins": "users' tuners and assessors",
    "trackside.dispatcher.tuners": "suggest the trials of a search",
    "trackside.incremental": "the tasks of datasets and incremental jobs",
    "trackside.projections.pages.trial_columns": "the trials of a search as columns",
    "trackside.replay.history.origins": "searches and runs, which may be made from another one",
    "trackside.replay.causality.bill_of_materials": "what a version of a model was made of",
    "trackside.replay.derive": "new searches, runs and jobs from recorded ones, parameters of searches",
    "trackside.sdk.connection.log_client": "what becomes a version of a model",
    "trackside.sdk.definitions.batches": "tasks as a client's `submit_tasks` takes them",
    "trackside.sdk.blocking": "what becomes a version of a model",
    "trackside.sdk.connection.model_versions": "a version of a model from the log",
    "trackside.sdk.named_pipelines": "a pipeline that is defined, from Python",
    "trackside.sdk.pipeline_runs": "a run of a pipeline from Python",
    "trackside.sdk.pipelines": "pipelines from Python, and the start of a run",
    "trackside.sdk.definitions.reference_from_log": "versions of models as inputs",
    "trackside.sdk.definitions.references": "versions of models as inputs",
    "trackside.sdk.search": "a search from Python",
    "trackside.sdk.definitions.trial_lists": "the trials of a search as files and tables",
    "trackside.simulation.scenarios": "what is simulated of each aggregate, and what must be true of it",
    "trackside.simulation.tasks": "what the tasks of each aggregate do that are simulated",
    "trackside.summary_indexer.detail": "curves of summary jobs in memory",
    "trackside.summary_indexer.watching": "directories of event files, which are summary jobs",
    "trackside.whatif": "searches with another assessor, runs with another fleet, jobs with another trigger",
}
"""Modules, or folders of them, that are about one aggregate by their purpose: they may import its folder."""


IN_WORDS = {"rounds": "incremental job", "summary": "summary job"}
LISTS = (
    ("ARCHITECTURE.md", r"An aggregate is what one stream is about:[^.]*\."),
    ("docs/glossary.md", r"\| aggregate \|[^\n]*"),
    ("docs/glossary.md", r"\| root \|[^\n]*"),
    ("libs/aggregates/README.md", r"What a stream can be about:[^.]*\."),
)
"""Pages, and their sentences that list all kinds of aggregates."""


@pytest.mark.parametrize("folder", [*FOLDERS, EXAMPLE], ids=lambda folder: folder.name)
def test_an_aggregate_folder_has_the_files_that_every_one_has(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} >= CORE


@pytest.mark.parametrize(("page", "sentence"), LISTS)
def test_a_text_that_says_what_an_aggregate_is_names_every_kind(page: str, sentence: str) -> None:
    found = re.search(sentence, (source.ROOT / page).read_text("utf-8"))
    assert found is not None, f"{page} has no such sentence: {sentence}"
    missing = [folder.name for folder in FOLDERS if IN_WORDS.get(folder.name, folder.name) not in found[0]]
    assert missing == []


def test_the_registry_has_every_folder_under_its_name() -> None:
    modules = {kind: type(aggregate).__module__ for kind, aggregate in AGGREGATES.by_kind.items()}
    assert modules == {folder.name: f"trackside.aggregates.{folder.name}.aggregate" for folder in FOLDERS}
    assert {kind: view_of(kind) for kind in LISTINGS} == {each.kind: each.view for each in AGGREGATES.types}
    assert list(LISTINGS) == list(AGGREGATES.by_kind)
    states = {kind: aggregate.state.__module__ for kind, aggregate in AGGREGATES.by_kind.items()}
    assert states == {folder.name: f"trackside.aggregates.{folder.name}.state" for folder in FOLDERS}


def test_no_module_outside_the_folder_of_an_aggregate_names_it_but_those_about_one() -> None:
    found = {module: _entry_of(module) for module in _modules_that_name_an_aggregate()}
    assert {module for module, entry in found.items() if not entry} == set()
    assert ABOUT_ONE.keys() - set(found.values()) == set()  # what no longer names one leaves the list


def _modules_that_name_an_aggregate() -> set[str]:
    inside = source.package("libs/aggregates")
    folders = {f"trackside.aggregates.{folder.name}" for folder in FOLDERS}
    return {
        shown(path).partition("/src/")[2].removesuffix(".py").replace("/", ".")
        for path in source.python_files("libs", "services")
        if inside not in path.parents
        and any(".".join(name.split(".")[:3]) in folders for name in source.imported(path))
    }


def _entry_of(module: str) -> str:
    """Returns the entry of the list that has a module, itself or its folder; empty if none has it."""
    return next((entry for entry in ABOUT_ONE if f"{module}.".startswith(f"{entry}.")), "")


@pytest.mark.parametrize("aggregate", AGGREGATES.types, ids=lambda aggregate: aggregate.kind)
def test_what_an_aggregate_begins_and_ends_with_are_events_of_its_own(aggregate: AggregateType[Any]) -> None:
    ends = () if aggregate.ends_with is None else (aggregate.ends_with,)
    assert {aggregate.begins_with, *ends, *aggregate.mailed} <= set(aggregate.events)


def test_the_import_rules_know_every_folder() -> None:
    rules = {rule["id"]: rule for rule in source.project()["tool"]["importlinter"]["contracts"]}
    folders = {folder.name: f"trackside.aggregates.{folder.name}" for folder in FOLDERS}
    assert sorted(rules["aggregates"]["modules"]) == sorted(folders.values())
    assert {name: rules[f"{name}-modules"]["containers"] for name in folders} == {
        name: [dotted] for name, dotted in folders.items()
    }
