"""The page for users of NNI: what it names is there; each behaviour of searches has a test or a reason."""

import re

from pydantic import BaseModel

from tests.house.source import ROOT
from trackside.aggregates import documents
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import Assessor, SearchStatus, StartSearch, TrialStatus, Tuner
from trackside.contracts.resources import Resources

PAGE = (ROOT / "docs" / "nni.md").read_text("utf-8")
TEST = re.compile(r"^\| ([D0-9, ]+) \| `([a-z0-9_/]+\.py)` \| `(test_\w+)` \|$", re.MULTILINE)
REASON = re.compile(r"^\| (D\d+) \| - \| ([^`|]+\.) \|$", re.MULTILINE)
NESTED: dict[str, type[BaseModel]] = {"tuner": Tuner, "assessor": Assessor, "resources": Resources}


def cells(head: str) -> list[list[str]]:
    """Gives the rows of the table whose head begins so."""
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_behaviour_of_searches_has_a_test_or_a_reason() -> None:
    named = [row for rows, _, _ in TEST.findall(PAGE) for row in rows.split(", ")]
    named += [row for row, _ in REASON.findall(PAGE)]
    assert set(named) == {f"D{number}" for number in range(1, 40)}
    assert len(TEST.findall(PAGE)) + len(REASON.findall(PAGE)) == len(cells("| row | file | test |"))


def test_every_test_that_the_page_names_is_there() -> None:
    missing = [
        f"{file}: {name}"
        for _, file, name in TEST.findall(PAGE)
        if f"def {name}(" not in (ROOT / "tests" / file).read_text("utf-8")
    ]
    assert missing == []


def test_every_code_of_nni_has_its_command_and_every_message_that_is_named_is_one() -> None:
    rows = cells("| NNI | code | command |")
    assert [row[1] for row in rows] == ["IN", "GE", "ME", "SS", "FD", "AD", "EN", "TE", "PI"]
    commands = {kind.__name__ for kind in AGGREGATES.commands}
    assert {row[2].strip("`") for row in rows} - {"-"} <= commands
    known = {kind.__name__ for kind in documents.messages()}
    words = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", PAGE))
    assert words <= known and len(words) > 20


def test_d37_every_field_of_ours_that_the_page_names_is_one() -> None:
    rows = cells("| NNI | trackside | difference |")
    paths = [path for row in rows for path in re.findall(r"`([\w.]+)`", row[1])]
    assert len(paths) > 15
    for path in paths:
        name, _, inner = path.partition(".")
        assert name in StartSearch.model_fields, path
        assert not inner or inner in NESTED[name].model_fields, path


def test_every_state_of_ours_is_on_the_page() -> None:
    states = " ".join(row[0] for row in cells("| NNI's experiment | trackside |"))
    told = states + PAGE
    assert all(re.search(rf"\b{state.value}\b", told) for state in SearchStatus)
    assert {state.value for state in TrialStatus} >= {"SYS_CANCELED", "FAILED"}
