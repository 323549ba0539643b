import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from boards import links
from boards.__main__ import FOLDER, differences, write
from boards.answers import targets
from boards.catalogue import NOT_SHOWN, boards
from boards.checks import expression_unit_problems
from boards.style import STATUS_COLOURS
from boards.tables import COLUMN_PX, PANEL_PADDING_PX

from trackside.aggregates.batch.messages import BatchStatus
from trackside.aggregates.rounds.messages import JobStatus, StageState
from trackside.aggregates.run.messages import RunStatus
from trackside.aggregates.run.step_messages import StepState
from trackside.aggregates.search.messages import SearchStatus, TrialStatus
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStatus
from trackside.domain.tasks.task import TaskState
from trackside.telemetry import labels
from trackside.telemetry.names import METRICS

BOARDS = [board.to_json() for board in boards()]
NAMES = [board["uid"] for board in BOARDS]
LINKED = {"search_id", "trial", "worker_id", "run_id", "batch_id", "job_id"}
BUILT_IN = {
    *("__interval", "__interval_ms", "__rate_interval", "__range", "__timeFilter", "__timeFrom", "__timeTo"),
    *("__timeGroup", "__unixEpochNanoFrom", "__unixEpochNanoTo"),
}
LEAST_PX = 130
"""What a column needs that has no width of its own."""
UNIT = re.compile(r"_(bucket|sum|count|total)$")


def panels(board: dict[str, Any], kind: str = "") -> Iterator[dict[str, Any]]:
    for panel in board["panels"]:
        if panel["type"] not in ("row", "text") and kind in ("", panel["type"]):
            yield panel


def properties(panel: dict[str, Any]) -> dict[str, dict[str, Any]]:
    overrides = {each["matcher"]["options"]: each["properties"] for each in panel["fieldConfig"]["overrides"]}
    return {name: {each["id"]: each["value"] for each in found} for name, found in overrides.items()}


def test_the_files_of_the_boards_are_what_the_code_builds() -> None:
    assert differences(FOLDER) == []


def test_a_file_that_was_edited_is_missing_or_belongs_to_no_board_is_found(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "fleet.json").write_text("{}")
    (tmp_path / "trial.json").unlink()
    (tmp_path / "mine.json").write_text("{}")
    found = ["trial.json: missing", "mine.json: belongs to no board", "fleet.json: differs"]
    assert differences(tmp_path) == found


def test_the_addresses_of_the_boards_stay() -> None:
    assert [
        *("trackside-overview", "trackside-searches", "trackside-search", "trackside-trial"),
        *("trackside-batches", "trackside-fleet", "trackside-log", "trackside-rounds"),
    ] == NAMES


def test_every_metric_is_on_a_board_or_has_a_reason_why_not_and_no_other_is() -> None:
    asked = " ".join(target.text for board in BOARDS for target in targets(board) if not target.is_sql)
    named = set(re.findall(r"\btrackside_\w+", asked))
    shown = {UNIT.sub("", name) for name in named}
    missing = {metric.name for metric in METRICS if metric.prometheus_name not in shown}
    assert missing == set(NOT_SHOWN)
    endings = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    exposed = {metric.prometheus_name + end for metric in METRICS for end in endings[metric.kind]}
    assert named - exposed == set()


def test_every_status_has_a_colour() -> None:
    listed = (*(SearchStatus, TrialStatus, AttemptEnd, TaskState, StepState, RunStatus), BatchStatus)
    statuses = {member.value for kind in (*listed, JobStatus, StageState) for member in kind}
    statuses |= {status.name for status in TaskStatus}
    statuses |= {*labels.WAIT_REASON.values, *labels.WORKER_STATE.values}
    assert statuses - set(STATUS_COLOURS) == set()


@pytest.mark.parametrize("board", BOARDS, ids=NAMES)
def test_every_panel_has_a_unit_a_description_and_a_place_of_its_own(board: dict[str, Any]) -> None:
    assert board["schemaVersion"] == 37, "a board is in the model of Grafana 9.4"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in panels(board):
        place, title, kind = panel["gridPos"], panel["title"], panel["type"]
        across, down = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in across for y in down}
        assert not cells & taken and across.stop <= 24, title
        taken |= cells
        assert panel["description"], title
        assert kind in ("table", "nodeGraph") or panel["fieldConfig"]["defaults"]["unit"], title
        assert kind != "table" or "cellOptions" not in json.dumps(panel)
        if kind == "timeseries":
            assert panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] is True, f"{title} shows dots"
    asked = [target for target in targets(board) if not target.is_sql]
    assert [problem for target in asked for problem in expression_unit_problems(target)] == []


@pytest.mark.parametrize("board", BOARDS, ids=NAMES)
def test_the_columns_of_a_table_fit_its_panel_on_a_screen_of_1600_pixels(board: dict[str, Any]) -> None:
    for panel in panels(board, "table"):
        columns = [column for column in properties(panel).values() if not column.get("custom.hidden")]
        wide_px = sum(column.get("custom.width", LEAST_PX) for column in columns)
        assert wide_px <= panel["gridPos"]["w"] * COLUMN_PX - PANEL_PADDING_PX, panel["title"]


@pytest.mark.parametrize("board", BOARDS, ids=NAMES)
def test_a_cell_that_names_a_search_trial_run_or_worker_links_to_just_that_one(board: dict[str, Any]) -> None:
    lists = {found["uid"]: found["templating"]["list"] for found in BOARDS}
    boxes = {uid: {variable["name"]: variable for variable in found} for uid, found in lists.items()}
    for panel in panels(board, "table"):
        columns = properties(panel)
        for name, column in columns.items():
            if name in LINKED and not column.get("custom.hidden") and panel["title"] != "Trial":
                assert column["links"], (panel["title"], name)
            for link in column.get("links", ()):
                for used in re.findall(r"__data\.fields\.(\w+)", link["url"]):
                    assert used in columns, (panel["title"], used)
                if link["url"].startswith("/explore"):
                    continue
                uid, variable = re.match(r"/d/([\w-]+)\?var-(\w+)=", link["url"]).groups()  # type: ignore[union-attr]
                box = boxes[uid][variable]
                limited = box["type"] == "query" and "LIMIT" in box["query"]
                assert not limited, f"{panel['title']}: a value that is not among the newest is not selected"


def test_every_table_of_trials_or_attempts_links_to_their_traces() -> None:
    tables = [panel for board in BOARDS for panel in panels(board, "table")]
    links_of = [(it["title"], properties(it).get("trace_id", {}).get("links", ())) for it in tables]
    of_trace = ("${__data.fields.trace_id}", "4bf92f3577b34da6a3ce929d0e0e4736")
    found = {(title, link["url"].replace(*of_trace)) for title, links in links_of for link in links}
    assert {title for title, _ in found} >= {"Searches", "Best trials", "Trials that failed", "Task"}
    for _, url in found:
        [pane] = parse_qs(urlsplit(url).query)["left"]
        shown = json.loads(pane)
        assert shown["datasource"] == "trackside-traces"
        assert [query["query"] for query in shown["queries"]] == ["4bf92f3577b34da6a3ce929d0e0e4736"]


@pytest.mark.parametrize("board", BOARDS, ids=NAMES)
def test_a_link_to_another_board_leads_to_one_that_exists(board: dict[str, Any]) -> None:
    others = {links.board(uid) for uid in NAMES} - {links.board(board["uid"])}
    assert {link["url"] for link in board["links"]} == others


@pytest.mark.parametrize("board", BOARDS, ids=NAMES)
def test_what_is_chosen_is_quoted_in_sql_and_postgres_can_read_every_macro(board: dict[str, Any]) -> None:
    known = {variable["name"] for variable in board["templating"]["list"]}
    for target in targets(board):
        assert set(re.findall(r"\$\{?(\w+)", target.text)) - BUILT_IN <= known, target.name
        if target.is_sql:
            for name in known:
                assert not re.search(rf"\${name}\b|\${{{name}}}", target.text), target.name

        # The plugin ends the arguments of a macro at the first parenthesis and separates them by commas.
        for arguments in re.findall(r"\$__(?:timeFilter|timeGroup)\(([^)]*)\)", target.text):
            assert re.fullmatch(r"\w+(, \$__interval)?", arguments), target.name
