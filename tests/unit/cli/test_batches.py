import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.projections.given_batches import Decision, eventful_batch, stopped_batch, unfinished_batch
from tests.unit.projections.given_services import served_batch
from trackside.aggregates.batch.aggregate import BATCH
from trackside.aggregates.registry import AGGREGATES, CODEC
from trackside.cli.render import follow, screen
from trackside.cli.render.progress_board import ProgressBoard
from trackside.cli.render.report import StreamReport
from trackside.cli.render.report_page import page
from trackside.cli.runtime.failures import CommandFailed, FailureReported
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.instructions import TaskReady
from trackside.domain.display.report import section
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream

NOW_MS = 1_800_000_000_000


def seen(decisions: list[Decision], stream_id: str) -> ProgressBoard:
    streams, board = Streams(AGGREGATES), ProgressBoard(stream_id, {("w2", "cpu0"), ("w1", "gpu-0")})
    for record in _records(decisions):
        stream, outcome = streams.fold(record)
        assert outcome is Outcome.APPLIED
        board.update(record, stream)
    return board


def _records(decisions: list[Decision]) -> Iterator[Record]:
    for offset, outgoing in enumerate(record for decision in decisions for record in decision):
        envelope = CODEC.envelope(outgoing.headers)
        message = CODEC.decode(envelope, outgoing.value)
        yield Record("events", 0, offset, NOW_MS + offset * 1_000, envelope, message)


def drawn(board: ProgressBoard, after_s: int = 60) -> str:
    output = screen.console()
    with output.capture() as captured:
        output.print(board.render(NOW_MS + after_s * 1_000))
    return captured.get()


def stream_of(board: ProgressBoard) -> Stream:
    assert board.stream is not None
    return board.stream


def test_the_board_of_a_batch_shows_its_groups_and_what_each_device_does() -> None:
    board = seen(list(unfinished_batch("going")), "going")
    text = drawn(board)
    assert "RUNNING" in text and "0/4 tasks" in text
    assert "warm-up  RUNNING  0/3" in text and "group-2  WAITING  0/1" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["w1/gpu-0", "free"] in lines
    [first] = [line for line in lines if line[0] == "w2/cpu0"]
    assert first[1:3] == ["1.a", "INIT"]
    assert ["1.c", "(next)", "INIT"] in [line[:3] for line in lines], "what waits behind it is below it"


def test_the_board_shows_services_that_no_device_has(capsys: pytest.CaptureFixture[str]) -> None:
    history = list(served_batch("serving"))
    board = seen(history, "serving")
    ended_s = sum(map(len, history)) - 1
    lines = [line.split() for line in drawn(board, ended_s + 1).splitlines()]
    assert ["w2", "1.up", "ready"] in [line[:3] for line in lines]
    assert ["w2", "1.new", "starting"] in [line[:3] for line in lines]
    [waits] = [line for line in lines if line[:1] == ["1.down"]]
    assert waits[1:4] == ["(attempt", "2)", "waiting"] and 8 <= int(waits[4]) <= 10
    assert ["w2/cpu0", "free"] in lines
    say = follow._Plain(board)
    ready = [record for record in _records(history) if isinstance(record.message, TaskReady)]
    for record in ready:
        say(record, stream_of(board))
    assert capsys.readouterr().err == "  1.up is ready\n", "the other one has ended since"


def test_the_board_of_a_batch_names_what_did_not_finish_or_can_not_run_and_its_progress() -> None:
    history = list(eventful_batch("tasks"))
    board = seen(history, "tasks")
    text = drawn(board)
    assert "1.2 cancelled: too large" in text
    assert "1.c timed_out_run" in text
    assert "4/4 tasks" in text and "can't run" not in text, "it has been stopped since"
    [told] = [at for at, decision in enumerate(history) if b"too large" in (decision[0].value or b"")]
    assert "1.2 can't run: too large" in drawn(seen(history[: told + 1], "tasks"))
    assert "waiting for it to start" in drawn(ProgressBoard("x"))
    counted = "4/4 tasks ended: 2 finished, 1 cancelled, 1 timed_out_run"
    assert BATCH.view.progress(stream_of(board)).line == f"{counted}; at group-2 (2 of 2 groups)"


def test_a_batch_with_unfinished_tasks_is_a_failure_for_who_waits(capsys: pytest.CaptureFixture[str]) -> None:
    stream = stream_of(seen(list(eventful_batch("tasks")), "tasks"))
    with pytest.raises(CommandFailed, match="tasks: 2 of its tasks did not finish"):
        follow.print_end(stream, as_json=False)
    said = capsys.readouterr().out
    assert "tasks DONE: 4 tasks in" in said and "  1.c timed_out_run" in said
    with pytest.raises(CommandFailed, match="1 of its tasks"):
        follow.print_end(stream, as_json=False, accepted=follow.FINISHED_OR_CANCELLED)
    follow.print_end(stream, as_json=False, accepted=follow.ANY_END)


def test_a_batch_that_was_stopped_is_fine_for_who_only_watches(capsys: pytest.CaptureFixture[str]) -> None:
    stream = stream_of(seen(list(stopped_batch("halted")), "halted"))
    follow.print_end(stream, as_json=False, accepted=follow.FINISHED_OR_CANCELLED)
    with pytest.raises(CommandFailed, match="3 of its tasks did not finish, 1 never had their turn"):
        follow.print_end(stream, as_json=False)
    capsys.readouterr()
    with pytest.raises(FailureReported):
        follow.print_end(stream, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert (said["status"], said["ends"], said["left_out"]) == ("STOPPED", {"cancelled": 3}, 1)
    assert [row["name"] for row in said["unfinished"]] == ["a", "2", "c"]


def task(name: str, ending: str | None = "finished", **more: object) -> ViewRow:
    empty = dict.fromkeys(("objective", "result", "unschedulable"))
    about = {"task_id": f"b.1.{name}", "name": name, "ending": ending, "stop_reason": "", "attempts": 1}
    return {**empty, **about, **more}


def attempt(**more: object) -> ViewRow:
    fields: ViewRow = {"load_time_ms": 5, "train_time_ms": 1_500, "error_type": None, "exit_code": 0}
    return fields | more


def test_t22_result_columns_are_all_scalars_of_any_task_and_what_failed_has_its_stage_and_message() -> None:
    rows = [
        task("a", objective=0.5, result={"zeta": 1, "alpha": 2.5, "curve": [1, 2]}),
        task("b", result={"note": "x", "nested": {"a": 1}, "ok": True}),
        task("c", ending=None),
    ]
    made = section("warm-up", "RUNNING", rows, {})
    assert made.columns == ["value", "alpha", "note", "ok", "zeta"]
    assert [row.cells.get("alpha") for row in made.finished] == [2.5, None]
    assert (made.open, made.failed) == (1, [])
    error = {"error_type": "ValueError", "error_message": "no\nfile", "error_stage": "LOAD"}
    rows = [task("a", "failed"), task("b", "lost"), task("c", "timed_out_queue", unschedulable="too large")]
    made = section("g", "DONE", rows, {"b.1.a": attempt(**error), "b.1.b": attempt(exit_code=137)})
    first, second = ("failed", "LOAD", "ValueError: no\nfile"), ("lost", None, "exit code 137")
    found = [(row.ending, row.stage, row.message) for row in made.failed]
    assert found == [first, second, ("timed_out_queue", None, "too large")]


def test_t22_nothing_in_a_page_comes_through_unescaped() -> None:
    evil = "<script>alert('x')</script>&"
    rows = [task(evil, result={evil: evil}), task("b", "failed")]
    error = attempt(error_type=evil, error_message=evil, error_stage="TRAIN")
    made = section(evil, "DONE", rows, {"b.1.b": error})
    started = datetime(2026, 1, 31, tzinfo=UTC)
    text = page(StreamReport("batch", "b", evil, "DONE", started, started + timedelta(seconds=90), [made]))
    assert "<script" not in text and text.count("&lt;script&gt;") >= 6
    assert "after 1 min 30 s" in text
