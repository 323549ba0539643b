"""The page of searches over jobs has all fields and statistics, and its conditions can be parsed."""

import re

from tests.house.source import ROOT
from trackside.projections.job_search.fields import FIELDS
from trackside.projections.job_search.parsing import (
    MAX_CHARACTERS,
    MAX_LEVELS,
    MAX_LISTED,
    MAX_METRICS,
    MAX_TESTS,
    STATISTICS,
    parse_condition,
    parse_name,
)
from trackside.projections.job_search.search import MAX_LIMIT, SEARCH_LIMIT_S

PAGE = (ROOT / "docs" / "job-search.md").read_text("utf-8")


def named(head: str) -> set[str]:
    """Returns the names in the first column of the table with this head."""
    rows = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_the_page_has_every_field_and_every_statistic() -> None:
    assert named("| field |") == set(FIELDS)
    assert named("| statistic |") == set(STATISTICS)


def test_the_conditions_of_the_page_can_be_parsed() -> None:
    conditions = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0].splitlines()
    assert len(conditions) == 3
    for condition in conditions:
        parse_condition(condition)


def test_each_filter_of_mindinsight_has_a_name_that_can_be_searched() -> None:
    table = PAGE[PAGE.index("| MindInsight |") :]
    for name in re.findall(r"`((?:params|metrics)\.[^`]+)`", table):
        parse_name(name, "where")


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    assert f"{MAX_CHARACTERS:,} characters" in PAGE
    assert f"| {MAX_TESTS} and {MAX_LISTED} |" in PAGE
    assert f"| levels of `not`, `and`, `or` | {MAX_LEVELS} |" in PAGE
    assert f"| different metrics | {MAX_METRICS} |" in PAGE
    assert f"1 to {MAX_LIMIT} jobs" in PAGE
    assert f"| {SEARCH_LIMIT_S:g} s;" in PAGE
