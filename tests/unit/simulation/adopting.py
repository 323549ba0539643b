"""A simulation whose workers are killed often; what holds of adopted attempts if nothing else goes wrong."""

from collections.abc import Callable
from typing import Any

from trackside.contracts.envelope.message import Record
from trackside.contracts.fleet.fleet import WorkerJoined, WorkerLost
from trackside.contracts.tasks.tasks import AttemptAdopted, AttemptEnd, AttemptEnded, TaskAssigned
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import parse_cause
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import decode
from trackside.simulation.config import SimulationConfig, without_faults
from trackside.simulation.host.worker_state import Workload
from trackside.simulation.run import Simulation, _SupervisedProcess

KILLS = 8
"""How often a worker is killed, if the stream takes that long."""
LONG_TASKS = Workload(seconds=(0.3, 2.0))
KILLS_ONLY = without_faults(SimulationConfig(workload=LONG_TASKS))
"""The faults are that workers are killed."""


class WorkersKilledOften(Simulation):
    """Workers are killed, and are back within a second; `adoptions` has those in the log, and their outcomes.

    Without other faults, no attempt is lost while its incarnation is there, and a scheduler that has read
    that an attempt was adopted places no task on the earlier incarnation.
    """

    def __init__(self, seed: int, config: SimulationConfig = KILLS_ONLY) -> None:
        super().__init__(seed, config)
        self.adoptions: list[tuple[AttemptAdopted, Outcome]] = []
        self._losses: list[Record] = []
        self._adopted_at: dict[tuple[str, int], int] = {}
        self._to_adopted: list[str] = []

    def _supervise(self, name: str, make: Callable[..., Any]) -> None:
        if not name.startswith("w"):
            super()._supervise(name, make)
            return
        killed = _SupervisedProcess(name, make)
        self.supervised.append(killed)
        for _ in range(KILLS):
            steps = int(10 ** self.rng.uniform(0.7, 2.6))
            killed.planned_faults.append(("kill", steps, 10 ** self.rng.uniform(-2, 0)))
        self._start(killed)

    def _fold(self, replayed: Streams, record: Record) -> tuple[Stream, Outcome]:
        event = record.message
        stream = replayed.find(record.envelope.stream)
        task = None if stream is None else stream.tasks.get(getattr(event, "task_id", ""))
        before = "" if task is None or task.place is None else task.place.incarnation
        folded, outcome = super()._fold(replayed, record)
        if isinstance(event, AttemptAdopted):
            self.adoptions.append((event, outcome))
            if outcome is Outcome.APPLIED:
                self._adopted_at.setdefault((before, record.partition), record.offset)
        elif isinstance(event, TaskAssigned) and outcome is Outcome.APPLIED:
            self._note_assigned(event, record)
        elif isinstance(event, AttemptEnded) and event.end is AttemptEnd.LOST:
            self._losses += [record] if outcome is Outcome.APPLIED else []
        return folded, outcome

    def _note_assigned(self, event: TaskAssigned, record: Record) -> None:
        """Notes an assignment to an incarnation of which an attempt was adopted, as its scheduler knew."""
        cause = parse_cause(record.envelope.causation_id)
        adopted_at = self._adopted_at.get((event.incarnation, record.partition))
        if cause is not None and adopted_at is not None and cause[1] > adopted_at:
            self._to_adopted.append(
                f"task {event.task_id} is placed on {event.incarnation} after an attempt of that was adopted"
            )

    def _check(self, ended_in_time: bool) -> None:
        super()._check(ended_in_time)
        if self.config.max_process_faults == 0:
            self.result.violations += self._to_adopted + self._lost_while_there()

    def _lost_while_there(self) -> list[str]:
        """Returns the losses of attempts whose incarnation had joined, and was neither lost nor replaced."""
        joins: dict[str, tuple[str, int]] = {}
        ends: dict[str, int] = {}
        newest: dict[str, str] = {}
        for entry in self.log.entries[self.topics.fleet.name, 0]:
            record = decode(entry)
            event = None if record is None else record.message
            if isinstance(event, WorkerJoined):
                ends.setdefault(newest.get(event.worker_id, ""), entry.append_time_ms)
                newest[event.worker_id] = event.incarnation
                joins[event.incarnation] = event.worker_id, entry.append_time_ms
            elif isinstance(event, WorkerLost):
                ends.setdefault(event.incarnation, entry.append_time_ms)
        found = []
        for record in [loss for loss in self._losses if loss.envelope.role == "scheduler"]:
            event, lost_ms = record.message, record.append_time_ms
            assert isinstance(event, AttemptEnded)
            _, joined_ms = joins.get(event.incarnation, ("", lost_ms))
            if joined_ms < lost_ms < ends.get(event.incarnation, lost_ms + 1):
                found.append(f"an attempt of task {event.task_id} is lost while {event.incarnation} has it")
        return found
