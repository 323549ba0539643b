"""Artifacts of imported streams: they are in no read model, so they are read from the log."""

from contextlib import aclosing
from datetime import UTC, datetime

from trackside.aggregates.registry import AGGREGATES
from trackside.cli.runtime.addresses import Addresses
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.artifacts import ArtifactSaved, ArtifactsForgotten, artifact_source
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.folding.fold import fold
from trackside.domain.outcome import Outcome
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.transfer.imported_streams import find_imported


async def imported_rows(stream_id: str) -> list[ViewRow]:
    """Returns what an imported stream has saved, as the view has it of live ones, newest first."""
    addresses, rows = Addresses(), list[ViewRow]()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys) as log:
        recorded = await find_imported(log, Topics(prefix=addresses.prefix), stream_id)
        if recorded is None:
            return []
        stream = Stream(stream_id, recorded.partition)
        async with aclosing(recorded.records()) as records:
            async for record, entry in records:
                if fold(stream, record, AGGREGATES) is Outcome.APPLIED:
                    _take(rows, stream, record)
                async for again, outcome, _ in recorded.read_again(stream, entry.offset + 1):
                    if outcome is Outcome.APPLIED:
                        _take(rows, stream, again)
    return rows[::-1]


def _take(rows: list[ViewRow], stream: Stream, record: Record) -> None:
    event, at = record.message, datetime.fromtimestamp(record.append_time_ms / 1_000, UTC)
    if isinstance(event, ArtifactSaved):
        row: ViewRow = event.model_dump(exclude={"incarnation", "requests"})
        row |= {"stream_id": stream.stream_id, "trial": number_of(stream.tasks[event.task_id].part, "trial")}
        row["source"] = artifact_source(stream.stream_id, event.task_id, event.name, event.version)
        rows.append(row | {"saved_at": at, "forgotten_at": None})
    elif isinstance(event, ArtifactsForgotten):
        for row in rows:
            if row["sha256"] in event.artifacts and row["forgotten_at"] is None:
                row["forgotten_at"] = at
