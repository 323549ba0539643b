"""The order in which waiting tasks are served, kept as it changes instead of sorted each time. Pure.

Tasks that ask for the same stand in one line. In a line, those of one stream and one priority are a group,
served in order of submission; groups are served by level (priority, and one more for each while of
waiting), then fewest running tasks of the stream in this queue, then longest in the queue.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from trackside.domain.task import Task
from trackside.scheduler.asks import Asks, asks_of, level_of, waiting_since_ms
from trackside.scheduler.estimates import Want

Queued = tuple[int, int, int]
Key = tuple[int, int, Queued]
Turn = tuple[int, Queued]
KEPT_LINES = 256


def turn_of(key: Key) -> Turn:
    """Gives whose turn it is but for the shares of streams, which change all the time."""
    return (key[0], key[2])


@dataclass(slots=True, eq=False)
class Group:
    """Tasks of one stream and one priority that ask for the same; `key` is the order among groups."""

    line: "Line"
    stream: str
    priority: int
    entries: list[tuple[Queued, int, str]] = field(default_factory=list)
    members: dict[str, Queued] = field(default_factory=dict)
    key: Key | None = None

    def head(self) -> tuple[Queued, int, str] | None:
        """Gives who is next: when queued, waiting since when (ms), id."""
        entries = self.entries
        while entries and self.members.get(entries[0][2]) != entries[0][0]:
            heapq.heappop(entries)
        return entries[0] if entries else None


@dataclass(slots=True, eq=False)
class Line:
    """All tasks that ask for the same. `fresh`: every host must be looked at, else only those in `pending`.

    `moved` are groups whose place in the order may be another one: it is found when the order is asked for.
    `never` says why no worker could ever run them; `overtaken_ms` since when others have gone before its
    first, `held` which worker's devices are kept for it.
    """

    asks: Asks
    groups: dict[tuple[str, int], Group] = field(default_factory=dict)
    moved: dict[int, Group] = field(default_factory=dict)
    heap: list[tuple[Key, int, Group]] = field(default_factory=list)
    size: int = 0
    fresh: bool = True
    pending: dict[str, None] = field(default_factory=dict)
    want: Want | None = None
    judged: bool = False
    never: str = ""
    unsaid: bool = True
    overtaken_ms: int = 0
    held: str = ""

    @property
    def is_open(self) -> bool:
        """Says whether one of its tasks may find a place now."""
        return self.size > 0 and not self.never and bool(self.fresh or self.pending or self.held)

    def tasks(self) -> Iterator[tuple[str, str]]:
        """Gives all its tasks as (stream, id), in no order."""
        for (stream, _), group in self.groups.items():
            for task_id in group.members:
                yield stream, task_id


class Lines:
    """All lines, and how many tasks of each stream run for each queue."""

    def __init__(self, ageing_ms: int) -> None:
        self.by_asks: dict[Asks, Line] = {}
        self._where: dict[str, Group] = {}
        self._by_share: dict[tuple[str, str], dict[int, Group]] = {}
        self._ageing_ms = ageing_ms
        self._sequence = 0
        self.share: Callable[[str, str], int] = lambda queue, stream: 0
        self.now_ms = 0

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._where

    def __len__(self) -> int:
        return len(self._where)

    def add(self, task: Task, stream: str) -> None:
        """Puts a task where it belongs; one that stands there already stays."""
        asks = asks_of(task)
        known = self._where.get(task.task_id)
        if known is not None:
            same = known.line.asks == asks and known.members[task.task_id] == task.queued_at
            if same and known.stream == stream and known.priority == task.needs.priority:
                return
            self.remove(task.task_id)
        line = self.by_asks.get(asks)
        if line is None:
            line = self.by_asks[asks] = Line(asks)
        group = line.groups.get((stream, task.needs.priority))
        if group is None:
            group = line.groups[stream, task.needs.priority] = Group(line, stream, task.needs.priority)
            self._by_share.setdefault((asks.queue, stream), {})[id(group)] = group
        entry = (task.queued_at, waiting_since_ms(task), task.task_id)
        group.members[task.task_id] = task.queued_at
        heapq.heappush(group.entries, entry)
        self._where[task.task_id] = group
        line.size += 1
        line.unsaid = True
        if group.entries[0] is entry or group.key is None:
            _moved(group)

    def remove(self, task_id: str) -> None:
        """Takes a task out, if it is there."""
        group = self._where.pop(task_id, None)
        if group is None:
            return
        line = group.line
        was_head = bool(group.entries) and group.entries[0][2] == task_id
        del group.members[task_id]
        line.size -= 1
        if group.members:
            if was_head:
                _moved(group)
            return
        group.key = None
        del line.groups[group.stream, group.priority]
        sharing = self._by_share[line.asks.queue, group.stream]
        del sharing[id(group)]
        if not sharing:
            del self._by_share[line.asks.queue, group.stream]
        if line.size == 0:
            line.overtaken_ms, line.held = 0, ""
            self._forget_empty()

    def _forget_empty(self) -> None:
        """Forgets lines with nobody in them once they are many; until then they know where nothing fits."""
        if len(self.by_asks) > KEPT_LINES + 2 * len(self._where):
            self.by_asks = {asks: line for asks, line in self.by_asks.items() if line.size}

    def shared(self, queue: str, stream: str) -> None:
        """Orders anew after another number of a stream's tasks run."""
        for group in self._by_share.get((queue, stream), {}).values():
            _moved(group)

    def review(self, now_ms: int) -> None:
        """Orders all groups anew: levels rise with time."""
        self.now_ms = now_ms
        for line in self.by_asks.values():
            for group in line.groups.values():
                _moved(group)

    def best(self, line: Line, aside: list[Group], busy: Callable[[str], bool]) -> Group | None:
        """Gives the group of a line that is served next; those that are busy are put aside."""
        for moved in line.moved.values():
            self._rekey(moved)
        line.moved.clear()
        heap = line.heap
        while heap:
            key, _, group = heap[0]
            if group.key is not key:
                heapq.heappop(heap)
            elif busy(group.stream):
                heapq.heappop(heap)
                group.key = None
                aside.append(group)
            else:
                return group
        return None

    def back(self, aside: Iterable[Group]) -> None:
        """Puts groups back that were put aside."""
        for group in aside:
            _moved(group)

    def _rekey(self, group: Group) -> None:
        head = group.head()
        if head is None:
            group.key = None
            return
        level = level_of(group.priority, self.now_ms - head[1], self._ageing_ms)
        line = group.line
        key = (-level, self.share(line.asks.queue, group.stream), head[0])
        if key == group.key:
            return
        group.key = key
        self._sequence += 1
        heapq.heappush(line.heap, (key, self._sequence, group))
        if len(line.heap) > 4 * len(line.groups) + 64:
            line.heap = [entry for entry in line.heap if entry[2].key is entry[0]]
            heapq.heapify(line.heap)


def _moved(group: Group) -> None:
    group.line.moved[id(group)] = group
