"""Tables and values as text: numbers with few digits, durations, a dash for what is missing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(10), *range(11, 32), *range(127, 160))} | {9: "\\t"}
_LONGEST_S = 1e12
"""A longer duration, or one that is no number, is shown as its seconds."""
MAX_INNER_TEXT = 60
"""How many characters of a list or an object within another value are shown."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and how its cells are aligned.

    `keep` is never cut short; `optional` is left out where the output is too narrow for all, the last first.
    """

    heading: str
    right: bool = False
    keep: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table: its columns, and rows with a value for each."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]


def as_text(value: object) -> str:
    """Returns a value as text for a table: a dash for none, few digits for numbers, seconds for times."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(_inner_text, value)) or "-"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_inner_text(item)}" for name, item in sorted(value.items())) or "-"
    return printable(str(value))


def printable(text: str) -> str:
    """Returns a text with its control characters escaped, which could change a terminal; lines stay lines."""
    return text if text.isprintable() else text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """Returns a text as one line, with its control characters escaped."""
    return printable(text).replace("\n", "\\n")


def _inner_text(value: object) -> str:
    """Returns a value within another one: a list or an object as JSON, cut short if it is long."""
    if not isinstance(value, list | Mapping):
        return one_line(as_text(value))
    text = json.dumps(value, ensure_ascii=False, default=str)
    return printable(text if len(text) <= MAX_INNER_TEXT else f"{text[:MAX_INNER_TEXT]}...")


def number(value: float | None) -> str:
    """Returns a number with at most 5 significant digits, a dash for none."""
    return "-" if value is None else f"{value:.5g}"


def counted(count: int, what: str) -> str:
    """Returns a number of things: `1 group`, `3,000 groups`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """Returns a duration as text: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 05 min`, `inf s`."""
    if seconds is None:
        return "-"
    if not abs(seconds) < _LONGEST_S:
        return f"{number(seconds)} s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60:02d} min"


def fields_line(fields: Mapping[str, object], names: Sequence[str]) -> str:
    """Returns the fields of these names that have a value as a line: `tuner=tpe  max_trials=20`."""
    return "  ".join(f"{name}={as_text(fields[name])}" for name in names if fields[name] is not None)
