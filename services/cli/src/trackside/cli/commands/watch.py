"""Commands that read the log: `watch`, `events`; and the published documents: `schemas`."""

from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from trackside.aggregates import documents
from trackside.cli.render import follow, screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.standing import Standing
from trackside.contracts.streams.watches import TasksWatched
from trackside.domain.outcome import no_effect
from trackside.sdk.client import Client

SHOWN_FIELDS = 6


def watch(stream_id: str, as_json: bool) -> None:
    """Shows a stream until it ends; raises CommandFailed if it, or one of its tasks, failed."""
    run(_watch(stream_id, as_json))


def events(stream_id: str, from_offset: int, *, follow: bool, as_json: bool) -> None:
    """Prints the events of a stream from an offset on, and with `follow` those to come."""
    run(_events(stream_id, follow, from_offset, as_json))


def schemas(folder: Path) -> None:
    """Writes the JSON Schema of every message and the AsyncAPI document into a folder."""
    files = documents.files()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{folder}: cannot be written: {error.strerror or error}") from error
    screen.say(f"{len(files)} documents in {folder}")


def as_object(record: Record) -> dict[str, Any]:
    """Returns a record as JSON: its offset, its envelope, its data."""
    envelope = record.envelope
    return {
        "partition": record.partition,
        "offset": record.offset,
        "append_time_ms": record.append_time_ms,
        "type": envelope.type,
        "id": envelope.id,
        "source": envelope.source,
        "subject": envelope.text("ce_subject"),
        "time": envelope.time,
        "stream": envelope.stream,
        "causation_id": envelope.causation_id,
        "decision_id": envelope.decision_id.decode() or None,
        "traceparent": envelope.traceparent or None,
        "outcome": None if record.standing is None else record.standing.value,
        "distrust": record.distrust or None,
        "data": record.message.model_dump(mode="json"),
    }


def brief(record: Record) -> str:
    """Returns the scalar fields of an event as a short text, without the ids that its line has already."""
    passed_over = {"task_id", "incarnation", "command_id", "digest", "rules", "publisher", "placement"}
    parts = [
        f"{name}={screen.cell(value)}"
        for name, value in map(_counted_part, _fields(record.message).items())
        if name not in passed_over and value not in (None, "", -1) and not isinstance(value, dict | list)
    ]
    return " ".join(parts[:SHOWN_FIELDS])


def _fields(message: Message) -> dict[str, Any]:
    found = message.model_dump(mode="json")
    return found["watch"] if isinstance(message, TasksWatched) else found


def _counted_part(field: tuple[str, Any]) -> tuple[str, Any]:
    """Returns a field as it is shown: a task's part as `trial=3`."""
    name, value = field
    return (value["kind"], value["number"]) if name == "part" and value is not None else field


def line(record: Record) -> str:
    """Returns an event as a line: offset, time, type, subject, why it had no effect, fields."""
    time = datetime.fromtimestamp(record.append_time_ms / 1000, UTC).astimezone()
    subject = record.envelope.text("ce_subject").removeprefix(record.envelope.stream)
    head = f"{record.offset:>7} {time:%H:%M:%S.%f}"[:20]
    why = no_effect(record.standing, record.distrust)
    mark = f"[{why}: no effect] " if why else ""
    return f"{head} {type(record.message).__name__:<20} {subject[:14]:<14} {mark}{brief(record)}"


async def _watch(stream_id: str, as_json: bool) -> None:
    addresses = Addresses()
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        stream = await client.state(stream_id)
        if stream is None:
            raise CommandFailed(f"there is no {stream_id} in the log; `trackside ls` lists what runs")
        if stream.root is None and not stream.unanswered:
            raise CommandFailed(f"{stream_id} was never started; `trackside events {stream_id}` shows why")
        ended, _ = await follow.until_end(client, stream_id, as_json)
        follow.print_end(ended, as_json, follow.FINISHED_OR_CANCELLED)


async def _events(stream_id: str, follow: bool, from_offset: int, as_json: bool) -> None:
    addresses, output, found = Addresses(), screen.console(), 0
    async with (
        Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client,
        aclosing(client.events(stream_id, follow, from_offset)) as records,
    ):
        async for record in records:
            found += 1
            if as_json:
                screen.emit_line(as_object(record))
            else:
                style = "" if record.standing is Standing.APPLIED else "dim"
                output.print(Text(line(record), style), no_wrap=True, overflow="ellipsis")
    if not found and not from_offset:
        raise CommandFailed(f"there is no {stream_id} in the log; `trackside ls` lists what runs")
