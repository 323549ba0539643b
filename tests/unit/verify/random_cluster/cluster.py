"""A whole cluster with a random history: what its services write by their rules, and much that is late.

Searches and batches, workers with CPU slots and a GPU that join, leave and are lost, replicas that make the
same decision twice, lost workers that go on writing, records of roles that may not write them. With the fold
as it is, every invariant of the log holds; `omitted` names the rules that the services here leave out.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from tests.unit.verify.random_cluster.tokens import token
from tests.unit.verify.random_cluster.workers import DEVICES, MEMORY_BYTES, Worker, Workers
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.codec import Draft, encode
from trackside.contracts.commands import Source
from trackside.contracts.device_commands import RunTask
from trackside.contracts.fleet import WorkerJoined, WorkerLeft, WorkerLost
from trackside.contracts.message import Envelope, Event, Message, Record
from trackside.contracts.tasks import AttemptAdopted, AttemptEnd, AttemptEnded, TaskAssigned
from trackside.contracts.topics import Topics, partition_of
from trackside.domain import fleet
from trackside.domain.fleet import Fleet
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.domain.task import Task, TaskState
from trackside.eventlog.clock import rfc3339

TOPICS = Topics(event_partitions=3)
FIRST_MS = 1_700_000_000_000
Move = Callable[[], object]
"""Something that may happen in a cluster next."""


@dataclass
class Cluster:
    """The log so far and what its readers have folded; `omitted` names the rules that services leave out."""

    random: Random
    omitted: frozenset[str] = frozenset()
    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES))
    fleet: Fleet = field(default_factory=Fleet)
    records: list[Record] = field(default_factory=list)
    fleet_records: list[Record] = field(default_factory=list)
    decisions: list[tuple[str, str, list[Message]]] = field(default_factory=list)
    published: list[Source] = field(default_factory=list)
    sent: list[RunTask] = field(default_factory=list)
    workers: Workers = field(default_factory=Workers)
    there: dict[str, Worker] = field(default_factory=dict)
    zombies: list[Worker] = field(default_factory=list)
    now_ms: int = FIRST_MS
    wanted: tuple[str, ...] = ()
    """The streams that clients begin."""
    _joins: int = 0
    _ends: dict[tuple[str, int], int] = field(default_factory=dict)
    _numbers: Counter[str] = field(default_factory=Counter)

    def append(self, role: str, stream: str, *messages: Message) -> list[Outcome]:
        """Appends one decision to the events and folds it."""
        self.tick()
        name = f"d-{len(self.records)}" if len(messages) > 1 else ""
        found = []
        for index, message in enumerate(messages):
            partition = partition_of(stream, TOPICS.event_partitions)
            place = (name, index, len(messages))
            record = self._record(TOPICS.events.name, partition, role, stream, message, place)
            folded, outcome = self.streams.fold(record)
            self.records.append(record)
            found.append(outcome)
            if outcome is Outcome.APPLIED:
                self._note(folded, message)
        if found[0] is Outcome.APPLIED:
            self.decisions.append((role, stream, list(messages)))
            if role == "scheduler" and isinstance(messages[0], AttemptEnded) and messages[0].incarnation:
                # Its worker lives on: others have the device after its own end, which has no effect.
                self.append("worker", stream, messages[0].model_copy(update={"end": AttemptEnd.CANCELLED}))
        return found

    def append_fleet(self, role: str, event: Event, worker_id: str) -> None:
        """Appends one event to the fleet topic and folds it."""
        self.tick()
        record = self._record(TOPICS.fleet.name, 0, role, worker_id, event, ("", 0, 1))
        self.fleet_records.append(record)
        fleet.evolve(self.fleet, record)

    def join(self, worker_id: str) -> None:
        """Lets a worker join with a new incarnation, which may adopt what earlier ones had."""
        self._joins += 1
        worker = Worker(worker_id, f"i{self._joins}")
        self._adopt(worker)
        self.there[worker_id] = worker
        event = WorkerJoined(
            worker_id=worker_id,
            incarnation=worker.incarnation,
            host="here",
            devices=worker.devices,
            task_types=["digits"],
            queues=["default"],
            after={},
            memory_bytes=MEMORY_BYTES,
        )
        self.append_fleet("worker", event, worker_id)

    def _adopt(self, worker: Worker) -> None:
        """Adopts running placements, and one that its worker had not yet accepted in the log."""
        left = [(stream, task) for stream, task in self.tasks() if _is_on(task, worker.worker_id)]
        placed = [
            (stream, task)
            for stream, task in left
            if task.state is TaskState.PLACED and not task.attempt.behind
            if self.workers.has_room(stream.stream_id, task, with_device=True)
        ]
        running = [(stream, task) for stream, task in left if task.state is TaskState.ACTIVE]
        for stream, task in placed[:1] + running:
            if self.random.random() < 0.6:
                self.append("worker", stream.stream_id, adoption(task, worker.worker_id, worker.incarnation))

    def missing(self) -> list[str]:
        """Returns the workers that are not there."""
        return sorted(DEVICES.keys() - self.there.keys())

    def alive(self) -> set[str]:
        """Returns the incarnations that may append: those that joined, and those that were declared lost."""
        return {worker.incarnation for worker in (*self.there.values(), *self.zombies)}

    def lose_one(self) -> None:
        """Declares a worker lost; it may go on appending until it joins again."""
        if self.there:
            worker = self.there.pop(self.random.choice(sorted(self.there)))
            lost = WorkerLost(worker_id=worker.worker_id, incarnation=worker.incarnation, silent_ms=9)
            self.append_fleet("scheduler", lost, worker.worker_id)
            self.zombies.append(worker)

    def restart_one(self) -> None:
        """Lets a worker that was killed join again at once."""
        if self.there:
            self.join(self.random.choice(sorted(self.there)))

    def leave_one(self) -> None:
        """Lets a worker leave that has nothing to do."""
        busy = {task.place.worker_id for _, task in self.tasks() if task.place is not None}
        idle = sorted(self.there.keys() - busy)
        if idle:
            worker = self.there.pop(self.random.choice(idle))
            left = WorkerLeft(worker_id=worker.worker_id, incarnation=worker.incarnation)
            self.append_fleet("worker", left, worker.worker_id)

    def tick(self, ms: int = 0) -> None:
        """Lets time pass."""
        self.now_ms += ms or self.random.randint(1, 12)

    def publish(self) -> Source:
        """Returns the position of a new record in the commands topic."""
        partition = self.random.randrange(4)
        offset = self._next(TOPICS.commands.name, partition)
        source = Source(topic=TOPICS.commands.name, partition=partition, offset=offset)
        self.published.append(source)
        return source

    def tasks(self) -> Iterable[tuple[Stream, Task]]:
        """Returns all tasks of all streams."""
        for stream in self.streams.by_id.values():
            for task in stream.tasks.values():
                yield stream, task

    def omits(self, rule: str) -> bool:
        """Returns whether the services of this cluster omit a rule."""
        return rule in self.omitted

    def _note(self, stream: Stream, message: Message) -> None:
        task = stream.tasks.get(getattr(message, "task_id", ""))
        if task is not None:
            self.workers.note(stream.stream_id, task, message)
        if isinstance(message, TaskAssigned) and task is not None:
            self.sent.append(_command(stream.stream_id, task, message))

    def _next(self, topic: str, partition: int) -> int:
        offset = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = offset + 1
        return offset

    def _record(
        self,
        topic: str,
        partition: int,
        role: str,
        stream: str,
        message: Message,
        decision: tuple[str, int, int],
    ) -> Record:
        offset = self._next(topic, partition)
        name, index, count = decision
        incarnation = getattr(message, "incarnation", "") if role == "worker" else ""
        self._numbers[incarnation] += 1
        _, _, headers = encode(
            Draft(
                message=message,
                id=f"m-{topic}-{partition}-{offset}",
                source=f"trackside/{role}/1",
                stream=stream,
                time=rfc3339(self.now_ms),
                decision_id=name,
                index=index,
                count=count,
                sequence=self._numbers[incarnation] if incarnation else 0,
            )
        )
        return Record(topic, partition, offset, self.now_ms, Envelope(dict(headers)), message)


def adoption(task: Task, worker_id: str, incarnation: str) -> AttemptAdopted:
    """Returns the event by which an incarnation adopts the placement that a task has."""
    assert task.place is not None
    now = {**token(task), "incarnation": incarnation}
    return AttemptAdopted(**now, worker_id=worker_id, earlier=(task.place.incarnation,))


def _is_on(task: Task, worker_id: str) -> bool:
    return task.place is not None and task.place.worker_id == worker_id


def _command(stream: str, task: Task, event: TaskAssigned) -> RunTask:
    return RunTask(
        stream=stream,
        task_id=event.task_id,
        attempt=event.attempt,
        placement=event.placement,
        incarnation=event.incarnation,
        task_type=task.task_type,
        parameters=task.parameters,
        device_ids=event.device_ids,
        reserved=event.reserved,
        wait=event.behind,
    )
