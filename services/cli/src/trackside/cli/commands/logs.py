"""The command `logs`: what a task has written, while it runs or afterwards."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import DAY_MS, Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Attempt, Task, TaskState
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Log
from trackside.eventlog.output.task_output import (
    OutputGap,
    OutputLine,
    OutputNumbering,
    OutputReader,
    gap_text,
    printable,
)
from trackside.sdk.client import Client


def logs(task_id: str, attempt: int, source: str | None, *, follow: bool, as_json: bool) -> None:
    """Prints the lines of a task; `attempt` 0 means all, `source` None both standard output and error."""
    run(_logs(task_id, follow, OutputPrinter(task_id, attempt, source, as_json)))


class OutputPrinter:
    """Prints the selected lines and remembers which attempts had any."""

    def __init__(self, task_id: str, attempt: int, source: str | None, as_json: bool) -> None:
        self.attempt = attempt
        self.attempts: set[int] = set()
        self._task_id = task_id
        self._source = source
        self._as_json = as_json
        self._last_attempt = attempt or 1
        self._console = screen.console()

    def show(self, item: OutputLine | OutputGap) -> None:
        """Prints a line or a gap, after a heading where another attempt begins."""
        if self.attempt not in (0, item.attempt) or self._source not in (None, item.source):
            return
        self.attempts.add(item.attempt)
        if self._as_json:
            screen.emit_line(as_object(self._task_id, item))
            return
        if item.attempt != self._last_attempt:
            self._last_attempt = item.attempt
            self._print(f"-- attempt {item.attempt} --", "dim")
        if isinstance(item, OutputGap):
            self._print(gap_text(item), "yellow")
        elif item.source == "stderr":
            self._print(printable(item.text), "red")
        else:
            sys.stdout.write(printable(item.text) + "\n")

    def _print(self, text: str, style: str) -> None:
        self._console.print(Text(text, style), soft_wrap=True)


def as_object(task_id: str, item: OutputLine | OutputGap) -> dict[str, Any]:
    """Returns a line, or a gap with `left_out` lines from `number` on, as JSON."""
    found = asdict(item)
    if isinstance(item, OutputGap):
        found["left_out"] = found.pop("count")
    return {"task_id": task_id, **found}


async def _logs(task_id: str, follow: bool, printer: OutputPrinter) -> None:
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-cli", keys=addresses.keys) as log:
        client = Client(addresses.kafka, addresses.prefix, name="cli", log=log)
        await show_logs(log, client, Topics(prefix=addresses.prefix), task_id, follow, printer)


async def show_logs(
    log: Log, client: Client, topics: Topics, task_id: str, follow: bool, printer: OutputPrinter
) -> None:
    """Prints the lines of a task; raises CommandFailed if there is no such task or all have expired."""
    stream_id, task = await _found(client, task_id)
    over = _is_over(task, printer.attempt)
    if printer.attempt > len(task.attempts) and (over or not follow):
        raise CommandFailed(f"{task_id} has no attempt {printer.attempt}; it has {len(task.attempts)}")
    output, lines = OutputReader(log, topics.logs.name, task_id), OutputNumbering()
    if not follow or over:
        await _show(output.records(), lines, printer)
    else:
        task = await _show_until_over(client, stream_id, task, output, lines, printer)
    _report_missing(task, topics.logs.retention_ms, output.oldest_ms, printer)


async def _show_until_over(
    client: Client,
    stream_id: str,
    task: Task,
    output: OutputReader,
    lines: OutputNumbering,
    printer: OutputPrinter,
) -> Task:
    """Shows lines until the task has ended, and returns the task."""
    ending = asyncio.create_task(_ended(client, stream_id, task.task_id, printer.attempt))
    try:
        await _show(output.records(ending.done), lines, printer)
        return await ending
    finally:
        ending.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([ending])


async def _show(records: AsyncGenerator[Any, None], lines: OutputNumbering, printer: OutputPrinter) -> None:
    async with aclosing(records):
        async for record in records:
            for item in lines.of(record):
                printer.show(item)
            sys.stdout.flush()


async def _ended(client: Client, stream_id: str, task_id: str, attempt: int) -> Task:
    async with aclosing(client.follow(stream_id)) as changes:
        async for _, stream in changes:
            task = stream.tasks.get(task_id)
            if task is not None and _is_over(task, attempt):
                return task
    raise CommandFailed(f"{stream_id} is over, but {task_id} has no end; run `trackside verify-log`")


def _is_over(task: Task, attempt: int) -> bool:
    """Returns whether a task, or the one selected attempt of it, writes no more lines."""
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
            raise CommandFailed(_not_a_task(stream))
        stream_id = stream_id.rpartition(".")[0]
    raise CommandFailed(
        f"there is no task {task_id} in the log; the task of trial 7 of a search digits-1 is digits-1.7"
    )


def _not_a_task(stream: Stream) -> str:
    such = f", such as {next(iter(stream.tasks))}" if stream.tasks else "; it has none yet"
    return f"{stream.stream_id} is no task; give one of its tasks{such}"


def _report_missing(task: Task, retention_ms: int, oldest_ms: int, printer: OutputPrinter) -> None:
    """Prints why lines are missing; raises CommandFailed if all have expired."""
    asked = [one for one in task.attempts if printer.attempt in (0, one.number)]
    gone = [one for one in asked if one.number not in printer.attempts and 0 < one.ended_ms < oldest_ms]
    for one in gone:
        text = _expired(task.task_id, one, retention_ms)
        if not printer.attempts and one is gone[-1]:
            raise CommandFailed(text)
        screen.complain(text)
    if not printer.attempts:
        screen.complain(f"{task.task_id} has written nothing" + ("" if task.end else " yet"))


def _expired(task_id: str, attempt: Attempt, retention_ms: int) -> str:
    ended = datetime.fromtimestamp(attempt.ended_ms / 1000, UTC).astimezone()
    return (
        f"the lines of {task_id}, attempt {attempt.number}, have expired: it ended "
        f"{ended:%Y-%m-%d %H:%M:%S}, and output is kept for {retention_ms // DAY_MS} days"
    )
