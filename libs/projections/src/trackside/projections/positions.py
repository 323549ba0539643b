"""How far the log is in the rows: read, and moved by compare-and-set within the transaction of the rows."""

from collections.abc import Iterable, Mapping

from trackside.eventlog.log import TopicPartition
from trackside.projections.postgres import Connection, sql


class RewoundError(Exception):
    """The read models are older than what was folded for them: fold again from where they are."""


class OvertakenError(Exception):
    """Another writer has moved the position on: nothing was written. `position` is where it is now."""

    def __init__(self, position: int) -> None:
        super().__init__(f"the position is {position} already")
        self.position = position


async def ensure_positions(connection: Connection, owner: str, places: Iterable[TopicPartition]) -> None:
    """Sets the positions that are missing to 0."""
    rows = [(owner, topic, partition) for topic, partition in places]
    await connection.executemany(sql("queries", "ensure_position"), rows)


async def read_positions(connection: Connection, owner: str) -> dict[TopicPartition, int]:
    """Gives the next offset to write of every partition of an owner."""
    found = await connection.fetch(sql("queries", "positions"), owner)
    return {(row["topic"], row["partition"]): row["position"] for row in found}


async def lock_positions(
    connection: Connection, owner: str, topics: Iterable[str]
) -> dict[TopicPartition, int]:
    """Gives an owner's positions in topics, held until the transaction ends; in one order for all."""
    found = await connection.fetch(sql("queries", "lock_positions"), owner, list(topics))
    return {(row["topic"], row["partition"]): row["position"] for row in found}


async def move_positions(connection: Connection, owner: str, ends: Mapping[TopicPartition, int]) -> None:
    """Sets positions that `lock_positions` holds."""
    rows = [(owner, topic, partition, end) for (topic, partition), end in ends.items()]
    await connection.executemany(sql("queries", "move_position"), rows)


async def put_positions(connection: Connection, owner: str, positions: Mapping[TopicPartition, int]) -> None:
    """Writes the positions of an owner into a schema that has none."""
    await ensure_positions(connection, owner, positions)
    await move_positions(connection, owner, positions)


async def move_position(
    connection: Connection, owner: str, place: TopicPartition, base: int, end: int
) -> None:
    """Moves one position from `base` to `end`: the fence of a writer that owns a single partition.

    Raises OvertakenError if it isn't at `base`, RewoundError if it is behind it or gone.
    """
    found = await connection.fetchval(sql("queries", "lock_position"), owner, *place)
    if found is None or found < base:
        raise RewoundError(f"{place[0]}-{place[1]} of {owner}: expected {base}, found {found}")
    if found > base:
        raise OvertakenError(found)
    await move_positions(connection, owner, {place: end})
