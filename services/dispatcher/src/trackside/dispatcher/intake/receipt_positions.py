"""How far receipts were sent, in Postgres: a hint, since what is sent twice has the same id."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from trackside.eventlog.log import TopicPartition
from trackside.projections.positions import put_positions, read_positions
from trackside.projections.postgres import (
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
    place: TopicPartition, start: int, first: int, known: Mapping[TopicPartition, int] | None
) -> int:
    """Gives where to read commands from: where streams lack one, or before that if receipts are lacking.

    None known: nobody has said so far; without an answer of Postgres it is the first command that there is.
    """
    if known is None:
        return first
    return max(first, min(start, known.get(place, start)))


class ReceiptPositions:
    """The offsets of the commands topic before which no receipt is lacking."""

    def __init__(self, dsn: str, topic: str) -> None:
        self._dsn = dsn
        self._topic = topic

    async def load(self) -> dict[TopicPartition, int] | None:
        """Gives what was written last; None without Postgres."""

        async def work(connection: Connection) -> dict[TopicPartition, int]:
            return await read_positions(connection, OWNER)

        async with database(self._dsn, LIVE_SCHEMA) as opened:
            try:
                return await opened.transaction(work)
            except (PostgresGoneError, SchemaMissingError) as error:
                log.info("receipts of all commands are sent again", reason=str(error))
                return None

    async def follow(self, positions: Callable[[], Mapping[int, int]]) -> None:
        """Writes positions each second that they moved, for as long as the service runs."""
        written: Mapping[int, int] = {}
        async with database(self._dsn, LIVE_SCHEMA) as opened:
            while True:
                await asyncio.sleep(PAUSE_S)
                found = dict(positions())
                if found == written:
                    continue
                places = {(self._topic, partition): offset for partition, offset in found.items()}

                async def work(connection: Connection, places: Mapping[TopicPartition, int] = places) -> None:
                    await put_positions(connection, OWNER, places)

                try:
                    await opened.transaction(work)
                except (PostgresGoneError, SchemaMissingError) as error:
                    log.debug("positions of receipts wait for Postgres", reason=str(error))
                else:
                    written = found
