"""The lines of JSON that a program writes to its metrics descriptor. Pure.

    {"metric": "loss", "value": 0.1, "step": 3}      a metric; the step may be left out
    {"report": 0.9, "step": 3}                       an intermediate value of the trial
    {"final": 0.93}                                  the final value of the trial
    {"final": {"accuracy": 0.93, "latency": 12}}     of several objectives; also in a report
    {"summary": {"kind": "text", "tag": "notes", "step": 3, "body": {"value": {...}}}}
                                                     a value that is no number; `index`, `time_ms` and, for
                                                     its bytes, `path` and `media_type` may be there
    {"result": {"accuracy": 0.93}}                   the result; the last one counts
    {"save": {"name": "model", "path": "model.pt"}}  saves a file or folder; `kind`, `metadata` may be there
    {"checkpoint": {"step": 3, "path": "c.pt"}}      saves a file or folder that step 3 can be trained from
    {"fetch": {"uri": "...", "sha256": "..."}}       has an artifact fetched; the answer has its `path`
    {"release": {"uri": "...", "sha256": "..."}}     has no use any more for what was fetched
    {"resumed": true}                                the training continues from $TRACKSIDE_CHECKPOINT
    {"next": true}                                   requests another trial's parameters
    {"ready": {"port": 8000}}                        a service serves; with what it says of that
    {"acknowledge": {"number": 1, "ok": true}}       an instruction was carried out; `detail` may be there
    {"alive": true}                                  a service is there, and has no news

A number that isn't finite may be written as NaN, Infinity, -Infinity or as "nan", "inf", "-inf".
"""

import json
from typing import Any, NamedTuple

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.tasks.artifacts import CHECKPOINT
from trackside.worker.child.channel.summary_spool import BAD_SUMMARY, MAX_BODY_BYTES, SPOOL_FULL

MAX_LINE_BYTES = 1_048_576
MAX_STEP = 2**63 - 1
MAX_TIME_MS = 253_402_300_799_999
"""The end of the year 9999, the last one that is written with four digits."""
MAX_SUMMARY_ITEM = 9_999
MAX_MEDIA_TYPE = 100
MAX_PROBLEM = 200
EXPECTED = 'expected an object such as {"metric": "loss", "value": 0.1, "step": 3}'
EXPECTED_SUMMARY = (
    'summary: expected an object such as {"kind": "text", "tag": "notes", "step": 3, "body": {"value": ...}}'
)


class UnreadableLineError(Exception):
    """A line that can't be used; the message has the reason. `waits`: the program waits for its answer."""

    waits = False


class MetricLine(NamedTuple):
    """A point of a metric."""

    tag: str
    value: float
    step: int | None
    time_ms: int | None = None


class ReportLine(NamedTuple):
    """An intermediate value of the trial."""

    value: float | dict[str, float]
    step: int | None


class FinalLine(NamedTuple):
    """The final value of the trial."""

    value: float | dict[str, float]


class ResultLine(NamedTuple):
    """The result so far."""

    result: dict[str, Any]


class SaveLine(NamedTuple):
    """A file or folder to save; a path that isn't absolute is below the working directory.

    The program waits for an answer if `answer` is true. A checkpoint has the `step` to continue with.
    """

    name: str
    path: str
    kind: str
    metadata: dict[str, Any]
    answer: bool
    step: int | None = None


class SummaryLine(NamedTuple):
    """A value that is no number. `path` is a file with its bytes, "" if `body` is all of it.

    The program waits for an answer if `answer` is true. `problem` is why there is no file, with its code.
    """

    kind: str
    tag: str
    step: int
    time_ms: int | None
    item: int
    body: dict[str, Any]
    path: str = ""
    media_type: str = ""
    answer: bool = False
    problem: str = ""
    code: str = BAD_SUMMARY


class RefusedLine(NamedTuple):
    """A request that can't be read."""

    problem: str


class FetchLine(NamedTuple):
    """A request for an artifact, by its whole reference."""

    reference: dict[str, Any]


class ReleaseLine(NamedTuple):
    """An artifact that was fetched is no longer used."""

    reference: dict[str, Any]


class ResumedLine(NamedTuple):
    """The training continues from the checkpoint that the program was started with."""


class ReadyLine(NamedTuple):
    """A service serves."""

    detail: dict[str, Any]


class AcknowledgeLine(NamedTuple):
    """An instruction was carried out, or was not."""

    number: int
    ok: bool
    detail: dict[str, Any]


class AliveLine(NamedTuple):
    """A service is there."""


class NextLine(NamedTuple):
    """A request for another trial's parameters."""


RequestLine = SaveLine | NextLine | FetchLine | SummaryLine | RefusedLine
"""What the worker is asked to do."""
TalkLine = ReadyLine | AcknowledgeLine | AliveLine | ResumedLine | ReleaseLine
ProgramLine = MetricLine | ReportLine | FinalLine | ResultLine | RequestLine | TalkLine


class LineSplitter:
    """Splits bytes into lines, which are numbered from 1."""

    def __init__(self) -> None:
        self.number = 0
        self._rest = b""
        self._too_long = False

    def feed(self, octets: bytes) -> list[tuple[int, bytes | None]]:
        """Adds bytes; returns the lines that they complete, None for one over 1 MiB."""
        *lines, self._rest = (self._rest + octets).split(b"\n")
        found = [self._numbered(line) for line in lines]
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest, self._too_long = b"", True
        return found

    def end(self) -> list[tuple[int, bytes | None]]:
        """Returns the last line if it has no newline."""
        return self.feed(b"\n") if self._rest or self._too_long else []

    def _numbered(self, line: bytes) -> tuple[int, bytes | None]:
        self.number += 1
        too_long, self._too_long = self._too_long or len(line) > MAX_LINE_BYTES, False
        return self.number, None if too_long else line


def read_line(line: bytes | None) -> ProgramLine | None:
    """Parses one line; None if it is blank. Raises UnreadableLineError."""
    if line is None:
        raise UnreadableLineError(f"longer than {MAX_LINE_BYTES:,} bytes")
    if not line.strip():
        return None
    try:
        found = json.loads(line)
    except UnicodeDecodeError as error:
        raise UnreadableLineError("not UTF-8") from error
    except ValueError as error:
        raise UnreadableLineError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise UnreadableLineError("nested too deep") from error
    if not isinstance(found, dict):
        raise UnreadableLineError(EXPECTED)
    try:
        return _parse(found)
    except UnreadableLineError as error:
        error.waits = any(isinstance(each, dict) and each.get("answer") is True for each in found.values())
        raise


def _parse(found: dict[str, Any]) -> ProgramLine:
    match found:
        case {"metric": str(tag), "value": value, **rest}:
            return MetricLine(tag, _number("value", value), _step(rest, -MAX_STEP - 1), _time_ms(rest))
        case {"summary": dict(summary)}:
            return _summary_line(summary)
        case {"summary": _}:
            raise UnreadableLineError(EXPECTED_SUMMARY)
        case {"report": value, **rest}:
            return ReportLine(_numbers("report", value), _step(rest))
        case {"final": value}:
            return FinalLine(_numbers("final", value))
        case {"next": True}:
            return NextLine()
        case {"fetch": dict(reference)}:
            return FetchLine(reference)
        case {"release": dict(reference)}:
            return ReleaseLine(reference)
        case {"save": {"name": str(name), "path": str(path), **rest}}:
            return _save_line(name, path, rest)
        case {"checkpoint": {"step": int(step), "path": str(path), **rest}} if step >= 0:
            return SaveLine(
                CHECKPOINT, path, CHECKPOINT, {}, rest.get("answer") is True, _step({"step": step})
            )
        case {"checkpoint": _}:
            raise UnreadableLineError('checkpoint: expected an object such as {"step": 3, "path": "c.pt"}')
        case {"resumed": True}:
            return ResumedLine()
        case {"save": _}:
            raise UnreadableLineError(
                'save: expected an object such as {"name": "model", "path": "model.pt"}'
            )
        case {"ready": dict(detail)}:
            return ReadyLine(detail)
        case {"alive": True}:
            return AliveLine()
        case {"acknowledge": dict(answer)}:
            return _acknowledge(answer)
        case {"result": dict(result)}:
            return ResultLine(result)
        case {"result": _}:
            raise UnreadableLineError("result: expected an object")
        case _:
            raise UnreadableLineError(EXPECTED)


def _save_line(name: str, path: str, rest: dict[Any, Any]) -> SaveLine:
    kind, metadata = rest.get("kind", "file"), rest.get("metadata", {})
    if not isinstance(kind, str) or not isinstance(metadata, dict):
        raise UnreadableLineError("save: expected a text as kind, and an object as metadata")
    return SaveLine(name, path, kind, metadata, rest.get("answer") is True)


def _summary_line(found: dict[str, Any]) -> SummaryLine:
    match found:
        case {"kind": str(kind), "tag": str(tag), "step": _, "body": dict(body)}:
            pass
        case _:
            raise UnreadableLineError(EXPECTED_SUMMARY)
    if not is_identifier(kind):
        raise UnreadableLineError(f"summary: kind: expected {IDENTIFIER_RULE}")
    step, path, media_type = _step(found, -MAX_STEP - 1), found.get("path", ""), found.get("media_type", "")
    item = found.get("index", 0)
    if step is None or type(item) is not int or not 0 <= item <= MAX_SUMMARY_ITEM:
        raise UnreadableLineError(
            f"summary: expected integers as step, and as index up to {MAX_SUMMARY_ITEM}"
        )
    if not isinstance(path, str) or not isinstance(media_type, str) or len(media_type) > MAX_MEDIA_TYPE:
        raise UnreadableLineError("summary: expected texts as path and media_type")
    if len(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")) > MAX_BODY_BYTES:
        raise UnreadableLineError(
            f"summary: the body of {tag[:80]!r} has more than {MAX_BODY_BYTES:,} bytes as JSON: write the "
            "value to a file, and its path to the line"
        )
    answer, problem = found.get("answer") is True, str(found.get("problem", ""))[:MAX_PROBLEM]
    code = SPOOL_FULL if found.get("code") == SPOOL_FULL else BAD_SUMMARY
    time_ms = _time_ms(found)
    return SummaryLine(kind, tag, step, time_ms, item, body, path, media_type, answer, problem, code)


def _acknowledge(answer: dict[str, Any]) -> AcknowledgeLine:
    number, ok, detail = answer.get("number"), answer.get("ok", True), answer.get("detail", {})
    if type(number) is not int or not isinstance(ok, bool) or not isinstance(detail, dict):
        raise UnreadableLineError(
            'acknowledge: expected an object such as {"number": 1, "ok": true, "detail": {}}'
        )
    return AcknowledgeLine(number, ok, detail)


def _numbers(name: str, value: Any) -> float | dict[str, float]:
    if isinstance(value, dict):
        return {tag: _number(f"{name}.{tag}", number) for tag, number in value.items()}
    return _number(name, value)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float) or value in ("nan", "inf", "-inf")):
        raise UnreadableLineError(f"{name}: expected a number")
    try:
        return float(value)
    except OverflowError as error:
        raise UnreadableLineError(f"{name}: the number is too large") from error


def _step(fields: dict[str, Any], least: int = 0) -> int | None:
    step = fields.get("step")
    if step is None:
        return None
    if isinstance(step, bool) or not isinstance(step, int) or not least <= step <= MAX_STEP:
        raise UnreadableLineError(f"step: expected an integer {'from 0 on' if least == 0 else 'of 64 bits'}")
    return step


def _time_ms(fields: dict[str, Any]) -> int | None:
    time_ms = fields.get("time_ms")
    if time_ms is not None and (type(time_ms) is not int or not 0 <= time_ms <= MAX_TIME_MS):
        raise UnreadableLineError("time_ms: expected the milliseconds since 1970, an integer")
    return time_ms
