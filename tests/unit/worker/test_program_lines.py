"""The lines of a program's metrics, and the endings of failed programs."""

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.worker.child.program import program_lines
from trackside.worker.child.program.program import ProgramFailedError, UnstartableError, program_failure


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        (b'{"metric": "loss", "value": 0.1, "step": 3}', program_lines.MetricLine("loss", 0.1, 3)),
        (b'{"metric": "loss", "value": 1, "epoch": 7}\r', program_lines.MetricLine("loss", 1.0, None)),
        (b'{"metric": "x", "value": 1, "step": -9, "time_ms": 7}', program_lines.MetricLine("x", 1.0, -9, 7)),
        (
            b'{"summary": {"kind": "text", "tag": "a", "step": 3, "body": {"value": "b"}}}',
            program_lines.SummaryLine("text", "a", 3, None, 0, {"value": "b"}),
        ),
        (
            b'{"summary": {"kind": "image", "tag": "a", "step": 3, "index": 1, "time_ms": 7, "body": {}, '
            b'"path": "a.png", "media_type": "image/png", "answer": true}}',
            program_lines.SummaryLine("image", "a", 3, 7, 1, {}, "a.png", "image/png", True),
        ),
        (b'{"report": 0.9, "step": 0}', program_lines.ReportLine(0.9, 0)),
        (b'{"report": "-inf"}', program_lines.ReportLine(-math.inf, None)),
        (b'{"final": 0.93}', program_lines.FinalLine(0.93)),
        (b'{"final": Infinity}', program_lines.FinalLine(math.inf)),
        (b'{"result": {"a": [1]}}', program_lines.ResultLine({"a": [1]})),
        (b"  \r", None),
    ],
)
def test_a_line_says_one_thing(line: bytes, parsed: program_lines.ProgramLine | None) -> None:
    assert program_lines.read_line(line) == parsed


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (None, "longer than 1,048,576 bytes"),
        (b"loss: 0.1", "not JSON"),
        (b"\xff", "not UTF-8|not JSON"),
        (b"[1, 2]", "expected an object"),
        (b'{"loss": 0.1}', "expected an object such as"),
        (b'{"metric": 3, "value": 1}', "expected an object such as"),
        (b'{"metric": "x", "value": "0.1"}', "value: expected a number"),
        (b'{"report": true}', "report: expected a number"),
        (b'{"report": null}', "report: expected a number"),
        (b'{"final": 1' + b"0" * 400 + b"}", "final: the number is too large"),
        (b'{"report": 1, "step": 1.5}', "step: expected an integer"),
        (b'{"report": 1, "step": -1}', "step: expected an integer"),
        (b'{"report": 1, "step": 9223372036854775808}', "step: expected an integer"),
        (b'{"result": [1]}', "result: expected an object"),
        (b"[" * 100_000, "nested too deep|not JSON"),
        (b'{"final": ' + b"1" * 5_000 + b"}", "not JSON"),
    ],
)
def test_a_line_that_says_nothing_tells_why(line: bytes | None, reason: str) -> None:
    with pytest.raises(program_lines.UnreadableLineError, match=reason):
        program_lines.read_line(line)


@given(st.binary(max_size=200))
def test_no_line_does_harm(line: bytes) -> None:
    with contextlib.suppress(program_lines.UnreadableLineError):
        program_lines.read_line(line)


@pytest.mark.thorough
@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.integers(1, 7))
def test_lines_are_the_same_however_they_arrive(lines: list[bytes], piece: int) -> None:
    octets = b"".join(line + b"\n" for line in lines)
    cut = program_lines.LineSplitter()
    found = [line for at in range(0, len(octets), piece) for line in cut.feed(octets[at : at + piece])]
    assert found + cut.end() == list(enumerate(lines, start=1))


def test_a_line_too_long_is_passed_over_and_counted_once() -> None:
    cut, found = program_lines.LineSplitter(), []
    for _ in range(5):
        found += cut.feed(b"x" * (program_lines.MAX_LINE_BYTES - 1))
    found += cut.feed(b'\n{"report": 1}\n{"fin')
    assert found == [(1, None), (2, b'{"report": 1}')]
    assert cut.feed(b'al": 2}') + cut.end() == [(3, b'{"final": 2}')]
    assert cut.end() == []


def test_the_failures_of_a_program_become_endings() -> None:
    failed = program_failure(ProgramFailedError(3, "exit code 3"))
    assert failed is not None and tuple(json.loads(json.dumps(failed))) == failed
    error, exit_code = failed
    assert (exit_code, error["stage"]) == (3, "TRAIN")
    unstarted = program_failure(UnstartableError("no such file"))
    assert unstarted is not None and unstarted[0]["stage"] == "START"
    assert program_failure(ValueError()) is None


@pytest.mark.parametrize("field", ['"step": 1e400', '"step": 36893488147419103232', '"step": 3, "index": -1'])
def test_a_line_that_waits_for_an_answer_gets_one_also_if_it_cannot_be_read(field: str) -> None:
    """Its program would wait for ever, and with it the task."""
    line = '{"summary": {"kind": "image", "tag": "seen", "body": {}, "path": "a", %s%s}}'
    for answer, waits in ((', "answer": true', True), ("", False)):
        with pytest.raises(program_lines.UnreadableLineError) as caught:
            program_lines.read_line((line % (field, answer)).encode())
        assert caught.value.waits is waits


def test_a_value_whose_bytes_could_not_be_written_says_why() -> None:
    line = b'{"summary": {"kind": "image", "tag": "", "step": 1, "body": {}, "problem": "no", "code": "%s"}}'
    full, other = (program_lines.read_line(line % code) for code in (b"spool_full", b"of its own"))
    assert isinstance(full, program_lines.SummaryLine) and isinstance(other, program_lines.SummaryLine)
    assert (full.tag, full.problem, full.code, other.code) == ("", "no", "spool_full", "bad_summary")
