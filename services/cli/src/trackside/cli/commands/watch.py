"""Commands that read the log: `watch`, `events`; and the published documents: `schemas`."""

from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from trackside.cli.render import follow as following
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Failure
from trackside.cli.runtime.options import AsJson
from trackside.cli.runtime.run import run
from trackside.contracts import documents
from trackside.contracts.message import Record
from trackside.sdk.client import Client

SHOWN_FIELDS = 6


def watch(
    stream_id: Annotated[str, typer.Argument(metavar="ID", help="The search or batch to watch.")],
    as_json: AsJson = False,
) -> None:
    """Watch a search or a batch until it is over: how far it is, its best value or its groups, its devices.

    Exit 0 when it is done or stopped, 1 when it or one of its tasks failed, or there is no such thing.

    \b
    Examples:
      trackside watch digits-1
      trackside watch digits-1 --json      (only its end, as one line)
    """
    run(_watch(stream_id, as_json))


def events(
    stream_id: Annotated[str, typer.Argument(metavar="ID", help="The stream, such as a search.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with those to come.")] = False,
    from_offset: Annotated[int, typer.Option("--from", min=0, metavar="OFFSET", help="Begin there.")] = 0,
    as_json: AsJson = False,
) -> None:
    """List the events of a stream in the order of the log; with --json one a line.

    \b
    Examples:
      trackside events digits-1
      trackside events digits-1 --from 120 --json | jq .type
      trackside events digits-1 --follow
    """
    run(_events(stream_id, follow, from_offset, as_json))


def schemas(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made if it isn't there.")],
) -> None:
    """Write the JSON Schema of every message and the AsyncAPI document.

    \b
    Examples:
      trackside schemas docs/schemas
    """
    files = documents.files()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{folder}: cannot be written: {error.strerror or error}") from error
    screen.say(f"{len(files)} documents in {folder}")


def as_object(record: Record) -> dict[str, Any]:
    """Gives a record as JSON: its place, its envelope, its data."""
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
        "data": record.message.model_dump(mode="json"),
    }


def brief(record: Record) -> str:
    """Says what is in an event in one short line: its plain fields, without ids that its line has already."""
    passed_over = {"task_id", "incarnation", "command_id", "digest", "rules", "publisher", "placement"}
    parts = [
        f"{name}={screen.cell(value)}"
        for name, value in record.message.model_dump(mode="json").items()
        if name not in passed_over and value not in (None, "", -1) and not isinstance(value, dict | list)
    ]
    return " ".join(parts[:SHOWN_FIELDS])


def line(record: Record) -> str:
    """Writes an event for a person: offset, time, type, subject, fields."""
    time = datetime.fromtimestamp(record.append_time_ms / 1000, UTC).astimezone()
    subject = record.envelope.text("ce_subject").removeprefix(record.envelope.stream)
    head = f"{record.offset:>7} {time:%H:%M:%S.%f}"[:20]
    return f"{head} {type(record.message).__name__:<20} {subject[:14]:<14} {brief(record)}"


async def _watch(stream_id: str, as_json: bool) -> None:
    addresses = Addresses()
    async with Client(addresses.bootstrap, addresses.prefix, name="cli") as client:
        stream = await client.state(stream_id)
        if stream is None:
            raise Failure(f"there is no {stream_id} in the log; `trackside ls` lists what runs")
        if stream.search is None and stream.batch is None and not stream.unanswered:
            raise Failure(f"{stream_id} was never begun; `trackside events {stream_id}` says why")
        ended, _ = await following.until_end(client, stream_id, as_json)
        following.judge(ended, as_json, following.STOPPED_TOO)


async def _events(stream_id: str, follow: bool, from_offset: int, as_json: bool) -> None:
    addresses, output, found = Addresses(), screen.console(), 0
    async with (
        Client(addresses.bootstrap, addresses.prefix, name="cli") as client,
        aclosing(client.events(stream_id, follow, from_offset)) as records,
    ):
        async for record in records:
            found += 1
            if as_json:
                screen.emit_line(as_object(record))
            else:
                output.print(Text(line(record)), no_wrap=True, overflow="ellipsis")
    if not found and not from_offset:
        raise Failure(f"there is no {stream_id} in the log; `trackside ls` lists what runs")
