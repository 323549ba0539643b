"""Each row of what Sedna's incremental learning does, I1 to I42, has a test that names it."""

import re
from collections import defaultdict

from tests.house.source import ROOT

ROWS = [f"I{number}" for number in range(1, 43)]
NAME = re.compile(r"\bI(\d+)\b(?:-I(\d+)\b)?")


def files_by_row() -> dict[str, set[str]]:
    """Returns the files of tests that name each row; `I16-I18` names three."""
    found = defaultdict(set)
    for path in (ROOT / "tests").rglob("test_*.py"):
        for first, last in NAME.findall(path.read_text("utf-8")):
            for number in range(int(first), int(last or first) + 1):
                found[f"I{number}"].add(path.relative_to(ROOT).as_posix())
    return found


def test_each_row_of_the_reference_has_a_test_that_names_it() -> None:
    found = files_by_row()
    assert [row for row in ROWS if not found[row]] == []
