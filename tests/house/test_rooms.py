"""Packages are divided into folders that one can know: few modules side by side, imports in one direction."""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.house import source
from tests.house.source import ROOT

MODULES_LIMIT = 14
IMPORTS_LIMIT = 30
WIRING_LIMIT = 40
"""How many modules of the house an `app.py` may import, which only puts a service together."""
WIDE = {
    "trackside.cli.commands": 44,
    "trackside.cli.interface": 27,
}
"""Folders that are still to be divided."""
CIRCLES = {"trackside.cli.commands"}
"""Those whose folders still import each other in a circle."""
MANY_IMPORTS = {
    "trackside.cli.commands.models": 32,
    "trackside.dispatcher.service": 42,
    "trackside.scheduler.service": 38,
    "trackside.verify.verifier": 42,
    "trackside.worker.worker_runner": 48,
}
Graph = Mapping[str, frozenset[str]]


@cache
def modules() -> dict[str, Path]:
    """Returns the modules of all packages by name, a package by its own."""
    found = {}
    for member in source.members():
        root = ROOT / member / "src"
        for path in source.python_files(f"{member}/src"):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


@cache
def graph() -> Graph:
    """Returns which modules each module imports; a package counts only if something of its own is taken."""
    known = modules()
    found = {}
    for name, path in known.items():
        taken = (source.imported(path) & known.keys()) - {name}
        above = {each.rpartition(".")[0] for each in taken}
        found[name] = frozenset(taken - {each for each in above if each in _empty_packages()})
    return found


@cache
def _empty_packages() -> frozenset[str]:
    packages = {name: path for name, path in modules().items() if path.name == "__init__.py"}
    return frozenset(name for name, path in packages.items() if len(source.tree(path).body) == 1)


def circle(edges: Graph) -> list[str]:
    """Returns a circle of a graph, nothing if it has none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def children(folder: str, edges: Graph) -> Graph:
    """Returns which of a folder's modules and folders import which other ones of it."""
    inside = f"{folder}."

    def child(name: str) -> str:
        return name.removeprefix(inside).partition(".")[0]

    found: dict[str, set[str]] = {}
    for name, taken in edges.items():
        if name.startswith(inside):
            own = found.setdefault(child(name), set())
            own |= {child(each) for each in taken if each.startswith(inside)} - {child(name)}
    return {name: frozenset(taken) for name, taken in found.items()}


def folders() -> list[str]:
    return sorted({name.rpartition(".")[0] for name in modules() if name.count(".") > 1})


def test_no_folder_has_more_modules_side_by_side_than_one_knows() -> None:
    own = (name for name, path in modules().items() if path.name != "__init__.py")
    counts = Counter(name.rpartition(".")[0] for name in own)
    wide = {folder: count for folder, count in counts.items() if count > MODULES_LIMIT}
    assert wide == WIDE, "divide it by subject: a folder for each, which import each other in one direction"


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(graph()) == []


@pytest.mark.parametrize("folder", folders())
def test_the_folders_in_a_folder_import_each_other_in_one_direction(folder: str) -> None:
    found = circle(children(folder, graph()))
    assert bool(found) == (folder in CIRCLES), f"{folder}: {' -> '.join(reversed(found))}"


def test_no_module_knows_half_of_the_house() -> None:
    many = {
        name: len(taken)
        for name, taken in graph().items()
        if len(taken) > (WIRING_LIMIT if name.endswith(".app") else IMPORTS_LIMIT)
    }
    assert many == MANY_IMPORTS


def test_a_planted_circle_is_seen() -> None:
    edges = {
        "trackside.a.one.x": frozenset({"trackside.a.two.y"}),
        "trackside.a.two.y": frozenset({"trackside.a.one.z"}),
        "trackside.a.one.z": frozenset[str](),
    }
    assert circle(edges) == []
    assert set(circle(children("trackside.a", edges))) == {"one", "two"}
