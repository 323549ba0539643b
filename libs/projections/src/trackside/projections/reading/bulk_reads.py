"""Reads many rows: by COPY in its text or binary format, or with a cursor."""

from collections.abc import AsyncIterator, Callable, Coroutine

from trackside.domain.rows.table import RowValues
from trackside.projections.database.postgres import Connection


async def copy_out(
    connection: Connection, query: str, take: Callable[[bytes], Coroutine[None, None, None]]
) -> None:
    """Passes the rows of a query to `take`, as the bytes of COPY in text format."""
    await connection.copy_from_query(query, output=take)


async def copy_binary(connection: Connection, query: str) -> bytes:
    """Returns the rows of a query as COPY writes them in its binary format, header and trailer included."""
    parts: list[bytes] = []

    async def take(part: bytes) -> None:
        parts.append(part)

    await connection.copy_from_query(query, output=take, format="binary")
    return b"".join(parts)


async def stream_rows(connection: Connection, query: str) -> AsyncIterator[RowValues]:
    """Yields the rows of a query; to be called in a transaction."""
    async for record in connection.cursor(query, prefetch=1_000):
        yield tuple(record)
