"""P8, P9: a rebuild of all read models; the reference consumes, decodes and copies the same events."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition

from bench import synthetic_log
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count
from bench.new_database import create_database
from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.kafka.kafka_security import client_options
from trackside.eventlog.log import Log
from trackside.eventlog.settings.kafka_settings import KafkaSettings, kafka_settings
from trackside.projections.database.positions import put_positions
from trackside.projections.database.postgres import Connection, database
from trackside.projections.tables.owners import OWNERS, Owner
from trackside.projections.writing.migrate import migrate
from trackside.replay.rebuild.parallel_fold import ProcessPool
from trackside.replay.rebuild.rebuild import RebuildProgress, RebuildReport, rebuild

TOPICS = Topics("bench-rebuild.")
COPY_ROWS = 20_000
EARLY = 0.2
TABLE = """CREATE TABLE raw_events (partition integer NOT NULL, log_offset bigint NOT NULL,
    append_ms bigint NOT NULL, stream_id text NOT NULL, type text NOT NULL,
    PRIMARY KEY (partition, log_offset))"""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of the log and the read models, and the topics that they are rebuilt from."""

    log: Log
    bootstrap: KafkaSettings | str
    dsn: str
    topics: Topics = TOPICS


async def measure(place: Endpoints, events: int) -> Measurements:
    """Writes a log of at least `events` events, then reads it raw, then rebuilds from it."""
    searches = -(-events // synthetic_log.events_of(1))
    total = await synthetic_log.write_searches(place.log, TOPICS, searches)
    rebuild_endpoints = await prepare_database(place)
    raw_s = await read_raw(rebuild_endpoints, synthetic_log.events_of(searches))
    memory = MemoryUse()
    one = await rebuild_once(rebuild_endpoints, total, memory=memory, swap=True)
    two = await rebuild_once(
        rebuild_endpoints, total, ProcessPool(2, partial(KafkaLog, place.bootstrap, "bench"))
    )
    rows, trials = two.rows, searches * synthetic_log.TRIALS
    counted = [
        check_count("searches", rows["searches"], searches),
        *(check_count(f"rows of {table}", rows[table], trials) for table in ("trials", "tasks", "attempts")),
        str(two),
    ]
    rate, reference = total / one.fold_s, synthetic_log.events_of(searches) / raw_s
    figures = [
        Figure(
            "P8", "rebuild of all read models", rate, "/s", reference, "consume, decode, COPY",
            Goal(0.35, 0.7, ratio=True),
        ),
        Figure(
            "P9", "the same in two processes", total / two.fold_s, "/s", rate, "one process",
            Goal(1.5, 1.9, ratio=True),
        ),
        Figure(
            "-", "memory of the rebuild, at its end", memory.latest_mb, "MB", memory.early_mb,
            f"after {EARLY:.0%}",
        ),
    ]  # fmt: skip
    details = {"raw_s": raw_s, "rebuild_s": [one.fold_s, two.fold_s], "memory_mb": memory.latest_mb}
    return Measurements(figures, counted, details)


@dataclass(slots=True)
class MemoryUse:
    """The memory of this process, in MB, after a fifth of the records, and at the end."""

    early_mb: float = 0.0
    latest_mb: float = 0.0

    def sample(self, progress: RebuildProgress) -> None:
        """Samples the resident memory."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.latest_mb = pages * 4096 / 1e6
        if progress.read >= EARLY * progress.total and not self.early_mb:
            self.early_mb = self.latest_mb


async def rebuild_once(
    rebuild_endpoints: Endpoints,
    total: int,
    processes: ProcessPool | None = None,
    memory: MemoryUse | None = None,
    swap: bool = False,
) -> RebuildReport:
    """Rebuilds; a rebuild after a swap must equal the swapped schema."""
    sample = memory.sample if memory is not None else lambda progress: None
    report = await rebuild(
        rebuild_endpoints.log,
        rebuild_endpoints.topics,
        rebuild_endpoints.dsn,
        sample,
        swap=swap,
        processes=processes,
    )
    check_count("events rebuilt", report.events, total)
    if not swap and not report.equal:
        raise MissingError(f"the second rebuild differs from the first: {report}")
    return report


async def prepare_database(place: Endpoints) -> Endpoints:
    """Creates a database with empty read models whose positions are at the end of the log."""
    dsn = await create_database(place.dsn, f"bench_{new_id()}")
    ends = {
        (topic.name, partition): end
        for topic in place.topics.shared
        for partition, end in (await place.log.ends(topic.name)).items()
    }

    async def prepared(connection: Connection) -> None:
        await migrate(connection)
        for owner in OWNERS.values():
            await put_positions(connection, owner.name, _offsets_of(owner, place.topics, ends))

    async with database(dsn) as opened:
        await opened.transaction(prepared)
    return replace(place, dsn=dsn)


def _offsets_of(owner: Owner, topics: Topics, ends: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    names = {topic.name for topic in owner.topics(topics)}
    return {where: end for where, end in ends.items() if where[0] in names}


async def read_raw(place: Endpoints, expected: int) -> float:
    """Returns the seconds to consume, decode and copy all events to a table with a key."""
    connection = await asyncpg.connect(place.dsn)
    consumer = AIOKafkaConsumer(
        **client_options(kafka_settings(place.bootstrap)),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=4_194_304,
    )
    await consumer.start()
    try:
        await connection.execute(TABLE)
        began = monotonic_s()
        topic = place.topics.events
        consumer.assign([TopicPartition(topic.name, number) for number in range(topic.partitions)])
        rows: list[tuple[int, int, int, str, str]] = []
        read = 0
        while read < expected:
            found = await consumer.getmany(timeout_ms=1_000, max_records=COPY_ROWS)
            for messages in found.values():
                for message in messages:
                    envelope = CODEC.envelope(message.headers)
                    CODEC.decode(envelope, message.value)
                    place_ = (message.partition, message.offset, message.timestamp)
                    rows.append((*place_, envelope.stream, envelope.type))
            if len(rows) >= COPY_ROWS or (rows and read + len(rows) >= expected):
                async with connection.transaction():
                    await connection.copy_records_to_table("raw_events", records=rows)
                read += len(rows)
                rows = []
        seconds = monotonic_s() - began
        check_count("events read raw", await connection.fetchval("SELECT count(*) FROM raw_events"), expected)
        await connection.execute("DROP TABLE raw_events")
        return seconds
    finally:
        await consumer.stop()
        await connection.close()
