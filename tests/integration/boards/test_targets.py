"""Every query of every board, run after real work: none fails, none is empty without a reason, units fit."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from boards.answers import as_reader, ask_postgres, targets
from boards.catalogue import boards
from boards.checks import problems

from tests.integration.boards.conftest import Installation

BOARDS = {board.uid: board.to_json() for board in boards()}
pytestmark = pytest.mark.long

EMPTY = "the panel is empty"
DESCENDING = "SELECT ended_at AS time, 'a' AS metric, 1 AS value FROM trials ORDER BY ended_at DESC"
SQL, PROMQL = "sql", "promql"
ASKED = sorted(
    {
        (uid, SQL if target.is_sql else PROMQL)
        for uid, board in BOARDS.items()
        for target in targets(board)
        if uid != "trackside-rounds"  # needs an incremental job
    }
)
"""Each board with each datasource that it asks."""
MAY_BE_EMPTY = {
    "nothing is wrong": "Dead letters | Updaters that failed | Waiting tasks | Gates | Traceback | "
    "Commands per minute / C | Tasks queued again, workers lost / B | Artifacts per minute / B | "
    "annotation Restarts",
    "nothing of this kind was done": "Artifacts | Memory | Processor and GPU | Services / A | "
    "Schedules of pipelines | annotation Changes | Expected end in | Pareto front | "
    "Trials of the Pareto front | Early-stopped share / A | Metrics of the run | "
    "annotation Out of memory and lost | Trial / ",
    "it needs a console": "Open pages | Time of a page of the console | Changes and commands of the console",
    "it needs an exporter": "Records appended per second, by topic | Records kept by topic | "
    "Brokers, partitions without a leader | Transactions per second | Size of databases | Connections",
}


async def problems_of(
    board: dict[str, Any], worked: Installation, datasources: Sequence[str] = (SQL, PROMQL)
) -> list[str]:
    connection = await as_reader(worked.dsn)
    try:
        return [
            problem
            for target in targets(board)
            if (SQL if target.is_sql else PROMQL) in datasources
            for problem in await problems(target, worked.view, connection, worked.prometheus)
        ]
    finally:
        await connection.close()


def unexpected(found: Sequence[str]) -> list[str]:
    """Returns what is wrong, without the panels that are empty for a reason."""
    excused = [title for titles in MAY_BE_EMPTY.values() for title in titles.split(" | ")]
    return [each for each in found if EMPTY not in each or not any(f"/ {title}" in each for title in excused)]


@pytest.mark.parametrize(("uid", "datasource"), ASKED)
async def test_no_query_of_a_board_fails_is_empty_or_has_another_unit(
    uid: str, datasource: str, worked: Installation
) -> None:
    if datasource == PROMQL and worked.prometheus is None:
        pytest.skip("the program `prometheus` is not on PATH: no query of it was run")
    assert unexpected(await problems_of(BOARDS[uid], worked, [datasource])) == []


async def test_the_board_of_rounds_is_empty_without_a_job_and_has_no_other_problem(
    worked: Installation,
) -> None:
    found = await problems_of(BOARDS["trackside-rounds"], worked)
    assert found and all(EMPTY in problem for problem in found)


def edited(uid: str, title: str, query: dict[str, str], unit: str = "") -> dict[str, Any]:
    """Returns a board of which the first query of one panel, or the unit of that panel, is another."""
    board = copy.deepcopy(BOARDS[uid])
    [panel] = [each for each in board["panels"] if each["title"] == title and each["type"] != "row"]
    panel["targets"][0] |= query
    if unit:
        panel["fieldConfig"]["defaults"]["unit"] = unit
    board["panels"] = [panel]
    return board


@pytest.mark.parametrize(
    ("uid", "title", "query", "unit", "problem"),
    [
        ("searches", "Searches", "SELECT search_idd FROM searches", "", 'column "search_idd" does not exist'),
        ("searches", "Searches", "SELECT search_id FROM searches WHERE false", "", EMPTY),
        ("search", "Device time", "", "bytes", "held_s is shown in bytes, expected s"),
        ("fleet", "Memory of hosts", "", "s", "the unit is s, expected bytes"),
        ("search", "Best value so far", DESCENDING, "", "the times do not ascend"),
    ],
)
async def test_a_planted_problem_is_found(
    uid: str, title: str, query: str, unit: str, problem: str, worked: Installation
) -> None:
    planted = edited(f"trackside-{uid}", title, {"rawSql": query} if query else {}, unit)
    assert any(problem in each for each in await problems_of(planted, worked))


async def test_a_link_opens_the_task_that_it_names_of_however_many(worked: Installation) -> None:
    """The text box of a board is what selects, so a trial that is not among the newest is found too."""
    connection = await as_reader(worked.dsn)
    try:
        oldest = await connection.fetchval("SELECT task_id FROM tasks ORDER BY queued_at LIMIT 1")
        [task] = [each for each in targets(BOARDS["trackside-trial"]) if each.title == "Task"]
        view = replace(worked.view, variables={**(worked.view.variables or {}), "task": oldest})
        answer = await ask_postgres(connection, task, view)
        assert [row[0] for row in answer.rows] == [oldest]
    finally:
        await connection.close()
