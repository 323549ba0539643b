"""The command `repair`: what parks streams, and the command that has such a record skipped."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import send
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.parking import SkipRecord, UnknownRecord
from trackside.domain.display.text import Column
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.parking import place_of
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry
from trackside.projections.reading.reads import json_row, open_read_models
from trackside.replay.history.recorded_stream import read_entries

SHOWN_BYTES = 500
"""How many bytes of a record are printed."""


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A place in the topic of events."""

    partition: int
    offset: int


def place(text: str) -> RecordPlace:
    """Reads `PARTITION/OFFSET`; raises BadUsage."""
    partition, slash, offset = text.partition("/")
    if not (slash and partition.isdecimal() and offset.isdecimal()):
        raise BadUsage(f"{text!r} is not a place in the log: expected PARTITION/OFFSET, such as 3/17")
    return RecordPlace(int(partition), int(offset))


def list_parked(*, as_json: bool) -> None:
    """Prints the streams that are parked, and the records that were skipped."""
    run(_list(as_json))


def show(at: RecordPlace, *, as_json: bool) -> None:
    """Prints what is known of a record of the events; raises BadUsage if there is none."""
    entry = run(_read(at))
    record = decode(entry, lambda _entry, _error: None)
    fields: list[tuple[str, Any]] = [
        ("place", place_of(at.partition, at.offset)),
        ("type", "" if record is None else record.envelope.type),
        ("stream", "" if record is None else record.envelope.stream),
        ("written by", "" if record is None else record.envelope.source),
        ("appended", datetime.fromtimestamp(entry.append_time_ms / 1000, UTC)),
        ("readable", _readable(record is not None, record is not None and type(record.message))),
        ("bytes", len(entry.value or b"")),
        ("value", repr((entry.value or b"")[:SHOWN_BYTES])[2:-1]),
    ]
    if as_json:
        screen.emit({name: str(value) if isinstance(value, datetime) else value for name, value in fields})
        return
    screen.show_table([Column(""), Column("", keep=True)], fields)


def skip(at: RecordPlace, reason: str, publishing: Publishing) -> None:
    """Gets a record skipped that has parked its stream; raises BadUsage if it can't be."""
    record = decode(run(_read(at)), lambda _entry, _error: None)
    where = place_of(at.partition, at.offset)
    if record is None:
        raise BadUsage(
            f"the record at {where} can't be read by any release, so it has no effect and parks no stream: "
            "there is nothing to repair"
        )
    body = {"partition": at.partition, "offset": at.offset, "reason": reason}
    send(record.envelope.stream, SkipRecord, body, publishing)


def _readable(is_ours: bool, kind: object) -> str:
    if not is_ours:
        return "no: it has no effect, for any reader"
    return "not by this release" if kind is UnknownRecord else "yes"


async def _read(at: RecordPlace) -> Entry:
    addresses = Addresses()
    name = Topics(prefix=addresses.prefix).events.name
    async with KafkaLog(addresses.kafka, "trackside-cli", keys=addresses.keys) as log:
        ends = await log.ends(name)
        end = ends.get(at.partition, 0)
        if at.offset >= end:
            where = f"it has {len(ends)} partitions" if at.partition not in ends else f"it ends at {end}"
            raise BadUsage(f"{name} has no record at {place_of(at.partition, at.offset)}: {where}")
        async for batch in read_entries(log, (name, at.partition), at.offset, at.offset + 1):
            for entry in batch:
                return entry
    raise CommandFailed(f"{name} gave no record at {place_of(at.partition, at.offset)}")


async def _list(as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        parked, skipped = await models.rows("parked_streams"), await models.rows("skipped_records")
    if as_json:
        found = {"parked": parked, "skipped": skipped}
        screen.emit({name: [json_row(row) for row in rows] for name, rows in found.items()})
        return
    if not parked:
        screen.say("no stream is parked")
    else:
        columns = [Column("parked stream", keep=True), Column("record", keep=True), Column("needs")]
        screen.show_table(columns, [(row["stream_id"], _place(row), row["needs"]) for row in parked])
    if skipped:
        screen.say("")
        columns = [
            Column("skipped record", keep=True),
            Column("stream", keep=True),
            Column("needed"),
            Column("reason"),
            Column("skipped", optional=True),
        ]
        screen.show_table(columns, [_skipped(row) for row in skipped])


def _skipped(row: ViewRow) -> list[object]:
    return [_place(row), row["stream_id"], row["needs"], row["reason"], row["skipped_at"]]


def _place(row: ViewRow) -> str:
    return place_of(row["partition"], row["parked_at"] if "parked_at" in row else row["log_offset"])
