"""Times of rows as they are read: asyncpg fails with all rows of a query where one has no date of Python."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from trackside.domain.display.times import Time, time_of_us

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_EPOCH_US = int(_EPOCH.timestamp()) * 1_000_000


async def with_any_time(connection: Any, limit_s: float) -> Any:
    """Returns a connection that gives times as `times.Time`; terminates it if Postgres does not answer."""
    try:
        async with asyncio.timeout(limit_s):
            await connection.set_type_codec(
                "timestamptz", schema="pg_catalog", encoder=_encoded, decoder=_decoded, format="tuple"
            )
    except BaseException:
        connection.terminate()
        raise
    return connection


def _encoded(time: datetime) -> tuple[int]:
    return ((time - _EPOCH) // timedelta(microseconds=1),)


def _decoded(us: tuple[int]) -> Time:
    return time_of_us(us[0] + _EPOCH_US)
