"""Which rows of a list are shown, and in which order."""

from typing import Any

import pytest

from trackside.domain.display.selection import BadSelectionError, Selection, SortKey, selected
from trackside.domain.rows.table import ViewRow

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


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, "abcd"),
        ({"limit": 2}, "cd"),  # the last ones, in their own order
        ({"sort": "value", "limit": 2}, "cd"),
        ({"sort": "took", "limit": 1}, "b"),
        ({"sort": "value"}, "cdab"),  # rows without it come last
        ({"sort": "took"}, "bcad"),
        ({"status": "failed"}, "b"),
        ({"status": "DONE", "sort": "value", "limit": 1}, "c"),
    ],
    ids=str,
)
def test_rows_are_selected_by_their_status_then_sorted_then_limited(options: Any, shown: str) -> None:
    assert names(**options) == shown


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    sort = "--sort 'valu' isn't known here; expected one of: value, took; did you mean 'value'?"
    status = "--status 'LOST' isn't known here; expected one of: DONE, FAILED"
    for options, message in (({"sort": "valu"}, sort), ({"status": "LOST"}, status)):
        with pytest.raises(BadSelectionError) as refused:
            names(**options)
        assert str(refused.value) == message
