"""The output of a task: the page, the lines that it loads and follows, and the whole output as a file."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from trackside.console.web.page import PageNotFound, PageRequest, Shown
from trackside.contracts.envelope.topics import Topic
from trackside.domain.rows.table import ViewRow
from trackside.eventlog.clock import now_ms
from trackside.eventlog.log import Log
from trackside.eventlog.output.output_tail import (
    OutputItem,
    OutputQuery,
    OutputTail,
    read_following,
    read_tail,
    stream_output,
)
from trackside.eventlog.output.task_output import LINGER_S, OutputGap, gap_text, printable

LINES = (200, 500, 2_000, 5_000)
"""How many lines may be asked for; the first is what a page has unless another number is."""
SOURCES = ("stdout", "stderr")
MAX_CHARACTERS = 2_000
"""How many characters of a line are shown; the file has all."""
MAX_FOLLOWED = 20_000
"""How many lines a page adds while it follows; then it has to be loaded again."""
FOLLOW_WAIT_S = 10.0
"""How long a request waits for new lines."""
MAX_FILE_LINES = 1_000_000


@dataclass(frozen=True, slots=True)
class OutputRequest:
    """What was asked for, and what is known of the task: the rows, read before the log is."""

    log: Log
    topic: Topic
    stream_id: str
    query: OutputQuery
    lines: int
    is_following: bool
    is_over: bool
    after: int | None
    shown: int
    attempts: int


async def output(request: PageRequest) -> Shown:
    """Shows the output of a task; its lines are loaded next, since reading them may take seconds."""
    row, attempts = await _rows(request)
    asked = _asked(request, row, attempts)
    values = {
        "task": row,
        "attempts": [each["attempt"] for each in attempts],
        "asked": asked,
        "all_lines": LINES,
        "sources": SOURCES,
        "lines_address": _address(asked, "output/lines"),
        "file_address": _address(asked, "output.txt"),
    }
    title = f"Output of {row['task_id']}"
    streams = frozenset((asked.stream_id,))
    return Shown("output.html", title, values, streams, section="experiments")


async def find_output(request: PageRequest) -> OutputRequest:
    """Returns what lines of a task are asked for; raises PageNotFound if there is no such task."""
    return _asked(request, *await _rows(request))


async def read_lines(asked: OutputRequest) -> dict[str, Any]:
    """Reads the lines of a request, and returns the values of their template; raises TransientError."""
    log, topic = asked.log, asked.topic.name
    if asked.after is None:
        tail = await read_tail(log, topic, asked.query, asked.lines)
    else:
        wait_s = LINGER_S if asked.is_over else FOLLOW_WAIT_S
        tail = await read_following(log, topic, asked.query, asked.after, wait_s)
    shown = asked.shown + len(tail.items)
    # Of a task that is over, the last lines may arrive a little later than its end.
    follows = asked.is_following and (not asked.is_over or (asked.after is not None and bool(tail.items)))
    return {
        "asked": asked,
        "tail": tail,
        "items": [_item(each) for each in tail.items],
        "shown": shown,
        "follows": follows and shown < MAX_FOLLOWED,
        "is_full": follows and shown >= MAX_FOLLOWED,
        "next_address": _address(asked, "output/lines", after=tail.next_offset, shown=shown),
        "expired": _expired(asked, tail),
    }


async def file_lines(asked: OutputRequest) -> AsyncIterator[str]:
    """Yields the lines of the file, each with its attempt where several are asked for."""
    last, number = 0, 0
    async with aclosing(stream_output(asked.log, asked.topic.name, asked.query)) as items:
        async for each in items:
            if each.attempt != last and asked.query.attempt == 0:
                last = each.attempt
                yield f"-- attempt {last} --\n"
            yield (gap_text(each) if isinstance(each, OutputGap) else printable(each.text)) + "\n"
            number += 1
            if number == MAX_FILE_LINES:
                yield f"-- only the first {MAX_FILE_LINES:,} lines; choose an attempt or a text --\n"
                return


async def _rows(request: PageRequest) -> tuple[ViewRow, list[ViewRow]]:
    stream_id, task_id = request.parts["stream_id"], request.parts["task_id"]
    row = await request.models.row("task_of_stream", stream_id, task_id)
    if row is None:
        raise PageNotFound(f"{stream_id[:200]} has no task {task_id[:200]}")
    return row, await request.models.rows("attempts_of_task", stream_id, task_id)


def _asked(request: PageRequest, row: ViewRow, attempts: list[ViewRow]) -> OutputRequest:
    query: QueryParams = request.query
    number = request.number("attempt", 0, highest=len(attempts))
    chosen = [each for each in attempts if number in (0, each["attempt"])]
    ends = [each["ended_at"] for each in chosen]
    is_over = row["ended_at"] is not None or (number > 0 and None not in ends)
    begins = [each["assigned_at"] for each in chosen if each["assigned_at"] is not None]
    # All lines of an attempt are between its assignment and its end, by the clock of the log.
    end = None if not is_over or None in ends or not ends else max(ends)
    lines = request.number("lines", LINES[0], 1, LINES[-1])
    found = OutputQuery(
        row["task_id"],
        number,
        request.one_of("source", SOURCES, ""),
        query.get("text", "")[:200],
        _ms(min(begins, default=row["queued_at"])) or 0,
        _ms(end),
    )
    after = request.number("after", -1, highest=2**53)
    return OutputRequest(
        request.log,
        request.topics.logs,
        request.parts["stream_id"],
        found,
        lines,
        is_following=query.get("follow", "on") != "off",
        is_over=is_over,
        after=None if after < 0 else after,
        shown=request.number("shown", 0, highest=MAX_FOLLOWED),
        attempts=len(attempts),
    )


def _ms(value: datetime | None) -> int | None:
    return None if value is None else round(value.timestamp() * 1_000)


def _address(asked: OutputRequest, end: str, **more: int) -> str:
    """Returns an address next to the page, which is `.../TASK/output`, with what was asked for."""
    query = asked.query
    values = {
        "attempt": query.attempt or None,
        "source": query.source or None,
        "text": query.text or None,
        "lines": asked.lines,
        "follow": None if asked.is_following else "off",
        **more,
    }
    return f"{end}?{urlencode({name: value for name, value in values.items() if value is not None})}"


def _item(item: OutputItem) -> dict[str, Any]:
    is_gap = isinstance(item, OutputGap)
    text = gap_text(item) if isinstance(item, OutputGap) else printable(item.text)
    return {
        "attempt": item.attempt,
        "kind": "gap" if is_gap else item.source,
        "number": item.number,
        "text": text[:MAX_CHARACTERS],
        "left": max(0, len(text) - MAX_CHARACTERS),
        "time": datetime.fromtimestamp(item.time_ms / 1_000, UTC),
    }


def _expired(asked: OutputRequest, tail: OutputTail) -> bool:
    """Returns whether there are no lines since they were deleted after the retention of the topic."""
    end_ms, kept_ms = asked.query.end_ms, asked.topic.retention_ms
    return not tail.items and end_ms is not None and 0 < kept_ms < now_ms() - end_ms
