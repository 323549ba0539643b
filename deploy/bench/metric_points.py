"""P11: metric points from Kafka to rows by the summary-indexer; the reference is COPY of the same rows."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import asyncpg

from bench.fresh_stack import TOPICS
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES, partition_of
from trackside.contracts.tasks.summaries import MetricPointsReported, Series
from trackside.domain.rows.table import RowValues
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log, Outgoing
from trackside.projections.tables.metrics import rows_of

BATCH_POINTS = 200
TAGS = ("objective", "loss", "lr", "grad_norm")
BATCHES_PER_TASK = 25
COPY_ROWS = 20_000
LIMIT_S = 300.0
POLL_S = 0.02
POSITIONS = "SELECT coalesce(sum(position), 0) FROM trackside.positions WHERE topic = $1"
COUNT = "SELECT count(*) FROM trackside.metric_points"
TABLE = """CREATE TABLE bench_points (series bigint NOT NULL, step bigint NOT NULL,
    wall_time_ms bigint NOT NULL, value double precision, non_finite smallint,
    PRIMARY KEY (series, step))"""


def batches(
    count: int, first: int = 0, name: str = "points", per_task: int = BATCHES_PER_TASK
) -> list[MetricPointsReported]:
    """Returns batches of 200 points as workers send them: four tags, a task for every 25 batches."""
    per_tag, time_ms = BATCH_POINTS // len(TAGS), now_ms()
    made = []
    for number in range(first, first + count):
        task, part = divmod(number, per_task)
        steps = list(range(part * per_tag, (part + 1) * per_tag))
        series = [
            Series(
                tag=tag,
                steps=steps,
                times_ms=[time_ms + 37 * step for step in steps],
                values=[1.0 / (1 + step) + 0.001 * number for step in steps],
            )
            for tag in TAGS
        ]
        made.append(
            MetricPointsReported(
                stream=f"{name}-{task}", task_id=f"{name}-{task}.0", attempt=1, series=series
            )
        )
    return made


def _requests(messages: Sequence[MetricPointsReported]) -> list[tuple[int, list[Outgoing]]]:
    """Encodes batches, and groups them into requests by partition."""
    writer, topic = RecordWriter("worker", "bench"), TOPICS.metrics
    open_: dict[int, tuple[int, list[Outgoing]]] = {}
    full: list[tuple[int, list[Outgoing]]] = []
    for message in messages:
        record = replace(writer.single(message.stream, message), key=message.task_id.encode())
        partition = partition_of(message.task_id, topic.partitions)
        batch_bytes, records = open_.get(partition, (0, []))
        record_bytes = len(record.value or b"") + 600
        if records and batch_bytes + record_bytes > MAX_BATCH_BYTES:
            full.append((partition, records))
            batch_bytes, records = 0, []
        open_[partition] = (
            batch_bytes + record_bytes,
            [*records, record] if not records else _append(records, record),
        )
    return [*full, *((partition, records) for partition, (_, records) in open_.items())]


def _append(records: list[Outgoing], record: Outgoing) -> list[Outgoing]:
    records.append(record)
    return records


async def measure(log: Log, dsn: str, points: int, name: str = "points") -> Measurements:
    """Publishes all points, of tasks with that name, and waits until their rows are written."""
    messages = batches(points // BATCH_POINTS, name=name)
    connection = await asyncpg.connect(dsn)
    try:
        before = await connection.fetchval(COUNT)
        seconds = await index(log, connection, messages)
        rows = await connection.fetchval(COUNT) - before
        counted = [check_count("metric points", rows, len(messages) * BATCH_POINTS)]
        copied_s = await _copy(connection, rows_of(messages).points)
    finally:
        await connection.close()
    figure = Figure(
        "P11", "metric points, Kafka to rows", rows / seconds, "/s", rows / copied_s, "COPY alone",
        Goal(0.25, 0.6, ratio=True),
    )  # fmt: skip
    return Measurements([figure], counted)


async def index(
    log: Log, connection: "asyncpg.Connection[asyncpg.Record]", messages: Sequence[MetricPointsReported]
) -> float:
    """Returns the seconds from the first append to the last row."""
    topic, requests = TOPICS.metrics.name, _requests(messages)
    start = await connection.fetchval(POSITIONS, topic)
    began = monotonic_s()
    for partition, records in requests:
        await log.append(topic, partition, records)
    reached = 0
    while reached < len(messages):
        if monotonic_s() - began > LIMIT_S:
            raise MissingError(f"{reached} of {len(messages)} batches were indexed within {LIMIT_S:g} s")
        await asyncio.sleep(POLL_S)
        reached = await connection.fetchval(POSITIONS, topic) - start
    return monotonic_s() - began


async def _copy(connection: "asyncpg.Connection[asyncpg.Record]", rows: Sequence[RowValues]) -> float:
    """Returns the seconds that COPY takes for the same rows, in batches as large as the indexer's."""
    await connection.execute(TABLE)
    began = monotonic_s()
    for first in range(0, len(rows), COPY_ROWS):
        async with connection.transaction():
            await connection.copy_records_to_table("bench_points", records=rows[first : first + COPY_ROWS])
    seconds = monotonic_s() - began
    check_count("rows copied", await connection.fetchval("SELECT count(*) FROM bench_points"), len(rows))
    await connection.execute("DROP TABLE bench_points")
    return seconds
