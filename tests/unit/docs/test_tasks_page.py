"""The page on tasks names a test for every behaviour and fault, and each of them is there."""

import re

from tests.house.source import ROOT

ROW = re.compile(r"^\| ([TFM0-9, ]+) \| `([a-z0-9_/]+\.py)` \| `(test_\w+)` \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str]]:
    page = (ROOT / "docs" / "tasks.md").read_text("utf-8")
    return [(named[1], named[2], named[3]) for named in ROW.finditer(page)]


def test_every_behaviour_and_every_fault_of_tasks_has_a_test() -> None:
    named = {row for listed, _, _ in rows() for row in listed.split(", ")}
    behaviours = {f"T{number}" for number in range(1, 25)}
    assert named == behaviours | {f"FM {number}" for number in range(6, 22)}


def test_every_test_that_the_page_names_is_there() -> None:
    missing = [
        f"{file}: {name}"
        for _, file, name in rows()
        if f"def {name}(" not in (ROOT / "tests" / file).read_text("utf-8")
    ]
    assert missing == []
