"""Commands that were read and not kept, as their publisher had enough waiting: they are read again later."""

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter

from trackside.dispatcher.intake.fair_queue import CommandPosition


@dataclass(slots=True)
class PassedOver:
    """Offsets of the topic of commands as ranges, by partition, and how many each publisher has among them.

    Once one of its commands was passed over, those that a publisher has published after it in the same
    partition are passed over, too: they keep their order.
    """

    _ranges: dict[int, list[list[int]]] = field(default_factory=dict)
    _counts: dict[tuple[str, int], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __contains__(self, position: CommandPosition) -> bool:
        return self._find(position) is not None

    def __len__(self) -> int:
        """How many commands there are."""
        return sum(self._counts.values())

    @property
    def pairs(self) -> int:
        """How many pairs of a publisher and a partition have some."""
        return len(self._counts)

    @property
    def ranges(self) -> int:
        """How many ranges are kept."""
        return sum(map(len, self._ranges.values()))

    @property
    def starts(self) -> dict[int, int]:
        """The first offset of each partition that has some."""
        return {partition: ranges[0][0] for partition, ranges in self._ranges.items()}

    @property
    def ends(self) -> dict[int, int]:
        """The offset after the last one of each partition that has some."""
        return {partition: ranges[-1][1] + 1 for partition, ranges in self._ranges.items()}

    def is_behind(self, publisher: str, partition: int) -> bool:
        """Returns whether commands of a publisher in a partition were passed over."""
        return (publisher, partition) in self._counts

    def add(self, publisher: str, position: CommandPosition) -> None:
        """Adds the command at a position, which is after all others of its partition."""
        partition, offset = position
        ranges = self._ranges.setdefault(partition, [])
        if ranges and ranges[-1][1] + 1 == offset:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
        self._counts[publisher, partition] = self._counts.get((publisher, partition), 0) + 1

    def remove(self, publisher: str, position: CommandPosition) -> None:
        """Removes the command at a position, which must be there."""
        found = self._find(position)
        assert found is not None
        partition, offset = position
        ranges = self._ranges[partition]
        first, last = ranges[found]
        ranges[found : found + 1] = [
            [begin, end] for begin, end in ((first, offset - 1), (offset + 1, last)) if begin <= end
        ]
        if not ranges:
            del self._ranges[partition]
        left = self._counts[publisher, partition] = self._counts[publisher, partition] - 1
        if not left:
            del self._counts[publisher, partition]

    def _find(self, position: CommandPosition) -> int | None:
        partition, offset = position
        ranges = self._ranges.get(partition, [])
        at = bisect_right(ranges, offset, key=itemgetter(0)) - 1
        return at if at >= 0 and offset <= ranges[at][1] else None
