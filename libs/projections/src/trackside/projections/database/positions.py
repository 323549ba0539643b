"""Positions of the log that the rows are at: moved by compare-and-set in the transaction of the rows."""

from collections.abc import Iterable, Mapping

from trackside.eventlog.log import TopicPartition
from trackside.projections.database.postgres import Connection, sql


class RewoundError(Exception):
    """The read models are older than the folded state: fold again from their positions."""


class OvertakenError(Exception):
    """Another writer has advanced the position: nothing was written. `position` is the new one."""

    def __init__(self, position: int) -> None:
        super().__init__(f"the position is {position} already")
        self.position = position


async def ensure_positions(connection: Connection, owner: str, partitions: Iterable[TopicPartition]) -> None:
    """Creates the missing positions, at 0."""
    rows = [(owner, topic, partition) for topic, partition in partitions]
    await connection.executemany(sql("queries", "ensure_position"), rows)


async def read_positions(connection: Connection, owner: str) -> dict[TopicPartition, int]:
    """Returns, per partition of an owner, the next offset to write."""
    found = await connection.fetch(sql("queries", "positions"), owner)
    return {(row["topic"], row["partition"]): row["position"] for row in found}


async def lock_positions(
    connection: Connection, owner: str, topics: Iterable[str]
) -> dict[TopicPartition, int]:
    """Locks an owner's positions in topics until the transaction ends, always in one order; returns them."""
    found = await connection.fetch(sql("queries", "lock_positions"), owner, list(topics))
    return {(row["topic"], row["partition"]): row["position"] for row in found}


async def move_positions(connection: Connection, owner: str, ends: Mapping[TopicPartition, int]) -> None:
    """Sets positions that `lock_positions` has locked."""
    rows = [(owner, topic, partition, end) for (topic, partition), end in ends.items()]
    await connection.executemany(sql("queries", "move_position"), rows)


async def put_positions(connection: Connection, owner: str, positions: Mapping[TopicPartition, int]) -> None:
    """Writes the positions of an owner into a schema that has none."""
    await ensure_positions(connection, owner, positions)
    await move_positions(connection, owner, positions)


async def move_position(
    connection: Connection, owner: str, topic_partition: TopicPartition, base: int, end: int
) -> None:
    """Moves one position from `base` to `end`: the fence for the only writer of a partition.

    Raises OvertakenError if it is beyond `base`, RewoundError if it is before `base` or missing.
    """
    found = await connection.fetchval(sql("queries", "lock_position"), owner, *topic_partition)
    if found is None or found < base:
        raise RewoundError(
            f"{topic_partition[0]}-{topic_partition[1]} of {owner}: expected {base}, found {found}"
        )
    if found > base:
        raise OvertakenError(found)
    await move_positions(connection, owner, {topic_partition: end})
