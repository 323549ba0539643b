"""What a simulated worker does before it joins: it ends what its journal has, and adopts what still runs.

The task processes of a worker that was killed may outlive it. What each has said is on the disk: that is said
again, as the dead worker may not have appended it.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random

from trackside.contracts.envelope.message import Event
from trackside.contracts.fleet.fleet import Device, WorkerJoined
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnd,
    TaskAccepted,
    TaskReturned,
    TaskStatusChanged,
)
from trackside.simulation.host.reporting import SimulatedReporter
from trackside.simulation.host.store import SharedResources, SimulatedUploads
from trackside.simulation.host.worker_state import (
    BUILT_IN,
    PHASES,
    SERVICES,
    TASK_TYPES,
    PlacementKey,
    SimulatedDisk,
    SimulatedPlacement,
    Workload,
)
from trackside.simulation.tasks.incremental_tasks import task_class

ALL_END = 0.3
"""How often all tasks end with their worker."""
RUNS_ON = 0.8
"""The share of tasks that run on where not all end."""
RUNS_MEANWHILE = 0.3
"""The share of these that do all they can before their next worker is there: they end, or ask and wait."""
JOURNAL_LOST = 0.05
"""How often a worker comes back without its journal."""
FOREIGN_JOURNAL = 0.2
"""How often a worker finds a placement of another worker in its journal, too."""


@dataclass(slots=True)
class JournalRecovery:
    """What one incarnation does about the placements that an earlier one has left in the journal."""

    worker_id: str
    incarnation: str
    disk: SimulatedDisk
    shared: SharedResources
    reporter: SimulatedReporter
    workload: Workload
    rng: Random
    partitions: set[int] = field(default_factory=set)
    """The partitions of what it has appended, which its join must follow."""
    _written: list[asyncio.Event] = field(default_factory=list)

    def outlived(self) -> list[SimulatedPlacement]:
        """Returns the placements whose tasks run on; the journal has these, and copies of all others."""
        journal, rng, faults = self.disk.journal, self.rng, self.disk.faults
        left = [placement.copy() for placement in journal.values() if not placement.reported]
        journal.clear()
        running = [placement for placement in left if placement.begun and not placement.over]
        if running and rng.random() < JOURNAL_LOST:
            faults["journal_lost"] += 1
            return []
        journal.update({placement.key: placement for placement in left})
        if not running:
            return []
        all_end = rng.random() < ALL_END
        found = [placement for placement in running if not all_end and rng.random() < RUNS_ON]
        for placement in running:  # a task that has ended is so for each later process, too
            placement.over = placement not in found
        faults["outlived"] += len(found)
        for placement in found:
            if rng.random() < RUNS_MEANWHILE:
                task_class(placement).run_on(placement, self.workload)
        return found

    async def report_ends(self, outlived: Collection[SimulatedPlacement]) -> None:
        """Reports the end of each placement in the journal whose task does not run on, and forgets it.

        One that an earlier incarnation has adopted is adopted first: the log may not have that.
        """
        journal, spared = self.disk.journal, {placement.key for placement in outlived}
        for key in [key for key in journal if key not in spared]:
            placement = journal[key]
            recovered = not placement.earlier
            if not recovered:
                self._append(placement, self.adopt(placement))
            kind = TaskReturned if placement.wait and not placement.begun else TaskAccepted
            self.reporter.event(placement, kind(**placement.token, incarnation=placement.incarnation))
            self._repeat_until_checkpoint(placement)
            end = placement.ending or AttemptEnd.LOST
            if placement.spool and not await self._upload_again(placement) and end is AttemptEnd.FINISHED:
                end = AttemptEnd.FAILED
            self._append(placement, placement.ended(end, recovered=recovered))
        await self._wait()
        for key in [key for key in journal if key not in spared]:
            del journal[key]

    async def adopt_all(self, outlived: Collection[SimulatedPlacement]) -> list[AttemptAdopted]:
        """Adopts the placements whose tasks run on; returns the events, once they are in the log."""
        events = [self.adopt(placement) for placement in outlived]
        for placement, event in zip(outlived, events, strict=True):
            self._append(placement, event)
            for status in PHASES:
                changed = TaskStatusChanged(
                    **placement.token, incarnation=placement.incarnation, status=status
                )
                self.reporter.event(placement, changed)
            self._repeat(placement)
        self._adopt_of_another()
        await self._wait()
        return events

    def adopt(self, placement: SimulatedPlacement) -> AttemptAdopted:
        """Assigns a placement to this incarnation, on the disk first; returns the event of that."""
        if placement.incarnation != self.incarnation:
            placement.earlier = (*placement.earlier, placement.incarnation)
            placement.incarnation = self.incarnation
            placement.said = [(self._own(event), cause) for event, cause in placement.said]
        return self._adopted(placement, placement.earlier)

    def _own(self, event: Event) -> Event:
        """Returns what a task has said as an event of this incarnation."""
        named = {"incarnation": self.incarnation} if "incarnation" in type(event).model_fields else {}
        return event.model_copy(update=named)

    def _adopted(self, placement: SimulatedPlacement, earlier: tuple[str, ...]) -> AttemptAdopted:
        return AttemptAdopted(
            **placement.token, worker_id=self.worker_id, incarnation=self.incarnation, earlier=earlier
        )

    def _adopt_of_another(self) -> None:
        """Adopts a placement of another worker, as one would with the journal of that: it has no effect."""
        others: dict[PlacementKey, SimulatedPlacement] = {}
        for worker_id, disk in self.shared.disks.items():
            others |= disk.journal if worker_id != self.worker_id else {}
        if others and self.rng.random() < FOREIGN_JOURNAL:
            placement = others[self.rng.choice(sorted(others))]
            self.disk.faults["foreign_journal"] += 1
            self._append(placement, self._adopted(placement, (*placement.earlier, placement.incarnation)))

    def _repeat_until_checkpoint(self, placement: SimulatedPlacement) -> None:
        """Repeats what a task said before its end, or before the last checkpoint in its spool."""
        steps = [artifact.step for artifact in placement.spool if artifact.step is not None]
        if placement.ending is not None:
            self._repeat(placement)
        elif steps:
            self._repeat(placement, until=steps[-1])

    def _repeat(self, placement: SimulatedPlacement, until: int | None = None) -> None:
        """Repeats what a task has said; of its values those of the steps before `until`."""
        if placement.resumed is not None:
            self.reporter.event(placement, placement.resumed_event())
        self.reporter.values(placement, until)
        for event, cause in placement.said if until is None else ():
            self.reporter.event(placement, event, cause=cause)

    async def _upload_again(self, placement: SimulatedPlacement) -> bool:
        """Uploads what a placement has left in its spool; returns whether the store has all of it."""
        uploads = SimulatedUploads(self.shared.store, placement, self.reporter.saved)
        for artifact in placement.spool:
            uploads.add(artifact)
        return await uploads.finish()

    def _append(self, placement: SimulatedPlacement, event: Event) -> None:
        self._written.append(asyncio.Event())
        self.partitions.add(self.reporter.event(placement, event, self._written[-1]))

    async def _wait(self) -> None:
        for written in self._written:
            await written.wait()


def joined(
    worker_id: str, incarnation: str, devices: Collection[Device], after: dict[str, int]
) -> WorkerJoined:
    """Returns the event by which an incarnation joins."""
    return WorkerJoined(
        worker_id=worker_id,
        incarnation=incarnation,
        host=worker_id,
        devices=list(devices),
        task_types=[*TASK_TYPES],
        services=[each for each in SERVICES if each not in BUILT_IN],
        queues=["default"],
        after=after,
        built_in=sorted(BUILT_IN),
        memory_bytes=sum(device.memory_bytes for device in devices if device.kind == "cpu"),
    )
