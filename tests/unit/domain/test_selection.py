"""Which rows of a list are shown, and in which order."""

from typing import Any

import pytest

from trackside.domain.display.selection import BadSelectionError, Selection, SortKey, selected
from trackside.domain.table import ViewRow

KEYS = {"value": SortKey(lambda row: row["value"]), "took": SortKey(lambda row: row["took"], descending=True)}
STATUSES = ("DONE", "FAILED")
ROWS: list[ViewRow] = [
    {"name": "a", "value": 3.0, "took": 1.0, "status": "DONE"},
    {"name": "b", "value": None, "took": 9.0, "status": "FAILED"},
    {"name": "c", "value": 1.0, "took": 4.0, "status": "DONE"},
    {"name": "d", "value": 2.0, "took": None, "status": "DONE"},
]


def names(**options: Any) -> str:
    found = selected(ROWS, Selection(**options), KEYS, lambda row: row["status"], STATUSES)
    return "".join(row["name"] for row in found)


def test_without_options_every_row_is_shown() -> None:
    assert names() == "abcd"


def test_the_last_rows_are_shown_in_their_own_order() -> None:
    assert names(limit=2) == "cd"


def test_the_first_rows_are_shown_of_those_that_are_sorted() -> None:
    assert names(sort="value", limit=2) == "cd"
    assert names(sort="took", limit=1) == "b"


def test_rows_without_what_they_are_sorted_by_come_last() -> None:
    assert names(sort="value") == "cdab"
    assert names(sort="took") == "bcad"


def test_rows_of_one_status_are_shown_however_it_is_written() -> None:
    assert names(status="failed") == "b"
    assert names(status="DONE", sort="value", limit=1) == "c"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sort": "valu"},
            "--sort 'valu' isn't known here; expected one of: value, took; did you mean 'value'?",
        ),
        ({"status": "LOST"}, "--status 'LOST' isn't known here; expected one of: DONE, FAILED"),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_are_known(options: dict[str, str], message: str) -> None:
    with pytest.raises(BadSelectionError) as refused:
        names(**options)
    assert str(refused.value) == message
