import json
import os
import sys
from pathlib import Path

import pytest

from trackside.aggregates import documents
from trackside.aggregates.batch.messages import SubmitTasks
from trackside.aggregates.documents import files
from trackside.aggregates.search.aggregate import SEARCH
from trackside.aggregates.search.messages import SearchSpec, StartSearch
from trackside.aggregates.search.space.space import Choice
from trackside.aggregates.search.state import Search, Trial
from trackside.aggregates.search.view import best_line
from trackside.cli.app import COMMANDS, call
from trackside.cli.commands import submit
from trackside.cli.commands.watch import as_object, line
from trackside.cli.render import screen
from trackside.cli.render.progress_board import ProgressBoard
from trackside.contracts.envelope.message import Envelope, Record
from trackside.contracts.envelope.standing import Standing
from trackside.contracts.streams.commands import CommandAccepted, Source
from trackside.domain.display.text import duration
from trackside.domain.streams.stream import Stream


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TRACKSIDE_KAFKA_BOOTSTRAP", "TRACKSIDE_POSTGRES_DSN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.thorough
def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for name in (*(name for group in COMMANDS.values() for name in group), "convert sedna"):
        assert call([*name.split(), "--help"]) == 0
        text = capsys.readouterr().out
        assert "Examples:" in text and f"trackside {name}" in text, name


def test_without_a_stack_a_command_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["ls"], ["events", "x"], ["status"], ["stop", "x"], ["restart"]):
        assert call(arguments) == 1
        assert "trackside up" in capsys.readouterr().err
    assert call(["down"]) == 0


@pytest.mark.thorough
def test_schemas_writes_every_published_document(nowhere: Path) -> None:
    assert call(["schemas", "out/here"]) == 0
    assert {path.name: path.read_text() for path in (nowhere / "out/here").iterdir()} == files()


def test_an_id_that_is_made_up_begins_with_the_name_of_the_search_or_batch_or_its_first_task() -> None:
    command = StartSearch(name="My Digits!", task_type="t", max_trials=1, space=_spec().space)
    first, second = submit.new_stream_id(command), submit.new_stream_id(command)
    assert first.startswith("my-digits-") and first != second and len(first) < 40
    for body, begin in (({"name": "Compare!"}, "compare-"), ({}, "my-digits-")):
        tasks = SubmitTasks.model_validate({**body, "groups": [{"tasks": [{"task_type": "My Digits"}]}]})
        assert submit.new_stream_id(tasks).startswith(begin)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.44, "0.4 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7_500, "2 h 05 min")],
)
def test_durations_are_written_as_people_say_them(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_the_board_shows_how_far_a_search_is_and_its_best() -> None:
    search = Search("s1", _spec(), 1, started_ms=0, best=0)
    search.trials = [Trial(0, {"x": 2}, 0, 0, value=0.96875)]
    search.ends = [0]
    stream = Stream("s1", 0, "search", root=search)
    assert SEARCH.view.progress(stream).line == "1/4 trials ended, best 0.96875"
    assert best_line(search) == "best so far: 0.96875  trial 0  x=2"
    board = ProgressBoard("s1", {("w1", "cpu-0")}, stream)
    output = screen.console()
    with output.capture() as captured:
        output.print(board.render(now_ms=61_000))
    assert "1/4 trials 1 min 01 s" in captured.get()
    assert "w1/cpu-0  free" in captured.get()


def test_an_event_is_written_as_json_and_as_a_line() -> None:
    message = CommandAccepted(command_id="c1", source=Source(topic="t", partition=0, offset=1))
    headers = {"ce_type": b"trackside.command-accepted.v1", "ce_partitionkey": b"s1", "ce_subject": b"c1"}
    record = Record("events", 3, 17, 1_000, Envelope(headers), message)
    found = as_object(record)
    assert json.loads(json.dumps(found)) == found
    assert (found["offset"], found["stream"], found["data"]["command_id"]) == (17, "s1", "c1")
    assert line(record).split()[0] == "17" and "CommandAccepted" in line(record)
    assert "no effect" not in line(record)
    record.standing, record.distrust = Standing.FORGED, "unsigned"
    assert (as_object(record)["outcome"], as_object(record)["distrust"]) == ("forged", "unsigned")
    assert "[forged: unsigned: no effect]" in line(record)


def _spec() -> SearchSpec:
    return SearchSpec(task_type="t", max_trials=4, space={"x": Choice(type="choice", values=[1, 2])})


def test_a_full_disk_is_a_failure_said_once_in_a_sentence_whatever_was_written_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def much() -> dict[str, str]:
        screen.emit("x" * 100_000)
        return {}

    for files_or_much in (lambda: {"a.json": "{}"}, much):
        monkeypatch.setattr(documents, "files", files_or_much)
        with Path("/dev/full").open("w") as full:
            monkeypatch.setattr(sys, "stdout", full)
            assert call(["schemas", "out"]) == 1
        assert capsys.readouterr().err.count("output can't be written: No space left on device") == 1


def test_a_reader_that_leaves_early_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "files", lambda: {"a.json": "{}"})
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as left:
        monkeypatch.setattr(sys, "stdout", left)
        assert call(["schemas", "out"]) == 0
