"""A view that says only what it must: everything that people see has a default."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.listing import Listed
from trackside.domain.display.view import LAST_ATTEMPTS, TASKS, Progress, View
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task

STARTED = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class Errand:
    ended: int = 1


class ErrandView(View[Errand]):
    id_column = "errand_id"
    listing = ""
    newest = one = ""

    def progress(self, stream: Stream[Errand]) -> Progress:
        return Progress("RUNNING", 1_000, 5_000, stream.root.ended, None, "tasks", lines=("so far so good",))


def task_row(name: str, ending: str | None) -> ViewRow:
    row: ViewRow = dict.fromkeys(("objective", "unschedulable"))
    row |= {"task_id": f"e.{name}", "task_type": "walk", "name": name, "ending": ending, "stop_reason": ""}
    row |= {"worker_id": "w1", "device_ids": ["cpu-0"], "attempts": 1, "service": False}
    return row | {"state": "active" if ending is None else "ended", "result": {"steps": 12}}


def attempt_row(name: str, **more: object) -> ViewRow:
    measured = {"load_time_ms": 1, "train_time_ms": 2, "exit_code": None, "status": "TRAINING"}
    error = {"error_stage": None, "error_type": None, "error_message": None}
    return {"task_id": f"e.{name}", **measured, **error, **more}


VIEW = ErrandView()
TIMES: ViewRow = {"started_at": STARTED, "ended_at": None, "duration_s": None}
ROW: ViewRow = {"errand_id": "e", "name": "morning", "status": "RUNNING"} | TIMES
ROWS = {
    TASKS: [task_row("a", "finished"), task_row("b", None)],
    LAST_ATTEMPTS: [attempt_row("a"), attempt_row("b")],
}


def errand() -> Stream[Errand]:
    needs = Needs()
    task: Any = Task("e.a", "walk", {}, Part(kind="leg", number=0), needs, queued_at=(0, 0, 0))
    task.end = AttemptEnd.FAILED
    return Stream("e", 0, "errand", root=Errand(), tasks={"e.a": task})


def test_its_page_has_its_status_and_its_tasks_and_its_report_is_one_section() -> None:
    assert (VIEW.listed(ROW), dict(VIEW.facts(ROW, ROWS))["status"]) == (Listed(), "RUNNING")
    [tasks] = VIEW.tables(ROW, ROWS)
    assert [row[:4] for row in tasks.rows] == [
        ["a", "walk", "ended", "w1/cpu-0"],
        ["b", "walk", "TRAINING", "w1/cpu-0"],
    ]
    assert [row["train_time_ms"] for row in VIEW.lists(ROW, ROWS)[TASKS]] == [2, 2]
    [section] = VIEW.sections(ROW, ROWS)
    assert (section.columns, len(section.finished), section.open) == (["steps"], 1, 1)


def test_its_state_is_its_progress_and_its_end_a_failure_if_that_of_a_task_is_not_accepted() -> None:
    end = VIEW.end(errand(), {AttemptEnd.FINISHED})
    assert end.lines == ["e RUNNING: 1 tasks in 4.0 s"]
    assert end.board_lines == ("so far so good",)
    assert end.failure == "e: 1 of its tasks did not finish"
    assert json.loads(json.dumps(end.summary))["errand_id"] == "e"
    assert VIEW.end(errand(), set(AttemptEnd)).failure == ""
    state = VIEW.state(errand())
    assert (state["status"], state["ended"], state["total"], state["ended_ms"]) == ("RUNNING", 1, None, 5_000)
    assert (VIEW.state_lines(state), VIEW.state_tables({}, {})) == ([], [])
