"""Each promise of the README and of docs/security.md, and each invariant, has a test in CONTRIBUTING.md."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.long import PIECES, Piece
from tests.promises import ROOT, Holder, may_be_skipped, promises
from trackside.verify.invariants import INVARIANTS

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROMISES = promises(TEXT)
MARKS = ("long", "thorough")


@cache
def marks(path: str) -> dict[str, set[str]]:
    """Returns the marks of each test of a file, those of single parameters left out."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    of_module = {
        mark
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for mark in MARKS
        if f"mark.{mark}" in ast.unparse(node.value)
    }
    return {
        node.name: of_module
        | {
            mark
            for mark in MARKS
            for decorator in node.decorator_list
            if ast.unparse(decorator) in (f"pytest.mark.{mark}", mark)
        }
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def holders() -> Iterator[Holder]:
    for promise in PROMISES:
        yield from promise.holders


@pytest.mark.parametrize("holder", list(holders()), ids=lambda holder: holder.id)
def test_a_test_that_holds_a_promise_exists_and_says_if_only_the_long_run_has_it(holder: Holder) -> None:
    path, _, name = holder.id.partition("::")
    known = marks(path)
    name = name.split("[")[0]
    assert not name or name in known, f"{path} has no test {name}"
    found = known[name] if name else set.intersection(*known.values())
    assert bool(found) == holder.is_long, f"{holder.id} has the marks {found or 'none'}"


def test_each_promise_has_a_test_of_the_short_run_or_says_that_it_has_none() -> None:
    assert [promise.words for promise in PROMISES if not promise.holders] == []


def test_each_bullet_of_the_readme_is_a_promise() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text[text.index("## What it does") : text.index("## Running it on several machines")]
    found = re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE | re.DOTALL)
    bullets = {" ".join(words.split()) for words in found}
    plain = {re.sub(r"\[(.+?)\]\(.+?\)", r"\1", words).rstrip(".") for words in bullets}
    assert plain
    assert plain - {promise.words for promise in PROMISES} == set()


def test_each_invariant_is_a_promise() -> None:
    named = set(re.findall(r"INV-\d+", " ".join(promise.words for promise in PROMISES)))
    # The last two are about what a client has seen.
    assert named == INVARIANTS.keys() | {
        "INV-16",
        "INV-17",
    }


def test_what_ci_may_skip_holds_a_promise() -> None:
    known = {holder.id for holder in holders()}
    assert [test for test in may_be_skipped(TEXT) if not any(each.startswith(test) for each in known)] == []


def test_each_marked_test_is_in_one_piece_of_the_long_run() -> None:
    pieces = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        if any(f"mark.{mark}" in text for mark in MARKS):
            pieces[name] = {piece.paths for piece in PIECES if _has(piece, name)}
    assert {name: having for name, having in pieces.items() if len(having) != 1} == {}


def _has(piece: Piece, path: str) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in piece.paths)
