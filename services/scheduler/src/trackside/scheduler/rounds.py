"""One round of the scheduler: who gets which place now, who must make room, who is told that it can't run.

Waiting tasks are looked at in order. What fits is placed; what doesn't may push others aside, and what was
overtaken for too long has a place kept. Only then may tasks be placed behind running ones. Pure.
"""

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from trackside.domain.task import Task
from trackside.scheduler.asks import Asks
from trackside.scheduler.board import Board
from trackside.scheduler.holding import place_to_hold
from trackside.scheduler.lines import Group, Key, Line, Lines, Turn, turn_of
from trackside.scheduler.moves import Assign, Move, PushAside, Recall, SayNever
from trackside.scheduler.occupancy import Booking, Host, Slot
from trackside.scheduler.placement import FirstFit, Search, Spot, free_places, least_on_gpu, places_behind
from trackside.scheduler.preemption import push, without

MAX_MOVES = 500
"""The most that one round decides, so that a turn stays short; the next goes on."""
RECALL_MS = 2_000
"""How long a free place is kept for a task that was asked back for it."""


Busy = Callable[[str], bool]
Shadow = tuple[str, str, tuple[str, ...]]
Kept = dict[str, tuple[int, str, Booking]]
Crew = tuple[frozenset[str], frozenset[str]]


class Round:
    """One round: places that are kept are booked as shadows while it lasts."""

    def __init__(self, board: Board, kept: Kept, now_ms: int, busy: Busy) -> None:
        self._board = board
        self._kept = kept
        self._now_ms = now_ms
        self._busy = busy
        self._rules = board.policy.rules
        self._moves: list[Move] = []
        self._shadows: list[tuple[Host, Booking]] = []
        self._searches: dict[int, Search | FirstFit] = {}
        self._stuck: list[Line] = []
        self._unsettled: list[Line] = []
        self.shadows: set[Shadow] = set()
        self.latest: dict[Crew, Turn] = {}

    def run(self) -> list[Move]:
        """Gives the moves of this round."""
        self._say_never()
        try:
            self._keep_for_recalled()
            both = (self._board.waiting, self._board.behind)
            opened = [(lines, line) for lines in both for line in lines.by_asks.values() if line.is_open]
            self._serve(opened, self._place_or_make_room)
            stuck, self._stuck = self._stuck, []
            self._searches.clear()
            self._serve([(self._board.waiting, line) for line in stuck], self._place_behind)
        finally:
            for host, booking in self._shadows:
                host.unbook(booking.task_id)
                self.shadows.add((host.worker.worker_id, booking.task_id, booking.device_ids))
        return self._moves

    def _serve(
        self, entries: Iterable[tuple[Lines, Line]], serve: Callable[[Lines, Line, Group], bool]
    ) -> None:
        """Lets the open lines be served in order, each until it says that nothing more fits."""
        asides: list[tuple[Lines, list[Group]]] = []
        heads: list[tuple[Key, int, Lines, Line, list[Group]]] = []
        number = count()
        for lines, line in entries:
            aside: list[Group] = []
            asides.append((lines, aside))
            group = lines.best(line, aside, self._busy)
            if group is not None and group.key is not None:
                heapq.heappush(heads, (group.key, next(number), lines, line, aside))
        while heads and len(self._moves) < MAX_MOVES:
            key, _, lines, line, aside = heapq.heappop(heads)
            group = lines.best(line, aside, self._busy)
            if group is not None and group.key == key:
                if not serve(lines, line, group):
                    self._close(line, aside)
                    continue
                group = lines.best(line, aside, self._busy)
            if group is not None and group.key is not None:
                heapq.heappush(heads, (group.key, next(number), lines, line, aside))
        for lines, aside in asides:
            lines.back(aside)

    def _close(self, line: Line, aside: list[Group]) -> None:
        """Notes that nothing more of a line fits; if some of it can't be decided about, it stays open."""
        if not aside and line not in self._stuck and line not in self._unsettled:
            line.fresh = False
            line.pending.clear()

    def _place_or_make_room(self, lines: Lines, line: Line, group: Group) -> bool:
        head = group.head()
        assert head is not None
        task = self._board.tasks[head[2]]
        if lines is self._board.behind:
            return self._take_back(line, task)
        if self._board.is_limited(line.asks.queue):
            return False
        spot = self._search(line).best()
        if spot is not None:
            self._assign(line, group, task, spot)
            return True
        if not self._make_room(line, task) and line.asks.may_wait and self._board.policy.look_ahead:
            self._stuck.append(line)
        return False

    def _assign(self, line: Line, group: Group, task: Task, spot: Spot, behind: bool = False) -> None:
        worker = spot.host.worker
        assert group.key is not None
        crew = (worker.task_types, worker.queues)
        turn = turn_of(group.key)
        self.latest[crew] = max(self.latest.get(crew, turn), turn)
        line.overtaken_ms, line.held = 0, ""
        self._board.assign(task, spot, line.asks, behind)
        self._moves.append(Assign(task, spot, behind))

    def _hosts(self, line: Line) -> list[Host]:
        hosts = self._board.hosts
        if line.fresh:
            return hosts.open
        names = {**line.pending, line.held: None} if line.held else line.pending
        return [host for name in names if (host := hosts.by_id.get(name)) is not None and host.open]

    def _usable(self, asks: Asks) -> Callable[[Slot], bool]:
        def usable(slot: Slot) -> bool:
            if not slot.avoided:
                return True
            until_ms = max(slot.avoided.get(asks, 0), slot.avoided.get(None, 0))
            return until_ms <= self._now_ms

        return usable

    def _search(self, line: Line) -> Search | FirstFit:
        search = self._searches.get(id(line))
        if search is None:
            search = free_places(
                self._hosts(line), line.asks, self._board.want(line), self._rules, self._usable(line.asks)
            )
            self._searches[id(line)] = search
        return search

    def _make_room(self, line: Line, task: Task) -> bool:
        """Keeps or makes a place for a task that doesn't fit: says whether there is one."""
        if line.asks.preempts >= 0 and self._push_others(line, task):
            return True
        waited_ms = self._now_ms - line.overtaken_ms
        if not line.overtaken_ms or waited_ms < self._board.policy.hold_after_ms:
            line.held = ""
            return False
        hosts = [self._board.hosts.by_id[line.held]] if line.held else self._hosts(line)
        spot = place_to_hold(hosts, line.asks, self._board.want(line), self._usable(line.asks))
        if spot is None:
            line.held = ""
            return False
        line.held = spot.host.worker.worker_id
        self._shadow(line, task, spot)
        return True

    def _push_others(self, line: Line, task: Task) -> bool:
        board = self._board

        def may_go(booking: Booking) -> bool:
            busy = self._busy(board.stream_of[booking.task_id])
            if busy and line not in self._unsettled:
                self._unsettled.append(line)
            return not busy and booking.task_id in board.placed

        found = push(
            self._hosts(line), line.asks, board.want(line), self._rules, self._usable(line.asks), may_go
        )
        if found is None:
            return False
        for victim in found.victims:
            if self._recall(victim, f"task {task.task_id} needs the device"):
                continue
            board.push_aside(victim)
            self._moves.append(PushAside(board.tasks[victim.task_id], task.task_id))
        line.held = found.spot.host.worker.worker_id
        self._shadow(line, task, found.spot)
        return True

    def _shadow(self, line: Line, task: Task, spot: Spot) -> None:
        """Keeps a place for a task, and asks those back who wait behind the tasks that have it now."""
        for slot in spot.slots:
            waiting = slot.waiting
            if waiting is not None and waiting.priority <= task.needs.priority:
                self._recall(waiting, f"the place is kept for task {task.task_id}")
        booking = spot.booking(f"shadow {task.task_id}", line.asks, shadow=True)
        spot.host.book(booking)
        self._shadows.append((spot.host, booking))

    def _recall(self, booking: Booking, reason: str) -> bool:
        board = self._board
        task = board.tasks[booking.task_id]
        busy = self._busy(board.stream_of[task.task_id])
        known = task.task_id in board.placed and booking.behind
        if busy or not known or booking.recalled or booking.accepted or booking.stopping:
            return False
        board.recall(booking)
        self._moves.append(Recall(task, reason))
        return True

    def _take_back(self, line: Line, task: Task) -> bool:
        """Asks a task back that waits behind another one although it fits somewhere now."""
        board = self._board
        _, booking = board.bookings[task.task_id]
        host = board.hosts.by_id.get(board.bookings[task.task_id][0])
        if host is None or not host.is_waiting(booking):
            board.behind.remove(task.task_id)
            return True
        spot = self._elsewhere(line, host, booking)
        if spot is None:
            return False
        if not self._recall(booking, f"{', '.join(spot.device_ids)} of {spot.host.worker.worker_id} is free"):
            board.behind.remove(task.task_id)
            return True
        shadow = spot.booking(f"shadow {task.task_id}", line.asks, shadow=True)
        self._kept[task.task_id] = (self._now_ms + RECALL_MS, spot.host.worker.worker_id, shadow)
        spot.host.book(shadow)
        self._shadows.append((spot.host, shadow))
        return True

    def _elsewhere(self, line: Line, host: Host, booking: Booking) -> Spot | None:
        """Gives a free place for a task that waits behind another one; on its own host it counts once."""
        want, usable = self._board.want(line), self._usable(line.asks)

        def is_other(slot: Slot) -> bool:
            return slot.device.device_id not in booking.device_ids and usable(slot)

        near = None
        if any(is_other(slot) for slot in host.openings.free(line.asks, least_on_gpu(line.asks, want))):
            search = partial(free_places, [host], line.asks, want, self._rules, is_other)
            near = without(host, [booking], lambda: search().best())
        return near or self._search(line).best()

    def _keep_for_recalled(self) -> None:
        board = self._board
        for task_id, (_, worker_id, shadow) in list(self._kept.items()):
            host = board.hosts.by_id.get(worker_id)
            booking = board.bookings.get(task_id)
            if host is None or not host.open or booking is None or not booking[1].recalled:
                del self._kept[task_id]
                board.hosts.gained[worker_id] = None
                continue
            host.book(shadow)
            self._shadows.append((host, shadow))

    def _place_behind(self, lines: Lines, line: Line, group: Group) -> bool:
        head = group.head()
        assert head is not None
        task = self._board.tasks[head[2]]
        if self._board.is_limited(line.asks.queue):
            return False
        search = self._searches.get(id(line))
        if search is None:
            want, usable = self._board.want(line), self._usable(line.asks)
            search = places_behind(self._hosts(line), line.asks, want, self._rules.gates, usable)
            self._searches[id(line)] = search
        spot = search.best()
        if spot is not None:
            self._assign(line, group, task, spot, behind=True)
            return True
        self._take_place_behind(line, task)
        return False

    def _take_place_behind(self, line: Line, task: Task) -> None:
        """Asks back a task of lower priority whose place behind another one this task would have."""
        usable = self._usable(line.asks)
        lowest: Booking | None = None
        for host in self._hosts(line):
            if host.openings.lowest >= task.needs.priority or not host.serves(line.asks):
                continue
            for slot in host.candidates(line.asks):
                waiting = slot.waiting
                if waiting is None or waiting.priority >= task.needs.priority or not usable(slot):
                    continue
                if waiting.recalled:
                    return
                if lowest is None or waiting.priority < lowest.priority:
                    lowest = waiting
        if lowest is not None and not self._recall(lowest, f"task {task.task_id} has a higher priority"):
            self._unsettled.append(line)

    def _say_never(self) -> None:
        board = self._board
        judged: list[Host] | None = None
        for line in board.waiting.by_asks.values():
            if not line.judged:
                judged = board.hosts.judged(self._now_ms) if judged is None else judged
                board.judge(line, judged)
            if not (line.never and line.unsaid):
                continue
            line.unsaid = False
            for stream, task_id in line.tasks():
                task = board.tasks[task_id]
                if task.unschedulable == line.never:
                    continue
                if self._busy(stream) or len(self._moves) >= MAX_MOVES:
                    line.unsaid = True
                else:
                    self._moves.append(SayNever(task, line.never))
