"""A log told event by event, folded as it goes: given these events, when this one, then that outcome."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import (
    TRIAL,
    SearchSpec,
    SearchStarted,
    TrialEnded,
    TrialStatus,
    TrialSuggested,
)
from trackside.aggregates.search.space.space import Uniform
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.envelope.message import Envelope, Event, Message, Record
from trackside.contracts.envelope.parts import Part, number_of
from trackside.contracts.streams.commands import RULES, CommandAccepted, CommandReceived, Source
from trackside.contracts.tasks import tasks
from trackside.contracts.wire.codec import Draft, encode
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task

APPLIED, DUPLICATE, OVERTAKEN = [Outcome.APPLIED], [Outcome.DUPLICATE], [Outcome.OVERTAKEN]
STREAM = "digits-1"
FIRST_MS = 1_700_000_000_000
OnFolded = Callable[[Stream, Outcome, Record], None]


def spec(**changed: Any) -> SearchSpec:
    fields: dict[str, Any] = {"task_type": "digits"}
    fields |= {"space": {"lr": Uniform(type="uniform", low=0.0, high=1.0)}, "max_trials": 4}
    fields |= {"concurrency": 2}
    return SearchSpec(**{**fields, **changed})


def record_of(
    message: Message,
    offset: int,
    role: str = "",
    stream: str = STREAM,
    decision: tuple[str, int, int] | None = None,
    partition: int = 3,
) -> Record:
    """Returns a record as if it was read; the role is the first that may write it unless it is given."""
    written_by = sorted(message.written_by) if isinstance(message, Event) else []
    decision_id, index, count = decision or ("", 0, 1)
    about: dict[str, Any] = {"message": message, "id": f"m-{offset}", "stream": stream}
    about |= {"decision_id": decision_id, "index": index, "count": count, "time": "2026-01-31T12:00:00Z"}
    _, _, headers = encode(Draft(source=f"trackside/{role or (written_by or ['nobody'])[-1]}/1", **about))
    return Record("trackside.events", partition, offset, FIRST_MS + offset, Envelope(dict(headers)), message)


@dataclass
class Told:
    """A partition of the log as it grows, and the streams folded from it."""

    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES))
    records: list[Record] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    next_offset: int = 0

    def tell(self, *messages: Message, role: str = "", stream: str = STREAM) -> list[Outcome]:
        name = f"d-{self.next_offset}" if len(messages) > 1 else ""
        found = []
        for index, message in enumerate(messages):
            place = (name, index, len(messages)) if name else None
            found.append(self.fold(record_of(message, self.next_offset, role, stream, place)))
        return found

    def each(self, *messages: Message) -> list[Outcome]:
        """Tells messages of which each is a decision of its own."""
        return [self.tell(message)[0] for message in messages]

    def fold(self, record: Record) -> Outcome:
        record.offset = self.next_offset
        record.append_time_ms = FIRST_MS + self.next_offset
        self.next_offset += 1
        self.records.append(record)
        outcome = fold_on(self.streams, record, self.records)
        self.outcomes.append(outcome)
        return outcome

    @property
    def now_ms(self) -> int:
        return FIRST_MS + self.next_offset

    @property
    def stream(self) -> Stream:
        return self.streams.by_id[STREAM]

    @property
    def search(self) -> Search:
        found = search_of(self.stream)
        assert found is not None
        return found

    def task(self, trial: int = 0) -> Task:
        return self.stream.tasks[task_id(trial)]


def fold_on(
    streams: Streams, record: Record, records: Sequence[Record], on_folded: OnFolded = lambda *_: None
) -> Outcome:
    """Folds a record, and `records` again as far as it has released streams, as readers of the log do."""
    outcome = streams.fold(record)[1]
    while streams.released:
        reading = {name: each.released for name, each in streams.released.items() if each.released}
        for each in records:
            released = reading.get(each.envelope.stream)
            if released is None or not released.read_to < each.offset < streams.positions[each.partition]:
                continue
            stream = streams.released[each.envelope.stream]
            if stream.partition == each.partition and stream.released is released:
                folded = streams.fold_again(each)
                if folded[1] is not Outcome.PARKED:
                    on_folded(*folded, each)
        streams.have_read_again(reading, record.offset + 1)
    return outcome


def task_id(trial: int) -> str:
    return f"{STREAM}.{trial}"


def received(number: int = 1, **changed: Any) -> CommandReceived:
    fields: dict[str, Any] = {"command_id": f"c-{number}", "command_type": "trackside.start-search.v1"}
    fields |= {"body": {}, "digest": f"digest-{number}"}
    fields |= {"source": Source(topic="trackside.commands", partition=0, offset=number), "publisher": ""}
    fields |= {"rules": RULES}
    return CommandReceived(**{**fields, **changed})


def accepted(number: int = 1, place: int | None = None) -> CommandAccepted:
    """Returns the answer to the publication at offset `place`, which is `number` unless it is given."""
    source = Source(topic="trackside.commands", partition=0, offset=number if place is None else place)
    return CommandAccepted(command_id=f"c-{number}", source=source)


def started(**changed: Any) -> SearchStarted:
    return SearchStarted(command_id="c-1", search=spec(**changed), seed=7)


def suggested(trial: int) -> TrialSuggested:
    return TrialSuggested(trial=trial, parameters={"lr": trial / 10}, seen=0)


def submitted(trial: int | None = 0, **changed: Any) -> tasks.TaskSubmitted:
    fields: dict[str, Any] = {"task_id": task_id(trial or 0), "task_type": "digits"}
    fields |= {"parameters": {"lr": (trial or 0) / 10}}
    fields |= {"part": None if trial is None else Part(kind=TRIAL, number=trial)}
    return tasks.TaskSubmitted(**{**fields, **changed})


def trial_of(task: Task) -> int | None:
    return number_of(task.part, TRIAL)


def assigned(
    trial: int = 0, attempt: int = 1, placement: int = 1, incarnation: str = "i-1"
) -> tasks.TaskAssigned:
    where = token(trial, attempt, placement, incarnation)
    return tasks.TaskAssigned(**where, worker_id="w1", device_ids=["cpu-0"], seen=0)


def token(trial: int = 0, attempt: int = 1, placement: int = 1, incarnation: str = "i-1") -> dict[str, Any]:
    where = {"attempt": attempt, "placement": placement, "incarnation": incarnation}
    return {"task_id": task_id(trial), **where}


def begun(trial: int = 0, **which: Any) -> tasks.TaskAccepted:
    return tasks.TaskAccepted(**token(trial, **which))


def adopted(
    trial: int = 0,
    incarnation: str = "i-2",
    earlier: tuple[str, ...] = ("i-1",),
    worker: str = "w1",
    **which: Any,
) -> tasks.AttemptAdopted:
    where = token(trial, **which, incarnation=incarnation)
    return tasks.AttemptAdopted(**where, worker_id=worker, earlier=earlier)


def status(value: Any, trial: int = 0, interrupts: int = 0, **which: Any) -> tasks.TaskStatusChanged:
    return tasks.TaskStatusChanged(**token(trial, **which), status=value, interrupts=interrupts)


def report(
    step: int,
    value: float | None,
    trial: int = 0,
    final: bool = False,
    attempt: int = 1,
    placement: int = 1,
    **more: int,
) -> tasks.MetricReported:
    """Returns a report of an attempt; `more` are its numbers of interrupts and requests."""
    at = {"task_id": task_id(trial), "attempt": attempt, "placement": placement, "step": step}
    kind = "FINAL" if final else "PERIODICAL"
    return tasks.MetricReported.model_validate({**at, "kind": kind, "value": value, **more})


def ended(end: Any = tasks.AttemptEnd.FINISHED, trial: int = 0, **which: Any) -> tasks.AttemptEnded:
    return tasks.AttemptEnded(**token(trial, **which), end=end)


def recall(trial: int = 0, incarnation: str = "", **which: int) -> tasks.TaskRecallRequested:
    """Returns the scheduler's wish to have a placement back; it names no incarnation."""
    where = {"attempt": 1, "placement": 1, **which}
    return tasks.TaskRecallRequested(task_id=task_id(trial), **where, reason="free")


def preemption(trial: int = 0, incarnation: str = "", **which: int) -> tasks.TaskPreemptionRequested:
    """Returns the scheduler's wish that a placement makes room; it names no incarnation."""
    where = {"attempt": 1, "placement": 1, **which}
    return tasks.TaskPreemptionRequested(task_id=task_id(trial), **where, by="urgent")


def interrupted(number: int = 1, trial: int = 0, **which: Any) -> tasks.TaskInterrupted:
    """Returns the worker's word that an attempt ran out of memory in training and will train again."""
    reserved = tasks.Reservation(memory_bytes=1_000, cuda_memory_bytes=3_000, estimated_by="raised")
    error = tasks.TaskError(stage="TRAIN", type="OutOfMemoryError", message="CUDA out of memory")
    what: dict[str, Any] = {"interrupt": number, "resource": which.pop("resource", "device")}
    return tasks.TaskInterrupted(**what, **token(trial, **which), reserved=reserved, error=error)


def unschedulable(trial: int = 0, attempt: int = 1, number: int = 1) -> tasks.TaskUnschedulable:
    return tasks.TaskUnschedulable(task_id=task_id(trial), attempt=attempt, number=number, message="no GPU")


def over(trial: int, value: float | None = None, how: TrialStatus = TrialStatus.SUCCEEDED) -> TrialEnded:
    return TrialEnded(trial=trial, status=how, value=value)


def search_running(told: Told | None = None, **changed: Any) -> Told:
    told = Told() if told is None else told
    told.tell(received())
    told.tell(accepted(), started(**changed))
    return told


def task_queued(**changed: Any) -> Told:
    told = search_running(**changed)
    told.tell(suggested(0), submitted(0, needs=told.search.spec.needs))
    return told


def task_active(**changed: Any) -> Told:
    told = task_queued(**changed)
    told.each(assigned(), begun())
    return told


def finish(told: Told, trial: int, value: float | None, end: Any = tasks.AttemptEnd.FINISHED) -> None:
    told.each(assigned(trial), begun(trial), report(0, value, trial, final=True), ended(end, trial))
    how = TrialStatus.SUCCEEDED if end is tasks.AttemptEnd.FINISHED else TrialStatus.FAILED
    told.tell(over(trial, value if end is tasks.AttemptEnd.FINISHED else None, how))
