"""The command `logs`: what a task has written, while it runs or afterwards."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from trackside.cli.render import screen
from trackside.cli.render.task_output import Gap, Line, Lines, Output
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Failure
from trackside.cli.runtime.options import AsJson
from trackside.cli.runtime.run import run
from trackside.contracts.topics import DAY_MS, Topics
from trackside.domain.stream import Stream
from trackside.domain.task import Attempt, Task, TaskState
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Log
from trackside.sdk.client import Client

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROLS = dict.fromkeys([*range(9), *range(10, 32), *range(127, 160)], "\N{REPLACEMENT CHARACTER}")


class Source(StrEnum):
    """Where a task writes to."""

    STDOUT = "stdout"
    STDERR = "stderr"


def logs(
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="The task, such as digits-1.7.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", min=1, help="Only this one; else all.")] = None,
    source: Annotated[Source | None, typer.Option("--source", help="Only this one; else both.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the lines that a task has written, all its attempts, in the order of the log; kept for 7 days.

    Lines that came too fast or were lost on the way are counted where they are missing. Exit 1 if there is
    no such task, or if its lines have expired.

    \b
    Examples:
      trackside logs digits-1.7
      trackside logs digits-1.7 --follow
      trackside logs digits-1.7 --attempt 2 --source stderr
      trackside logs digits-1.7 --json | jq -r .text
    """
    run(_logs(task_id, follow, Shown(task_id, attempt or 0, source, as_json)))


class Shown:
    """Prints the lines that were asked for, and knows which attempts had some."""

    def __init__(self, task_id: str, attempt: int, source: Source | None, as_json: bool) -> None:
        self.attempt = attempt
        self.attempts: set[int] = set()
        self._task_id = task_id
        self._source = source
        self._as_json = as_json
        self._last_attempt = attempt or 1
        self._console = screen.console()

    def show(self, item: Line | Gap) -> None:
        """Prints a line or a gap, behind a heading where another attempt begins."""
        if self.attempt not in (0, item.attempt) or self._source not in (None, item.source):
            return
        self.attempts.add(item.attempt)
        if self._as_json:
            screen.emit_line(as_object(self._task_id, item))
            return
        if item.attempt != self._last_attempt:
            self._last_attempt = item.attempt
            self._print(f"-- attempt {item.attempt} --", "dim")
        if isinstance(item, Gap):
            self._print(gap_text(item), "yellow")
        elif item.source == Source.STDERR:
            self._print(printable(item.text), "red")
        else:
            sys.stdout.write(printable(item.text) + "\n")

    def _print(self, text: str, style: str) -> None:
        self._console.print(Text(text, style), soft_wrap=True)


def as_object(task_id: str, item: Line | Gap) -> dict[str, Any]:
    """Gives a line, or a gap with `left_out` lines from `number` on, as JSON."""
    found = asdict(item)
    if isinstance(item, Gap):
        found["left_out"] = found.pop("count")
    return {"task_id": task_id, **found}


def gap_text(gap: Gap) -> str:
    """Says how many lines are missing, and which."""
    if gap.count == 1:
        return f"[1 line of {gap.source} was left out: {gap.number}]"
    last = gap.number + gap.count - 1
    return f"[{gap.count:,} lines of {gap.source} were left out: {gap.number} to {last}]"


def printable(text: str) -> str:
    """Gives a line without what would move a terminal's cursor, rename its window, or worse."""
    return _ESCAPES.sub("", text).translate(_CONTROLS)


async def _logs(task_id: str, follow: bool, shown: Shown) -> None:
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-cli") as log:
        client = Client(addresses.bootstrap, addresses.prefix, name="cli", log=log)
        await show_logs(log, client, Topics(prefix=addresses.prefix), task_id, follow, shown)


async def show_logs(
    log: Log, client: Client, topics: Topics, task_id: str, follow: bool, shown: Shown
) -> None:
    """Shows what a task has written; raises Failure if there is no such task, or its lines have expired."""
    stream_id, task = await _found(client, task_id)
    over = _is_over(task, shown.attempt)
    if shown.attempt > len(task.attempts) and (over or not follow):
        raise Failure(f"{task_id} has no attempt {shown.attempt}; it has {len(task.attempts)}")
    output, lines = Output(log, topics.logs.name, task_id), Lines()
    if not follow or over:
        await _show(output.records(), lines, shown)
    else:
        task = await _show_until_over(client, stream_id, task, output, lines, shown)
    _judge(task, topics.logs.retention_ms, output.oldest_ms, shown)


async def _show_until_over(
    client: Client, stream_id: str, task: Task, output: Output, lines: Lines, shown: Shown
) -> Task:
    """Shows lines until the log says that the task has ended, and gives the task as it is then."""
    ending = asyncio.create_task(_ended(client, stream_id, task.task_id, shown.attempt))
    try:
        await _show(output.records(ending.done), lines, shown)
        return await ending
    finally:
        ending.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([ending])


async def _show(records: AsyncGenerator[Any, None], lines: Lines, shown: Shown) -> None:
    async with aclosing(records):
        async for record in records:
            for item in lines.of(record):
                shown.show(item)
            sys.stdout.flush()


async def _ended(client: Client, stream_id: str, task_id: str, attempt: int) -> Task:
    async with aclosing(client.follow(stream_id)) as changes:
        async for _, stream in changes:
            task = stream.tasks.get(task_id)
            if task is not None and _is_over(task, attempt):
                return task
    raise Failure(f"{stream_id} is over, but {task_id} has no end; `trackside verify-log` says more")


def _is_over(task: Task, attempt: int) -> bool:
    """Says whether no more lines will come of a task, or of the one attempt that is asked for."""
    if attempt and attempt <= len(task.attempts) and task.attempts[attempt - 1].end is not None:
        return True
    return task.state is TaskState.ENDED


async def _found(client: Client, task_id: str) -> tuple[str, Task]:
    """Finds a task in the log: the id of its stream is what its own id begins with, up to some dot."""
    stream_id = task_id
    while stream_id:
        stream = await client.state(stream_id)
        if stream is not None and task_id in stream.tasks:
            return stream_id, stream.tasks[task_id]
        if stream is not None and stream_id == task_id:
            raise Failure(_not_a_task(stream))
        stream_id = stream_id.rpartition(".")[0]
    raise Failure(
        f"there is no task {task_id} in the log; the task of trial 7 of a search digits-1 is digits-1.7"
    )


def _not_a_task(stream: Stream) -> str:
    such = f", such as {next(iter(stream.tasks))}" if stream.tasks else "; it has none yet"
    return f"{stream.stream_id} is no task; give one of its tasks{such}"


def _judge(task: Task, retention_ms: int, oldest_ms: int, shown: Shown) -> None:
    """Says what became of lines that are not there; raises Failure if all of them have expired."""
    asked = [one for one in task.attempts if shown.attempt in (0, one.number)]
    gone = [one for one in asked if one.number not in shown.attempts and 0 < one.ended_ms < oldest_ms]
    for one in gone:
        text = _expired(task.task_id, one, retention_ms)
        if not shown.attempts and one is gone[-1]:
            raise Failure(text)
        screen.complain(text)
    if not shown.attempts:
        screen.complain(f"{task.task_id} has written nothing" + ("" if task.end else " yet"))


def _expired(task_id: str, attempt: Attempt, retention_ms: int) -> str:
    ended = datetime.fromtimestamp(attempt.ended_ms / 1000, UTC).astimezone()
    return (
        f"the lines of {task_id}, attempt {attempt.number}, have expired: it ended "
        f"{ended:%Y-%m-%d %H:%M:%S}, and output is kept for {retention_ms // DAY_MS} days"
    )
