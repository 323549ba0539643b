"""The newest heartbeat of each worker, read from the end of the topic."""

import asyncio
from collections.abc import Mapping

from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet.fleet import WorkerHeartbeat, WorkerHeartbeatDigest
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.fleet.heartbeats import WHOLE_EVERY, HeartbeatViews
from trackside.domain.rows.table import ViewRow
from trackside.eventlog.errors import OffsetGoneError, TransientError
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Log

LIMIT_S = 3.0
"""How long to wait for Kafka: without an answer devices are listed without their use."""
HEARTBEATS_EACH = 2 * WHOLE_EVERY
"""How many heartbeats of each worker are read: with fewer, none of them might be a whole one."""


async def newest_heartbeats(workers: int) -> dict[str, WorkerHeartbeat]:
    """Returns the newest heartbeat of each worker; none without an answer from Kafka."""
    addresses = Addresses()
    try:
        async with (
            asyncio.timeout(LIMIT_S),
            KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-cli", keys=addresses.keys) as log,
        ):
            return await read_heartbeats(log, Topics(prefix=addresses.prefix), workers)
    except (CommandFailed, TransientError, OffsetGoneError, TimeoutError):
        return {}


async def read_heartbeats(log: Log, topics: Topics, workers: int) -> dict[str, WorkerHeartbeat]:
    """Returns the newest heartbeat of each worker among the last ones of a log."""
    name = topics.heartbeats.name
    end, begin = (await log.ends(name))[0], (await log.beginnings(name))[0]
    start = max(begin, end - HEARTBEATS_EACH * (workers + 2))  # schedulers' are among them
    found: dict[str, WorkerHeartbeat] = {}
    views = HeartbeatViews()
    reader = log.reader({(name, 0): start})
    try:
        while start < end:
            for entry in await reader.read(1.0):
                start = entry.offset + 1
                record = decode(entry)
                message = None if record is None else record.message
                if not isinstance(message, WorkerHeartbeat | WorkerHeartbeatDigest):
                    continue
                if (heartbeat := views.read(message)) is not None:
                    found[heartbeat.worker_id] = heartbeat
    finally:
        await reader.close()
    return found


def with_use(row: ViewRow, heartbeats: Mapping[str, WorkerHeartbeat]) -> ViewRow:
    """Returns a device's row with its use from its worker's heartbeat; None where it is not known."""
    beat = heartbeats.get(row["worker_id"]) if row["state"] in ("busy", "free") else None
    readings = {reading.device_id: reading for reading in beat.devices} if beat is not None else {}
    reading = readings.get(row["device_id"])
    return row | {
        "used_bytes": None if reading is None else reading.used_bytes,
        "foreign_bytes": None if reading is None else reading.foreign_bytes,
        "utilisation_percent": None if reading is None else reading.utilisation,
        "host_available_bytes": None if beat is None else beat.available_bytes,
        "host_cpu_percent": None if beat is None else beat.cpu_percent,
    }
