import re

from tests.unit.docs.pages import named, page, rows_below
from trackside.projections.job_search import parsing
from trackside.projections.job_search.fields import FIELDS
from trackside.projections.job_search.search import MAX_LIMIT, SEARCH_LIMIT_S

PAGE = page("job-search.md")


def in_first_column(head: str) -> set[str]:
    return {name for row in rows_below(PAGE, head) for name in named(row[0])}


def test_the_page_has_every_field_and_statistic_and_what_it_shows_can_be_parsed() -> None:
    assert in_first_column("| field |") == set(FIELDS)
    assert in_first_column("| statistic |") == set(parsing.STATISTICS)
    conditions = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0].splitlines()
    assert len(conditions) == 3
    for condition in conditions:
        parsing.parse_condition(condition)
    table = PAGE[PAGE.index("| MindInsight |") :]
    for name in re.findall(r"`((?:params|metrics)\.[^`]+)`", table):
        parsing.parse_name(name, "where")


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    assert f"{parsing.MAX_CHARACTERS:,} characters" in PAGE
    assert f"| {parsing.MAX_TESTS} and {parsing.MAX_LISTED} |" in PAGE
    assert f"| levels of `not`, `and`, `or` | {parsing.MAX_LEVELS} |" in PAGE
    assert f"| different metrics | {parsing.MAX_METRICS} |" in PAGE
    assert f"1 to {MAX_LIMIT} jobs" in PAGE
    assert f"| {SEARCH_LIMIT_S:g} s;" in PAGE
