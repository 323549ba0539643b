import re
from collections.abc import Iterable

import pytest

from tests.house.source import ROOT
from tests.unit.docs.pages import page, rows_below

TEST = re.compile(r"^\| ([A-Z0-9, ]+) \| `([a-z0-9_/]+\.py)` \| `(test_\w+)` \|$", re.MULTILINE)
REASON = re.compile(r"^\| ([A-Z]+\d+) \| - \| ([^`|]+\.) \|$", re.MULTILINE)
OF_ROUNDS = re.compile(r"\bI(\d+)\b(?:-I(\d+)\b)?")


def numbered(letters: str, last: int, first: int = 1) -> set[str]:
    return {f"{letters}{number}" for number in range(first, last + 1)}


LISTED = [("nni.md", numbered("D", 39)), ("tensorboard.md", numbered("S", 24))]
LISTED.append(("tasks.md", numbered("T", 24) | numbered("FM ", 21, 6)))


@pytest.mark.parametrize(("name", "behaviours"), LISTED)
def test_every_behaviour_of_a_page_has_a_test_or_a_reason(name: str, behaviours: Iterable[str]) -> None:
    tests, reasons = TEST.findall(page(name)), REASON.findall(page(name))
    listed = [row for several, _, _ in tests for row in several.split(", ")]
    assert {*listed, *(row for row, _ in reasons)} == behaviours
    assert len(tests) + len(reasons) == len(rows_below(page(name), "| row | file | test |"))


@pytest.mark.parametrize("name", [name for name, _ in LISTED])
def test_every_test_that_a_page_names_is_there(name: str) -> None:
    missing = [
        f"{file}: {test}"
        for _, file, test in TEST.findall(page(name))
        if f"def {test}(" not in (ROOT / "tests" / file).read_text("utf-8")
    ]
    assert missing == []


def test_each_row_of_what_incremental_learning_does_in_sedna_has_a_test_that_names_it() -> None:
    found = set[int]()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for first, last in OF_ROUNDS.findall(path.read_text("utf-8")):  # `I16-I18` names three
            found |= set(range(int(first), int(last or first) + 1))
    assert set(range(1, 43)) - found == set()
