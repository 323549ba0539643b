"""Output for people and programs: tables that fit 100 columns, JSON, progress of slow steps."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trackside.domain.display.text import Column, TextTable, as_text, duration
from trackside.domain.display.times import Time
from trackside.eventlog.clock import monotonic_s

WIDTH = 100
GAP = 2
WORD = 32
"""The longest word that a column makes room for at the cost of others."""
STEP_STATES = frozenset({"starting", "ready", "ended"})
STEP_NAMES = {"setup-0": "topics and tables"}

STYLES = {
    "RUNNING": "cyan",
    "TRAINING": "cyan",
    "LOADING": "cyan",
    "NO_MORE_TRIAL": "cyan",
    "TUNER_NO_MORE_TRIAL": "cyan",
    "SUCCEEDED": "green",
    "DONE": "green",
    "ready": "green",
    "here": "green",
    "finished": "green",
    "succeeded": "green",
    "cached": "green",
    "approved": "green",
    "running": "cyan",
    "open": "yellow",
    "aborted": "yellow",
    "skipped": "dim",
    "omitted": "dim",
    "pending": "dim",
    "rejected": "red",
    "expired": "red",
    "timed_out": "red",
    "ABORTED": "yellow",
    "ABORTING": "yellow",
    "TIMED_OUT": "red",
    "EARLY_STOPPED": "yellow",
    "USER_CANCELED": "yellow",
    "SYS_CANCELED": "yellow",
    "STOPPED": "yellow",
    "STOPPING": "yellow",
    "PAUSED": "yellow",
    "starting": "yellow",
    "late": "yellow",
    "waiting": "yellow",
    "restarting": "yellow",
    "cancelled": "yellow",
    "preempted": "yellow",
    "returned": "yellow",
    "INTERRUPT": "yellow",
    "SKIPPED": "dim",
    "busy": "cyan",
    "active": "cyan",
    "FAILED": "red",
    "ERROR": "red",
    "failed": "red",
    "lost": "red",
    "oom_host": "red",
    "oom_device": "red",
    "timed_out_queue": "red",
    "timed_out_run": "red",
    "refused": "red",
}


class _Output(Console):
    """A console whose reader may close the pipe before the end, as `head` does, without a failure."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(error: bool = False) -> Console:
    """Returns the console of an output; without a terminal it has no colour and the full width."""
    made = _Output(stderr=error, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        return _Output(stderr=error, highlight=False, width=WIDTH, no_color=True)
    if made.width > WIDTH:
        return _Output(stderr=error, highlight=False, width=WIDTH)
    return made


def say(text: str) -> None:
    """Prints a line as it is."""
    console().print(text, markup=False, soft_wrap=True)


def complain(text: str) -> None:
    """Prints an error as it is."""
    console(error=True).print(text, markup=False, soft_wrap=True)


def emit(value: Any) -> None:
    """Prints a value as JSON for programs: one line for each item of a stream, else the whole, indented."""
    sys.stdout.write(json.dumps(value, indent=2, default=_jsonable) + "\n")


def emit_line(value: Any) -> None:
    """Prints a value as one line of JSON, at once."""
    sys.stdout.write(json.dumps(value, default=_jsonable, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def show_table(columns: Sequence[Column], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Prints a table within the width of the output."""
    output = console()
    output.print(table(columns, rows, title, output.width))


def show_text_table(table: TextTable, title: str = "") -> None:
    """Prints a table that a view made."""
    show_table(table.columns, table.rows, title)


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], title: str = "", width: int = WIDTH
) -> Table:
    """Makes a table without lines: what a cell has no value for is a dash."""
    made = Table(
        box=None,
        pad_edge=False,
        title=title or None,
        title_justify="left",
        header_style="bold",
        show_header=any(column.heading for column in columns),
    )
    texts = [[cell(value) for value in row] for row in rows]
    shown = _fitting(columns, texts, width)
    columns, texts = [columns[at] for at in shown], [[row[at] for at in shown] for row in texts]
    widths = _cut(columns, texts, width)
    for at, column in enumerate(columns):
        made.add_column(
            column.heading,
            justify="right" if column.right else "left",
            no_wrap=not column.keep,
            overflow="fold" if column.keep else "ellipsis",
            min_width=_least_width(column, [row[at] for row in texts]) if column.keep else None,
            max_width=widths.get(at),
        )
    for row in texts:
        made.add_row(*(styled(text) for text in row))
    return made


def _fitting(columns: Sequence[Column], texts: Sequence[Sequence[str]], width: int) -> list[int]:
    """Returns the indices of the columns that fit a width."""
    needed = {at: _least_width(column, [row[at] for row in texts]) + GAP for at, column in enumerate(columns)}
    for at in sorted(needed, reverse=True):
        if sum(needed.values()) > width + GAP and columns[at].optional:
            del needed[at]
    return list(needed)


def _cut(columns: Sequence[Column], texts: Sequence[Sequence[str]], width: int) -> dict[int, int]:
    """Returns the widths of columns that are cut short so that all fit: the widest first, none of `keep`."""
    needed = [_least_width(column, [row[at] for row in texts]) for at, column in enumerate(columns)]
    excess = sum(needed) + GAP * (len(needed) - 1) - width
    widths: dict[int, int] = {}
    for at in sorted(range(len(columns)), key=lambda at: -needed[at]):
        if excess > 0 and not columns[at].keep:
            widths[at] = max(len(columns[at].heading), needed[at] - excess)
            excess -= needed[at] - widths[at]
    return widths


def _least_width(column: Column, cells: Sequence[str]) -> int:
    """Returns the width below which a column would break its heading, a word, or a number and its unit."""
    is_text = column.keep and not column.right
    longest = _longest_word(cells) if is_text else max(map(len, cells), default=0)
    return max(len(column.heading), longest)


def _longest_word(texts: Iterable[str]) -> int:
    """Returns the width below which a column would break its words: an id is one word."""
    return min(WORD, max((len(word) for text in texts for word in text.split(" ")), default=1))


def styled(text: str) -> Text:
    """Colours a status."""
    return Text(text, STYLES.get(text, ""))


def cell(value: object) -> str:
    """Returns a value as text for a table, a time in the time zone of this machine."""
    return value.astimezone().strftime("%m-%d %H:%M:%S") if isinstance(value, datetime) else as_text(value)


class StepReporter:
    """Reports the progress of slow steps: a line for each that is done, a spinner for those that are not."""

    def __init__(self) -> None:
        self._console = console(error=True)
        self._status = self._console.status("") if self._console.is_terminal else None
        self._began: dict[str, float] = {}

    def __call__(self, text: str) -> None:
        """Reports a line: `kafka: starting` begins a step, `kafka: ready` ends it, any other is printed."""
        name, _, state = text.rpartition(": ")
        name = STEP_NAMES.get(name, name)
        if state == "starting":
            self._began[name] = monotonic_s()
        elif state in ("ready", "ended"):
            now_s = monotonic_s()
            took = duration(now_s - self._began.pop(name, now_s))
            self._console.print(f"  {name} ({took})", markup=False, soft_wrap=True)
        elif self._status is None:
            self._console.print(f"  {text}", markup=False, soft_wrap=True)
        if self._status is not None:
            waiting = f"waiting for {', '.join(self._began)}" if self._began else ""
            self._status.update(text if state not in STEP_STATES else waiting)

    @contextmanager
    def shown(self) -> Iterator["StepReporter"]:
        """Shows the spinner while the block runs."""
        if self._status is None:
            yield self
            return
        with self._status:
            yield self


def _jsonable(value: object) -> object:
    if isinstance(value, Time):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
