"""The file of an exported stream: JSON lines, a header, a line for each record, a trailer.

Each line ends in `check`, 16 hex digits of the sha256 of the check before it and the line's own text, so that
the first line that was changed, lost or moved is known by its number. The trailer has the sha256 of all bytes
before it, and the digest of the state that the records fold to.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from trackside.domain.stream import Stream
from trackside.domain.streams import state_adapter
from trackside.domain.task import TaskState
from trackside.eventlog.log import RecordHeaders
from trackside.projections.snapshots import fold_name
from trackside.replay.history.errors import DamagedFileError, UnsupportedFileError

FORMAT = 1
GZIP = b"\x1f\x8b"
LONGEST_LINE_BYTES = 16 * 2**20
_CHECK = ',"check":"'
_CHECK_DIGITS = 16
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says of its stream first: where it was written and how much of it follows."""

    stream: str
    rules: int
    partition: int
    first_offset: int
    last_offset: int
    records: int

    def as_json(self) -> Json:
        """Gives the header line."""
        return {
            "trackside_export": FORMAT,
            "stream": self.stream,
            "rules": self.rules,
            "partition": self.partition,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "records": self.records,
        }


@dataclass(frozen=True, slots=True)
class Line:
    """One record: its place and time in the log where it was first written, and its very bytes."""

    offset: int
    time_ms: int
    key: bytes | None
    headers: RecordHeaders
    value: bytes

    def as_json(self) -> Json:
        """Gives the line of a record."""
        return {
            "offset": self.offset,
            "time_ms": self.time_ms,
            "key": _written(self.key),
            "headers": [[name, _written(octets)] for name, octets in self.headers],
            "value": _written(self.value),
        }


@dataclass(frozen=True, slots=True)
class Tail:
    """What a file says at its end: the fold that the digest is of, and both digests."""

    records: int
    fold: str
    state_sha256: str
    sha256: str = ""

    def as_json(self) -> Json:
        """Gives the trailer, without the digest of the lines."""
        return {"records": self.records, "fold": self.fold, "state_sha256": self.state_sha256}


@dataclass(slots=True)
class LineWriter:
    """Makes the lines of a file, one after another."""

    _check: str = ""
    _all: Any = field(default_factory=sha256)

    def line(self, body: Json) -> bytes:
        """Gives the next line."""
        text = json.dumps(body, separators=(",", ":"))[:-1]
        self._check = _next_check(self._check, text)
        octets = f'{text}{_CHECK}{self._check}"}}\n'.encode()
        self._all.update(octets)
        return octets

    def trailer(self, tail: Tail) -> bytes:
        """Gives the last line, with the digest of those before it."""
        return self.line({**tail.as_json(), "sha256": self._all.hexdigest()})


@dataclass(slots=True)
class LineReader:
    """Checks the lines of a file, one after another; `number` is that of the newest, from 1."""

    number: int = 0
    _check: str = ""
    _all: Any = field(default_factory=sha256)

    def body(self, octets: bytes) -> Json:
        """Gives what a line says; raises DamagedFileError naming the line."""
        self.number += 1
        before = self._all.hexdigest()
        try:
            text = octets.decode("utf-8")
            body = json.loads(text)
        except (ValueError, RecursionError):
            raise self.damaged("is no JSON: the file was cut off or changed here") from None
        text = text.rstrip("\n")
        head = text[: -(len(_CHECK) + _CHECK_DIGITS + 2)]
        self._check = _next_check(self._check, head)
        if not isinstance(body, dict) or text != f'{head}{_CHECK}{self._check}"}}':
            raise self.damaged("was changed, or lines before it are missing or out of order")
        if "state_sha256" in body and body.get("sha256") != before:
            raise self.damaged("is not the trailer of the lines before it")
        self._all.update(octets)
        return body

    def head(self, octets: bytes) -> Head:
        """Reads the first line; raises UnsupportedFileError for a format of another release."""
        version = _version(octets)
        if octets.startswith(GZIP):
            raise UnsupportedFileError("the file is packed with gzip; unpack it first, with gunzip")
        if version is None:
            raise DamagedFileError("line 1 is not the header of an exported stream")
        if version != FORMAT:
            raise UnsupportedFileError(
                f"the file has format {version}, this release reads format {FORMAT}; use one that reads it"
            )
        body = self.body(octets)
        numbers = ("rules", "partition", "first_offset", "last_offset", "records")
        if not isinstance(body.get("stream"), str):
            raise self.damaged("names no stream")
        return Head(body["stream"], *(self.whole(body, name) for name in numbers))

    def record(self, body: Json) -> Line:
        """Reads the line of a record."""
        try:
            headers = [(str(name), _read(octets)) for name, octets in body["headers"]]
            value = _read(body["value"])
            key = _read(body["key"])
        except (KeyError, TypeError, ValueError):
            raise self.damaged("is not the line of a record") from None
        if value is None:
            raise self.damaged("has no value: the record is gone")
        return Line(self.whole(body, "offset"), self.whole(body, "time_ms"), key, headers, value)

    def tail(self, body: Json) -> Tail:
        """Reads the trailer."""
        return Tail(
            self.whole(body, "records"), str(body["fold"]), str(body["state_sha256"]), str(body["sha256"])
        )

    def whole(self, body: Json, name: str) -> int:
        """Gives a whole number of a line."""
        value = body.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.damaged(f"has no whole number {name!r}")
        return value

    def damaged(self, what: str) -> DamagedFileError:
        """Makes the error that names the newest line."""
        return DamagedFileError(f"line {self.number} {what}")


def _next_check(before: str, text: str) -> str:
    return sha256(f"{before}\n{text}".encode()).hexdigest()[:_CHECK_DIGITS]


def _version(octets: bytes) -> object:
    try:
        body = json.loads(octets)
    except (ValueError, RecursionError):
        return None
    return body.get("trackside_export") if isinstance(body, dict) else None


def _written(octets: bytes | None) -> str | Json | None:
    """Writes bytes as text; those that are none as base64."""
    if octets is None:
        return None
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(octets).decode()}


def _read(written: Any) -> bytes | None:
    if written is None:
        return None
    if isinstance(written, dict):
        return b64decode(written["base64"], validate=True)
    if not isinstance(written, str):
        raise TypeError
    return written.encode("utf-8")


def state_digest(stream: Stream) -> str:
    """Gives the sha256 of a stream's state, the same under any name.

    Left out are the stream's name, alone or as the beginning of another one, and how long a task had to
    wait that no longer does: that is drawn from its name.
    """
    state: Json = _nameless(state_adapter(type(stream.root)).dump_python(stream), stream.stream_id)
    for task in state["tasks"].values():
        if task["state"] is not TaskState.QUEUED:
            task["not_before_ms"] = 0
    return sha256(json.dumps(state, sort_keys=True, default=_plain).encode()).hexdigest()


def _nameless(value: Any, stream_id: str) -> Any:
    own = f"{stream_id}."
    if isinstance(value, str):
        return value.removeprefix(own)
    if isinstance(value, dict):
        names_it = [name for name, each in value.items() if name.endswith("_id") and each == stream_id]
        plain = {name.removeprefix(own): _nameless(each, stream_id) for name, each in value.items()}
        return plain | dict.fromkeys(names_it, "")
    if isinstance(value, list | tuple | set | frozenset):
        listed = [_nameless(each, stream_id) for each in value]
        return sorted(listed) if isinstance(value, set | frozenset) else listed
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} in the state of a stream")


def tail_of(stream: Stream, records: int) -> Tail:
    """Makes the trailer of records that were folded."""
    return Tail(records, fold_name(), state_digest(stream))


@dataclass(slots=True)
class Renaming:
    """Gives a stream and its tasks another name, in headers and bodies; tasks of others keep theirs."""

    old: str
    new: str
    _tasks: set[str] = field(default_factory=set)

    def line(self, line: Line) -> Line:
        """Gives a record under the new name; as it was, byte for byte, if that is the old one."""
        if self.old == self.new:
            return line
        headers = [(name, self._header(name, octets)) for name, octets in line.headers]
        return Line(line.offset, line.time_ms, self.new.encode(), headers, self._value(line.value))

    def _header(self, name: str, octets: bytes | None) -> bytes | None:
        if octets is None:
            return None
        if name.lower() == "ce_causationid":
            stream, at, offset = octets.rpartition(b"@")
            return self.new.encode() + at + offset if stream == self.old.encode() else octets
        if name.lower() not in ("ce_partitionkey", "ce_correlationid", "ce_subject"):
            return octets
        return self._named(octets.decode("utf-8", "replace")).encode()

    def _value(self, value: bytes) -> bytes:
        body = json.loads(value)
        task_id = body.get("task_id")
        if isinstance(task_id, str):
            self._tasks.add(task_id)
            body["task_id"] = self._named(task_id)
        if body.get("by") in self._tasks:
            body["by"] = self._named(body["by"])
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()

    def _named(self, text: str) -> str:
        if text == self.old:
            return self.new
        return f"{self.new}{text[len(self.old) :]}" if text.startswith(f"{self.old}.") else text


def without(headers: RecordHeaders, names: Sequence[str]) -> RecordHeaders:
    """Gives headers without some."""
    return [(name, octets) for name, octets in headers if name not in names]
