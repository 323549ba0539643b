"""Positions up to which receipts were sent, in Postgres: a hint, as a receipt sent twice has the same id."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from trackside.eventlog.log import TopicPartition
from trackside.projections.database.positions import put_positions, read_positions
from trackside.projections.database.postgres import (
    LIVE_SCHEMA,
    Connection,
    PostgresGoneError,
    SchemaMissingError,
    database,
)

log = structlog.get_logger("trackside.dispatcher")

OWNER = "receipts"
PAUSE_S = 1.0


def earliest(
    partition: TopicPartition, start: int, first: int, known: Mapping[TopicPartition, int] | None
) -> int:
    """Returns where to read commands from: where streams lack one, or before that if receipts are lacking.

    `known` are the stored positions; None, if Postgres could not be read, means the first command of all.
    """
    if known is None:
        return first
    return max(first, min(start, known.get(partition, start)))


class ReceiptPositions:
    """The offsets of the commands topic before which no receipt is lacking."""

    def __init__(self, dsn: str, topic: str) -> None:
        self._dsn = dsn
        self._topic = topic

    async def load(self) -> dict[TopicPartition, int] | None:
        """Returns the positions that were stored last; None without Postgres."""

        async def work(connection: Connection) -> dict[TopicPartition, int]:
            return await read_positions(connection, OWNER)

        async with database(self._dsn, LIVE_SCHEMA) as opened:
            try:
                return await opened.transaction(work)
            except (PostgresGoneError, SchemaMissingError) as error:
                log.info("all receipts are sent again", reason=str(error))
                return None

    async def follow(self, positions: Callable[[], Mapping[int, int]]) -> None:
        """Stores positions once a second if they have changed, for as long as the service runs."""
        written: Mapping[int, int] = {}
        async with database(self._dsn, LIVE_SCHEMA) as opened:
            while True:
                await asyncio.sleep(PAUSE_S)
                found = dict(positions())
                if found == written:
                    continue
                new = {(self._topic, partition): offset for partition, offset in found.items()}

                async def work(connection: Connection, new: Mapping[TopicPartition, int] = new) -> None:
                    await put_positions(connection, OWNER, new)

                try:
                    await opened.transaction(work)
                except (PostgresGoneError, SchemaMissingError) as error:
                    log.debug("receipt positions not stored, Postgres is unreachable", reason=str(error))
                else:
                    written = found
