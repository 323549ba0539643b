"""The file of an exported stream: JSON lines, a header, a line for each record, a trailer.

Each line ends in `check`, 16 hex digits of the sha256 of the previous check and the line's own text: so the
first line that was changed, lost or moved is known by its number. The trailer has the sha256 of all bytes
before it, and the digest of the state that the records fold to.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from trackside.domain.folding.streams import state_adapter
from trackside.domain.proposal import parse_cause
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import TaskState
from trackside.eventlog.log import RecordHeaders
from trackside.projections.writing.snapshots import fold_name
from trackside.replay.history.errors import DamagedFileError, UnsupportedFileError

FORMAT = 1
GZIP = b"\x1f\x8b"
MAX_LINE_BYTES = 16 * 2**20
_CHECK = ',"check":"'
_CHECK_DIGITS = 16
_WITH_VALUES = ("values", "sources", "items", "outputs", "parameters")
"""Fields of events with values that a run passes on between its steps."""
JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExportHeader:
    """The first line of a file: where its stream was written, and how many records follow."""

    stream: str
    rules: int
    partition: int
    first_offset: int
    last_offset: int
    records: int

    def as_json(self) -> JsonObject:
        """Returns the header line."""
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
class ExportedRecord:
    """One record: its offset and time in the log where it was first written, and its exact bytes."""

    offset: int
    time_ms: int
    key: bytes | None
    headers: RecordHeaders
    value: bytes

    def as_json(self) -> JsonObject:
        """Returns the line of a record."""
        return {
            "offset": self.offset,
            "time_ms": self.time_ms,
            "key": encode_bytes(self.key),
            "headers": [[name, encode_bytes(data)] for name, data in self.headers],
            "value": encode_bytes(self.value),
        }


@dataclass(frozen=True, slots=True)
class ExportTrailer:
    """The last line of a file: the version of the fold, the digest of the state, and that of the file."""

    records: int
    fold: str
    state_sha256: str
    sha256: str = ""

    def as_json(self) -> JsonObject:
        """Returns the trailer, without the digest of the lines."""
        return {"records": self.records, "fold": self.fold, "state_sha256": self.state_sha256}


@dataclass(slots=True)
class LineWriter:
    """Writes the lines of a file, one after another."""

    _check: str = ""
    _digest: Any = field(default_factory=sha256)

    def line(self, body: JsonObject) -> bytes:
        """Returns the next line."""
        text = json.dumps(body, separators=(",", ":"))[:-1]
        self._check = _next_check(self._check, text)
        data = f'{text}{_CHECK}{self._check}"}}\n'.encode()
        self._digest.update(data)
        return data

    def trailer(self, trailer: ExportTrailer) -> bytes:
        """Returns the last line, with the digest of those before it."""
        return self.line({**trailer.as_json(), "sha256": self._digest.hexdigest()})


@dataclass(slots=True)
class LineReader:
    """Checks the lines of a file, one after another; `number` is that of the last one read, from 1.

    `within` is the name of the file, if it is one of several.
    """

    number: int = 0
    within: str = ""
    _check: str = ""
    _digest: Any = field(default_factory=sha256)

    def body(self, data: bytes) -> JsonObject:
        """Returns the object of a line; raises DamagedFileError that names the line."""
        self.number += 1
        before = self._digest.hexdigest()
        try:
            text = data.decode("utf-8")
            body = json.loads(text)
        except (ValueError, RecursionError):
            raise self.damaged("is not JSON: the file was cut off or changed here") from None
        text = text.rstrip("\n")
        header = text[: -(len(_CHECK) + _CHECK_DIGITS + 2)]
        self._check = _next_check(self._check, header)
        if not isinstance(body, dict) or text != f'{header}{_CHECK}{self._check}"}}':
            raise self.damaged("was changed, or lines before it are missing or out of order")
        if "state_sha256" in body and body.get("sha256") != before:
            raise self.damaged("is not the trailer of the lines before it")
        self._digest.update(data)
        return body

    def unchecked_body(self, data: bytes) -> JsonObject:
        """Returns the object of a line of a file that was checked; raises DamagedFileError."""
        self.number += 1
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise self.damaged("is not JSON: the file was cut off or changed here")
        return body

    def header(self, data: bytes) -> ExportHeader:
        """Parses the first line; raises UnsupportedFileError for a format of another release."""
        version = _version(data)
        if data.startswith(GZIP):
            raise UnsupportedFileError("the file is packed with gzip; unpack it first, with gunzip")
        if version is None:
            raise DamagedFileError("line 1 is not the header of an exported stream")
        if version != FORMAT:
            raise UnsupportedFileError(
                f"the file has format {version}, this release reads format {FORMAT}; use one that reads it"
            )
        body = self.body(data)
        numbers = ("rules", "partition", "first_offset", "last_offset", "records")
        if not isinstance(body.get("stream"), str):
            raise self.damaged("names no stream")
        return ExportHeader(body["stream"], *(self.whole_number(body, name) for name in numbers))

    def record(self, body: JsonObject) -> ExportedRecord:
        """Parses the line of a record."""
        try:
            headers = [(str(name), decode_bytes(data)) for name, data in body["headers"]]
            value = decode_bytes(body["value"])
            key = decode_bytes(body["key"])
        except (KeyError, TypeError, ValueError):
            raise self.damaged("is not the line of a record") from None
        if value is None:
            raise self.damaged("has no value: the record is gone")
        return ExportedRecord(
            self.whole_number(body, "offset"), self.whole_number(body, "time_ms"), key, headers, value
        )

    def trailer(self, body: JsonObject) -> ExportTrailer:
        """Parses the trailer."""
        return ExportTrailer(
            self.whole_number(body, "records"),
            str(body["fold"]),
            str(body["state_sha256"]),
            str(body["sha256"]),
        )

    def whole_number(self, body: JsonObject, name: str) -> int:
        """Returns a non-negative integer of a line."""
        value = body.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.damaged(f"has no integer {name!r}")
        return value

    def damaged(self, what: str) -> DamagedFileError:
        """Returns the error that names the last line read."""
        place = f"line {self.number} of {self.within}" if self.within else f"line {self.number}"
        return DamagedFileError(f"{place} {what}")


def _next_check(before: str, text: str) -> str:
    return sha256(f"{before}\n{text}".encode()).hexdigest()[:_CHECK_DIGITS]


def _version(data: bytes) -> object:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body.get("trackside_export") if isinstance(body, dict) else None


def encode_bytes(data: bytes | None) -> str | JsonObject | None:
    """Encodes bytes as text, and as base64 if they are not UTF-8."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def decode_bytes(written: Any) -> bytes | None:
    """Decodes what `encode_bytes` has written; raises KeyError, TypeError or ValueError."""
    if written is None:
        return None
    if isinstance(written, dict):
        return b64decode(written["base64"], validate=True)
    if not isinstance(written, str):
        raise TypeError
    return written.encode("utf-8")


def state_digest(stream: Stream) -> str:
    """Returns the sha256 of a stream's state, the same under any name.

    Left out are the stream's name, alone or as the beginning of another one, and the past backoff of tasks,
    which depends on their names.
    """
    adapter = state_adapter(type(stream.root))
    state: JsonObject = _without_name(adapter.dump_python(stream), stream.stream_id)
    for task in state["tasks"].values():
        if task["state"] is not TaskState.QUEUED:
            task["not_before_ms"] = 0
    return sha256(json.dumps(state, sort_keys=True, default=_plain).encode()).hexdigest()


def _without_name(value: Any, stream_id: str) -> Any:
    own = f"{stream_id}."
    if isinstance(value, str):
        return value.removeprefix(own) if value.startswith(own) else _renamed_cause(value, stream_id, "")
    if isinstance(value, dict):
        named = [(str(name), each) for name, each in value.items()]  # the items of a step have numbers
        ids = [name for name, each in named if _is_id(name) and each == stream_id]
        plain = {name.removeprefix(own): _without_name(each, stream_id) for name, each in named}
        source = value.get("source")
        if isinstance(source, str):
            plain["source"] = renamed_source(source, stream_id, "")
        return plain | dict.fromkeys(ids, "")
    if isinstance(value, list | tuple | set | frozenset):
        listed = [_without_name(each, stream_id) for each in value]
        return sorted(listed) if isinstance(value, set | frozenset) else listed
    return value


def _is_id(name: str) -> bool:
    """Returns whether a field has an id, such as that of a stream."""
    return name.endswith("_id") or name == "stream"


def renamed_source(source: str, old: str, new: str) -> str:
    """Returns the source of an artifact, `STREAM/TASK/NAME@VERSION`, under the stream's new name."""
    stream, slash, rest = source.partition("/")
    if stream != old or not slash:
        return source
    return f"{new}/{new}{rest[len(old) :]}" if rest.startswith(f"{old}.") else f"{new}/{rest}"


def _renamed_cause(cause: str, old: str, new: str) -> str:
    """Returns an event, `STREAM@OFFSET`, under the stream's new name; any other text as it is."""
    return f"{new}{cause[len(old) :]}" if parse_cause(cause) and cause.startswith(f"{old}@") else cause


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} in the state of a stream")


def trailer_of(stream: Stream, records: int) -> ExportTrailer:
    """Returns the trailer of a stream whose records were folded."""
    return ExportTrailer(records, fold_name(), state_digest(stream))


@dataclass(slots=True)
class StreamRenaming:
    """Renames a stream, its tasks and children, in headers and bodies; tasks of other streams keep theirs."""

    old: str
    new: str
    _tasks: set[str] = field(default_factory=set)

    def line(self, line: ExportedRecord) -> ExportedRecord:
        """Returns a record under the new name; unchanged, byte for byte, if it is the old one."""
        if self.old == self.new:
            return line
        headers = [(name, self._header(name, data)) for name, data in line.headers]
        return ExportedRecord(line.offset, line.time_ms, self.new.encode(), headers, self._value(line.value))

    def _header(self, name: str, data: bytes | None) -> bytes | None:
        if data is None:
            return None
        if name.lower() == "ce_causationid":
            stream, at, offset = data.rpartition(b"@")
            return self.new.encode() + at + offset if stream == self.old.encode() else data
        if name.lower() not in ("ce_partitionkey", "ce_correlationid", "ce_subject"):
            return data
        return self._named(data.decode("utf-8", "replace")).encode()

    def _value(self, value: bytes) -> bytes:
        body = json.loads(value)
        task_id = body.get("task_id")
        if isinstance(task_id, str):
            self._tasks.add(task_id)
            body["task_id"] = self._named(task_id)
        child_id = body.get("child_id")
        if isinstance(child_id, str):
            self._tasks.add(child_id)
            body["child_id"] = self._named(child_id)
        for name in (*_WITH_VALUES, *(("body",) if child_id is not None else ())):
            if isinstance(body.get(name), dict | list):
                body[name] = self._in_values(body[name])
        for name in ("by", "within"):
            if body.get(name) in self._tasks:
                body[name] = self._named(body[name])
        inputs = body.get("inputs")
        for reference in [body.get("checkpoint"), *(inputs.values() if isinstance(inputs, dict) else ())]:
            if isinstance(reference, dict) and isinstance(reference.get("source"), str):
                reference["source"] = renamed_source(reference["source"], self.old, self.new)
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()

    def _in_values(self, value: Any) -> Any:
        """Returns values that a run has passed on: ids, artifacts and events of the stream are renamed."""
        if isinstance(value, dict):
            found = {name: self._in_values(each) for name, each in value.items()}
            if isinstance(found.get("source"), str):
                found["source"] = renamed_source(found["source"], self.old, self.new)
            return found
        if isinstance(value, list):
            return [self._in_values(each) for each in value]
        if not isinstance(value, str):
            return value
        return self._named(value) if value in self._tasks else _renamed_cause(value, self.old, self.new)

    def _named(self, text: str) -> str:
        if text == self.old:
            return self.new
        return f"{self.new}{text[len(self.old) :]}" if text.startswith(f"{self.old}.") else text


def without_headers(headers: RecordHeaders, names: Sequence[str]) -> RecordHeaders:
    """Returns headers without those of some names."""
    return [(name, data) for name, data in headers if name not in names]
