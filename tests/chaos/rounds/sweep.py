"""Faults of every kind after every event of two rounds, with several jobs at once on one cluster.

Positions are the events of a job that nothing disturbs. A fault is made at a position where its kind was not
seen yet, and counts for what each job that it disturbs had appended last: no kind is made twice for the same
event of the same round as long as there are others, and each job has time for progress between faults.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from tests.chaos.history import FoldedRecord
from tests.chaos.rounds.cluster import RoundsCluster
from tests.chaos.rounds.faults import KINDS, SHARED_KINDS, make
from tests.chaos.rounds.job import TwoRounds
from tests.chaos.rounds.positions import position
from trackside.domain.outcome import Outcome

AT_ONCE = 5
"""How many jobs run at once."""
GAP, SHARED_GAP = (2, 6), 8
"""How many positions a job gets further between two faults of it, and all jobs between two shared faults."""
SAME_MS = 10
"""Events that were appended within so many ms are at one position: often one transaction."""
SAID_EACH = 50
"""After how many faults it says how far it is."""
ABSENT = 3
"""After how many looks a kind is not tried any more where its process never was."""


def positions_of(job: TwoRounds, records: list[FoldedRecord]) -> list[str]:
    """Returns the positions of a job in order, from what the log has of it."""
    streams = (job.name, job.dataset)
    applied = (each.record for each in records if each.outcome is Outcome.APPLIED)
    found = (each for each in applied if each.envelope.stream in streams)
    return list(dict.fromkeys(position(job.name, each.envelope.stream, each.message) for each in found))


@dataclass
class Trail:
    """The events of a job that runs, as positions with their times in the log, in ms."""

    job: TwoRounds
    events: list[tuple[int, str]] = field(default_factory=list)
    reached: set[str] = field(default_factory=set)
    considered: int = 0
    free_at: int = 0
    """How many positions it must have reached before the next fault."""

    @property
    def is_free(self) -> bool:
        """Whether there was progress since the last fault."""
        return len(self.reached) >= self.free_at

    def last(self) -> set[str]:
        """Returns the positions of what was appended last."""
        end_ms = self.events[-1][0] if self.events else 0
        return {name for ms, name in self.events[-20:] if end_ms - ms <= SAME_MS}


@dataclass
class Sweep:
    """Runs jobs until each kind of fault was made at each position."""

    cluster: RoundsCluster
    positions: list[str]
    rng: random.Random
    say: Callable[[str], None]
    """Tells whoever waits how far it is."""
    hit: dict[str, Counter[str]] = field(default_factory=lambda: {kind: Counter() for kind in KINDS})
    """By kind: how often it was made at a position."""
    absent: dict[str, Counter[str]] = field(default_factory=lambda: {kind: Counter() for kind in KINDS})
    """By kind: how often it was not made at a position, as there was no such process."""
    made: Counter[str] = field(default_factory=Counter)
    not_made: Counter[str] = field(default_factory=Counter)
    _trails: dict[str, Trail] = field(default_factory=dict)
    _read: int = 0
    _progress: int = 0
    _shared: asyncio.Lock = field(default_factory=asyncio.Lock)
    _free_at: int = 0

    async def run(self, jobs: int) -> None:
        """Runs so many jobs at most."""
        numbers = iter(range(1, jobs + 1))
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._run_some(numbers))

    async def _run_some(self, numbers: Iterator[int]) -> None:
        """Runs one job after another."""
        for number in numbers:
            if not any(self._open(kind, set(self.positions)) for kind in KINDS):
                return
            job = TwoRounds(self.cluster, f"swept-{number}")
            trail = Trail(job)
            self._trails |= {job.name: trail, job.dataset: trail}
            await job.run(partial(self._after, trail))
            del self._trails[job.name], self._trails[job.dataset]
            await job.assert_right()
            await job.delete()
            self.say(f"{job.name} has left what it should; {self.summary()}")

    def _catch_up(self) -> None:
        """Takes in what the log has more."""
        records = self.cluster.history.records
        for each in records[self._read :]:
            record = each.record
            trail = self._trails.get(record.envelope.stream)
            if trail is not None and each.outcome is Outcome.APPLIED:
                name = position(trail.job.name, record.envelope.stream, record.message)
                trail.events.append((record.append_time_ms, name))
                self._progress += name not in trail.reached
                trail.reached.add(name)
        self._read = len(records)

    def _open(self, kind: str, at: set[str]) -> set[str]:
        """Returns at which of some positions a kind is still to be made."""
        missing = at - self.hit[kind].keys()
        return {name for name in missing & set(self.positions) if self.absent[kind][name] < ABSENT}

    def _disturbed(self, kind: str) -> list[Trail]:
        """Returns the jobs that a fault disturbs: all, or those whose own processes are to have it."""
        running = list({id(each): each for each in self._trails.values()}.values())
        if kind in SHARED_KINDS:
            return running
        return [each for each in running if each.is_free and self._open(kind, each.last())]

    def _gain(self, kind: str) -> int:
        """Returns at how many positions a fault would be made for the first time; 0 if it may not be made."""
        if kind in SHARED_KINDS and (self._shared.locked() or self._progress < self._free_at):
            return 0
        return sum(len(self._open(kind, each.last())) for each in self._disturbed(kind))

    async def _after(self, trail: Trail, _: int) -> None:
        """Makes a fault after the newest event of a job, if there is one to be made."""
        self._catch_up()
        if len(trail.events) == trail.considered or not trail.is_free:
            return
        trail.considered = len(trail.events)
        gains = {kind: gain for kind in KINDS if (gain := self._gain(kind))}
        while gains:
            kind = self.rng.choices(list(gains), list(gains.values()))[0]
            if await self._make(kind, trail):
                return
            del gains[kind]

    async def _make(self, kind: str, trail: Trail) -> bool:
        """Makes a fault of the cluster, or one of each job's own processes; says whether one was made."""
        disturbed = self._disturbed(kind)
        if kind in SHARED_KINDS:
            at = [(each, each.last()) for each in disturbed]
            async with self._shared:
                made = await make(kind, trail.job, self.rng)
            self._count(kind, at, made)
            self._free_at = self._progress + (SHARED_GAP if made else 0)
            return made
        return any(await asyncio.gather(*(self._make_own(kind, each) for each in disturbed)))

    async def _make_own(self, kind: str, trail: Trail) -> bool:
        """Makes a fault of a process of one job."""
        at = [(trail, trail.last())]
        trail.free_at = len(trail.reached) + self.rng.randint(*GAP)
        made = await make(kind, trail.job, self.rng)
        self._count(kind, at, made)
        return made

    def _count(self, kind: str, at: list[tuple[Trail, set[str]]], made: bool) -> None:
        """Counts a fault of some jobs, each of which was at some positions."""
        (self.made if made else self.not_made)[kind] += 1
        self._catch_up()
        for trail, names in at:
            (self.hit if made else self.absent)[kind].update(names)
            where = f"{kind} of {trail.job.name} after {' and '.join(sorted(names))}"
            print(f"{where}{'' if made else ': not made, as there was none'}")  # noqa: T201
            trail.free_at = len(trail.reached) + (self.rng.randint(*GAP) if made else 0)
        if made and self.made.total() % SAID_EACH == 0:
            self.say(self.summary())

    def summary(self) -> str:
        """Returns how much was made, in a line."""
        hit = sum(len(self.hit[kind].keys() & set(self.positions)) for kind in KINDS)
        return f"{self.made.total()} faults at {hit} of {len(KINDS) * len(self.positions)} positions of kinds"

    def report(self) -> str:
        """Returns what was made at each position, by kind, and where nothing was made and why."""
        lines = []
        for kind in KINDS:
            known = self.hit[kind].keys() & set(self.positions)
            left = [name for name in self.positions if name not in known]
            without = [name for name in left if self.absent[kind][name]]
            lines.append(
                f"{kind}: at {len(known)} of {len(self.positions)} positions, {self.made[kind]} made,"
                f" {self.not_made[kind]} not made as there was no such process"
            )
            lines += [f"    no such process: {name}" for name in without]
            lines += [f"    never made: {name}" for name in left if name not in without]
        return "\n".join(lines)
