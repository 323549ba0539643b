"""Every message between worker, forkserver and task process: its round trip, and what can't be read."""

import contextlib
from collections.abc import Mapping
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.worker.messages import forkserver_messages as forkserver
from trackside.worker.messages import process_messages as messages
from trackside.worker.messages import report_messages as reports
from trackside.worker.messages.assignment import Assignment

TO_FORKSERVER, FROM_FORKSERVER = messages.TO_FORKSERVER, messages.FROM_FORKSERVER
FROM_TASK, CONTROL, SPOOL_RECORD = messages.FROM_TASK, messages.CONTROL, messages.SPOOL_RECORD
SEVERAL = {"value": None, "others": {"accuracy": 0.5, "latency": "inf"}}
ERROR = {"stage": "TRAIN", "type": "ValueError", "message": "no", "traceback": ""}
STEPS = [reports.StepReport(0, 0.5, 1_700), reports.StepReport(1, "nan", 1_701)]
POINTS = [reports.MetricPoint("loss", 3, 1_700, 0.1), reports.MetricPoint("loss", 4, 1_701, "nan")]
CHECKPOINT = reports.ArtifactReady(2, "a", 3, "checkpoint", "0" * 64, 3, "text/plain", 10, {}, 1)
ENDING = messages.AttemptEnding("finished", {}, None, None, [], 1, 2, 10, 0, 0, [], None, 0)
FAILED = messages.AttemptEnding("failed", None, ERROR, 3, ["7 sleep"], -1, -1, 10, 0, 1, [], SEVERAL, 2)
MESSAGES: list[tuple[Mapping[str, type[Any]], messages.ProcessMessage]] = [
    (TO_FORKSERVER, forkserver.ForkProcess(7)),
    (TO_FORKSERVER, forkserver.SignalProcess(7, 15)),
    (TO_FORKSERVER, forkserver.HoldProcess(7, "0a1b", 10.0, 7.0)),
    (TO_FORKSERVER, forkserver.ReleaseProcess(7)),
    (TO_FORKSERVER, forkserver.ProgressAppended(7, 12)),
    (TO_FORKSERVER, forkserver.LogContact(12.5)),
    (FROM_FORKSERVER, forkserver.ForkserverOffer(4_711, 1, 2)),
    (FROM_FORKSERVER, forkserver.HeldProcess(7, 4_712, "0a1b", None, [])),
    (FROM_FORKSERVER, forkserver.HeldProcess(7, 4_712, "0a1b", 9, ["4713 sleep 600"])),
    (FROM_FORKSERVER, forkserver.ForkserverReady(4_711, {"sklearn": "ModuleNotFoundError: no module"})),
    (FROM_FORKSERVER, forkserver.ProcessForked(7, 4_712)),
    (FROM_FORKSERVER, forkserver.ForkFailed(7, "fork: Cannot allocate memory")),
    (FROM_FORKSERVER, forkserver.ProcessExited(7, 9, ["4713 sleep 600"])),
    (
        messages.ASSIGNMENT,
        Assignment("x:Y", [], "", {"lr": 0.1}, {"HOME": "/home"}, "/tasks/1", "/endings/1.json"),
    ),
    (
        messages.ASSIGNMENT,
        Assignment("", ["./a"], "/code", {}, {}, "/tasks/1", "/endings/1.json", 2, 1, 2, 100, 10),
    ),
    (CONTROL, messages.LoadCommand()),
    (CONTROL, messages.TrainCommand("cuda:0")),
    (CONTROL, messages.ExitCommand()),
    (CONTROL, messages.ParametersAnswer(1, {"lr": 0.5})),
    (CONTROL, messages.ParametersAnswer(2)),
    (CONTROL, messages.ParametersAnswer(3, {"lr": "x"}, "$.lr: 'x' is not of type 'number'")),
    (CONTROL, messages.InstructionMessage(2, {"model": "b"})),
    (FROM_TASK, messages.ServiceReady({"port": 8_000})),
    (FROM_TASK, messages.ServiceAlive()),
    (CONTROL, messages.CheckpointAnswer(1, {"step": 4}, "/work/.checkpoint-1", warning="damaged")),
    (FROM_TASK, messages.CheckpointRequest(1, True)),
    (FROM_TASK, messages.FetchRequest(1, {"uri": "file:///a", "sha256": "0" * 64, "size_bytes": 1})),
    (FROM_TASK, messages.ArtifactReleased({"uri": "file:///a", "sha256": "0" * 64, "size_bytes": 1})),
    (CONTROL, messages.FetchAnswer(1, "/cache/entries/0")),
    (CONTROL, messages.FetchAnswer(2, code="artifact_missing", problem="no copy has it")),
    (FROM_TASK, messages.TrainingResumed({"step": 4})),
    (FROM_TASK, messages.InstructionAnswer(2, True, {"sha256": "ab"})),
    (FROM_TASK, messages.PhaseBegan(3)),
    (FROM_TASK, reports.ReportBatch(STEPS)),
    (FROM_TASK, reports.ReportBatch([reports.StepReport(0, SEVERAL, 1_700)])),
    (FROM_TASK, reports.FinalValue(0.5)),
    (FROM_TASK, reports.FinalValue(1)),
    (FROM_TASK, reports.FinalValue("-inf")),
    (FROM_TASK, reports.FinalValue(SEVERAL)),
    (FROM_TASK, reports.PointBatch(POINTS)),
    (FROM_TASK, reports.SummaryValueReport("text", "notes", 3, 1_700, 0, {"value": ["a"]})),
    (FROM_TASK, reports.SummaryValueReport("image", "a", 3, 1_700, 1, {}, 7, "0" * 64, 70, "image/png")),
    (FROM_TASK, reports.SummaryOmitted("spool_full", "no room")),
    (FROM_TASK, reports.StoredRequest(1)),
    (CONTROL, reports.StoredAnswer(1)),
    (FROM_TASK, messages.ParametersRequest(1)),
    (FROM_TASK, messages.AnswerReceived(1, True)),
    (FROM_TASK, messages.TrainingInterrupted("host", {"stage": "TRAIN", "type": "MemoryError"}, 10, 0)),
    (FROM_TASK, reports.ArtifactReady(1, "a", 2, "file", "0" * 64, 3, "text/plain", None, {"rows": 3}, 0)),
    (SPOOL_RECORD, CHECKPOINT),
    (SPOOL_RECORD, CHECKPOINT._replace(interrupts=1, reports=STEPS[:1], resumed={"step": 4})),
    (FROM_TASK, messages.AttemptOver()),
    (FROM_TASK, ENDING),
    (FROM_TASK, FAILED),
    (messages.ENDING_FILE, ENDING._replace(end="lost", reports=STEPS[:1], final=0.5)),
    (FROM_TASK, messages.ProcessFree(10, 2)),
    (messages.PROGRESS, messages.AnswerTaken("fetch-request", 3)),
]


@pytest.mark.parametrize(("expected", "message"), MESSAGES)
def test_a_message_arrives_as_it_was_sent(
    expected: Mapping[str, type[Any]], message: messages.ProcessMessage
) -> None:
    line = messages.encode(message)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    found = messages.decode(line, expected)
    assert (type(found), found) == (type(message), message)


def test_every_message_is_tried_and_is_expected_somewhere_and_items_of_a_batch_have_names_again() -> None:
    kinds = set(get_args(messages.ProcessMessage))
    assert {type(message) for _, message in MESSAGES} == kinds
    tables = (
        TO_FORKSERVER,
        FROM_FORKSERVER,
        messages.ASSIGNMENT,
        CONTROL,
        messages.PROGRESS,
        messages.ENDING_FILE,
    )
    assert {kind for table in tables for kind in table.values()} == kinds
    batch = messages.decode(
        messages.encode(reports.PointBatch([reports.MetricPoint("loss", 3, 1_700, 0.1)])), FROM_TASK
    )
    assert isinstance(batch, reports.PointBatch) and batch.points[0].tag == "loss"


ANY = "expected LOAD, TRAIN, EXIT, NEXT, CHECKPOINT, FETCHED, STORED or INSTRUCTION"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", f"{ANY}, got b''"),
        (b"\xff", ANY),
        (b"{}", ANY),
        (b"null", ANY),
        (b"[" * 100_000, ANY),
        (b'["TRAIN"]', ANY),
        (b'{"type": ["TRAIN"]}', ANY),
        (b'{"type": "status", "status": 3}', ANY),
        (b'{"type": "TRAIN"}', "TRAIN: .*'device'"),
        (b'{"type": "TRAIN", "device": 0}', "TRAIN: device: expected str; got b'.*'"),
        (b'{"type": "TRAIN", "device": "cpu", "at": 3}', "TRAIN: no field 'at'"),
        (b'{"type": "NEXT", "request": true}', "NEXT: request: expected int"),
        (b'{"type": "NEXT", "request": 1, "parameters": []}', "NEXT: parameters: expected dict or NoneType"),
    ],
)
def test_a_line_that_cannot_be_read_says_what_was_expected(line: bytes, reason: str) -> None:
    with pytest.raises(messages.UnreadableMessageError, match=reason):
        messages.decode(line, CONTROL)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type": "reports", "reports": [[1, 0.5]]}', "reports: .*[Ee]xpected 3"),
        (b'{"type": "reports", "reports": [3]}', "reports: "),
        (b'{"type": "points", "points": {}}', "points: expected list"),
        (b'{"type": "final", "final": true}', "final: expected float or str or dict or int"),
    ],
)
def test_values_that_cannot_be_read_say_what_was_expected(line: bytes, reason: str) -> None:
    with pytest.raises(messages.UnreadableMessageError, match=reason):
        messages.decode(line, FROM_TASK)


def test_only_the_beginning_of_an_unreadable_line_is_shown() -> None:
    with pytest.raises(messages.UnreadableMessageError) as caught:
        messages.decode(b"x" * 1_000_000, messages.ASSIGNMENT)
    assert str(caught.value).startswith("expected assignment, got b'xxx") and len(str(caught.value)) < 300


@pytest.mark.thorough
@given(st.binary(max_size=100) | st.from_regex(rb'\{"type": "(final|points|status)", "[a-z]{5,6}": .{1,9}\}'))
def test_no_line_raises_anything_else(line: bytes) -> None:
    with contextlib.suppress(messages.UnreadableMessageError):
        messages.decode(line, FROM_TASK)
