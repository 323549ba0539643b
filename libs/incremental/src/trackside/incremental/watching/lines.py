"""The samples of a dataset: which of its lines are some, and how far whole lines go. Pure.

A sample is a line that isn't blank; the first line of a csv that isn't blank is its header. `\\n` or `\\r\\n`
ends a line, and what comes after the last end is no line yet. A byte-order mark at the beginning of the file
is no part of its first line.
"""

import csv
import hashlib
import json
from codecs import BOM_UTF8
from collections.abc import Sequence

from trackside.aggregates.dataset.messages import MAX_LINE_BYTES, DatasetEnd, DatasetFormat
from trackside.sdk.in_task.channel import CodedError

TAIL_BYTES = 65_536
"""How much before its end is compared each time that a dataset has grown."""
csv.field_size_limit(MAX_LINE_BYTES + 1)


class DatasetError(CodedError):
    """A dataset can't be used as it is; `code` says why.

    `line` is the number of a sample from 0, `size` in bytes and `sha256` are those of what is there instead.
    """

    def __init__(
        self, code: str, message: str, line: int | None = None, size: int | None = None, sha256: str = ""
    ) -> None:
        super().__init__(code, message)
        self.line = line
        self.size = size
        self.sha256 = sha256


def sample_of(line: bytes, is_first: bool = False) -> bytes:
    """Returns the text of a line without its end, and without the byte-order mark of the first one."""
    text = line.removesuffix(b"\r")
    return text.removeprefix(BOM_UTF8) if is_first else text


class SampleSplitter:
    """Splits parts of a dataset that were checked before, from its beginning, into samples."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_first = True

    def push(self, part: bytes) -> list[bytes]:
        """Returns the samples that end in a part; the first one of a csv is its header.

        DatasetError if one is longer than any can be.
        """
        *lines, self._rest = (self._rest + part).split(b"\n")
        found = list[bytes]()
        for line in lines:
            sample, self._is_first = sample_of(line, self._is_first), False
            if sample.strip():
                found.append(sample)
        if len(self._rest) > MAX_LINE_BYTES:
            raise DatasetError("changed", f"a line of it now has more than {MAX_LINE_BYTES} bytes")
        return found


class LineScan:
    """Checks and counts the samples of a dataset, part by part.

    `lines` samples end at byte `size`, in the line `file_lines` of the file; blank lines and a header count
    there. Only whole lines count.
    """

    def __init__(self, format_: DatasetFormat) -> None:
        self.lines = self.size = self.file_lines = 0
        self.tail = b""
        """The last bytes before `size`."""
        self._format = format_
        self._digest = hashlib.sha256()
        self._columns: list[str] | None = None
        self._head = SampleSplitter()
        self._rest = b""

    @property
    def end(self) -> DatasetEnd:
        """How far it has come."""
        return DatasetEnd(lines=self.lines, size=self.size, sha256=self._digest.hexdigest())

    @property
    def columns(self) -> Sequence[str]:
        """The columns of a csv, once its header was read; none of others."""
        return self._columns or ()

    def pass_over(self, part: bytes) -> None:
        """Takes bytes whose samples were counted before; a part may end anywhere."""
        self._take(part, part.count(b"\n"))
        if self._format == "csv" and self._columns is None:
            header = next(iter(self._head.push(part)), None)
            self._columns = None if header is None else _fields(header.decode())

    def resume(self, lines: int) -> None:
        """Continues with the sample of a number, after the bytes that were passed over."""
        self.lines, self._rest = lines, b""

    def restart_line(self) -> None:
        """Forgets the beginning of a line whose end was not read: it is read again."""
        self._rest = b""

    def feed(self, part: bytes) -> list[bytes]:
        """Takes the next bytes; returns the samples that end in them.

        DatasetError, of `bad_line` or `line_too_long`, once that is known: those before it are counted.
        """
        *lines, rest = (self._rest + part).split(b"\n")
        self._rest = b""
        found = list[bytes]()
        done = 0
        for at, line in enumerate(lines):
            try:
                sample = self._sample(line, self.file_lines + at)
            except DatasetError as error:
                self._count(lines[:at], done, len(found))
                error.line = self.lines
                raise
            done += len(line) + 1
            if sample is not None:
                found.append(sample)
        self._count(lines, done, len(found))
        if len(rest) > MAX_LINE_BYTES:
            raise _too_long(self.file_lines, self.lines)
        self._rest = rest
        return found

    def _count(self, lines: list[bytes], size: int, samples: int) -> None:
        if lines:
            block = b"\n".join(lines) + b"\n"
            assert len(block) == size
            self._take(block, len(lines))
        self.lines += samples

    def _take(self, part: bytes, lines: int) -> None:
        self._digest.update(part)
        self.size += len(part)
        self.file_lines += lines
        self.tail = (self.tail + part[-TAIL_BYTES:])[-TAIL_BYTES:]

    def _sample(self, line: bytes, file_line: int) -> bytes | None:
        """Returns the sample of a line; None for a blank line and for the header."""
        if len(line) > MAX_LINE_BYTES:
            raise _too_long(file_line, self.lines)
        sample = sample_of(line, file_line == 0)
        if not sample.strip():
            return None
        try:
            text = _text(sample)
            if self._format == "csv":
                return self._record(sample, text)
            if self._format == "jsonl":
                _DECODER.decode(text)
        except (ValueError, RecursionError, csv.Error) as error:
            message = f"line {file_line + 1} of the file can't be a sample of {self._format}: {_why(error)}"
            raise DatasetError("bad_line", message, self.lines) from None
        return sample

    def _record(self, sample: bytes, text: str) -> bytes | None:
        fields = _fields(text)
        if self._columns is None:
            self._columns = fields
            return None
        if len(fields) != len(self._columns):
            raise ValueError(f"it has {len(fields)} fields, the header has {len(self._columns)}")
        return sample


def _text(sample: bytes) -> str:
    if b"\0" in sample:
        raise ValueError("it holds a NUL character")
    try:
        return sample.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"its byte {error.start + 1} isn't UTF-8") from None


def _fields(text: str) -> list[str]:
    """Returns the fields of a record of a csv; ValueError if it continues in the next line."""
    try:
        (fields,) = csv.reader([text], strict=True)
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise ValueError(
                "a quoted field continues in the next line; a sample is one line: write line breaks as \\n"
            ) from None
        raise
    return fields


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return str(error)[:200]


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _too_long(file_line: int, sample: int) -> DatasetError:
    return DatasetError(
        "line_too_long",
        f"line {file_line + 1} of the file has more than {MAX_LINE_BYTES} bytes, the limit of a sample",
        sample,
    )
