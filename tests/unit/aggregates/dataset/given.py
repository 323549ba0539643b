"""A dataset as tests tell of it: its log, a dispatcher that decides, and a watcher that reports."""

from dataclasses import dataclass, field, replace
from typing import Any

from tests.unit.aggregates.given import CAPABILITIES, published, react
from tests.unit.domain.given import Told
from trackside.aggregates.dataset.messages import (
    DatasetObserved,
    DatasetRefused,
    DatasetTruncated,
    RegisterDataset,
)
from trackside.aggregates.dataset.state import Dataset, dataset_of
from trackside.contracts.envelope.message import Command, Event, Json
from trackside.contracts.streams.commands import CommandAccepted
from trackside.contracts.tasks.instructions import InstructionAcknowledged, TaskReady
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskAccepted, TaskAssigned
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task

HAS_BUCKET = replace(CAPABILITIES, credentials=frozenset({"bucket"}))
BODY: Json = {"url": "/data/digits.txt"}
APPLIED = Outcome.APPLIED


def digest(lines: int) -> str:
    return f"{lines:064x}"


def end_of(lines: int, **more: Any) -> Json:
    return {"lines": lines, "size": lines * 10, "sha256": digest(lines), **more}


def by(watcher: int = 1, attempt: int = 1, placement: int = 1) -> dict[str, int]:
    return {"watcher": watcher, "attempt": attempt, "placement": placement}


def observed(begin: int, end: int, **more: Any) -> DatasetObserved:
    bytes_of = {"begin_byte": begin * 10, "end_byte": end * 10, "sha256": digest(end)}
    return DatasetObserved.model_validate({**by(), "begin": begin, "end": end, **bytes_of, **more})


def truncated(stop: int = 1, observed_bytes: int = 50, size: int = 40, **more: Any) -> DatasetTruncated:
    fields = {"stop": stop, "observed_bytes": observed_bytes, "size_bytes": size}
    return DatasetTruncated.model_validate({**by(), **fields, **more})


def refused(stop: int = 1, **more: Any) -> DatasetRefused:
    return DatasetRefused.model_validate({**by(), "stop": stop, "code": "bad_line", "line": 5, **more})


@dataclass
class DatasetLog(Told):
    commands: int = 0
    said: int = 0
    decided: list[Event] = field(default_factory=list)

    @property
    def dataset(self) -> Dataset:
        found = dataset_of(self.stream)
        assert found is not None
        return found

    @property
    def watcher(self) -> Task:
        return self.stream.tasks[self.dataset.watcher_id()]

    def ask(self, kind: type[Command], body: Json | None = None) -> list[Event]:
        self.commands += 1
        self.tell(published(self.commands, kind.wire_type(), body or {}))
        return react(self, HAS_BUCKET)

    def do(self, kind: type[Command], body: Json | None = None) -> list[Event]:
        answer, *events = self.ask(kind, body)
        assert isinstance(answer, CommandAccepted), answer
        return events

    def settle(self) -> list[Event]:
        """Lets the dispatcher decide until it has nothing more to write; all of it must count."""
        found: list[Event] = []
        for _ in range(5):
            events = react(self, HAS_BUCKET)
            if not events:
                return found
            found += events
        raise AssertionError(f"it never has enough: {events}")

    def token(self) -> Json:
        attempt = self.watcher.attempt
        place = {"attempt": attempt.number, "placement": attempt.placement, "incarnation": "i-1"}
        return {"task_id": self.watcher.task_id, **place}

    def place(self) -> None:
        self.next_offset += max(0, self.watcher.not_before_ms - self.now_ms)
        token = self.token()
        token["placement"] += 1
        given = {"worker_id": "w1", "device_ids": [], "seen": 0}
        assert self.tell(TaskAssigned.model_validate({**token, **given})) == [APPLIED]
        assert self.tell(TaskAccepted.model_validate(token)) == [APPLIED]
        self.said = 0

    def say(self, **detail: Any) -> list[Event]:
        self.ready(**detail)
        return self.settle()

    def ready(self, **detail: Any) -> None:
        self.said += 1
        event = TaskReady.model_validate({**self.token(), "number": self.said, "detail": detail})
        assert self.tell(event) == [APPLIED]

    def acknowledge(self, ok: bool = True) -> list[Event]:
        assert self.watcher.instruction is not None
        number = self.watcher.instruction.number
        event = InstructionAcknowledged.model_validate({**self.token(), "number": number, "ok": ok})
        assert self.tell(event) == [APPLIED]
        return self.settle()

    def lose(self, end: AttemptEnd = AttemptEnd.LOST) -> None:
        role = "scheduler" if end is AttemptEnd.LOST else "worker"
        event = AttemptEnded.model_validate({**self.token(), "end": end})
        assert self.tell(event, role=role) == [APPLIED]


def registered(**body: Any) -> DatasetLog:
    log = DatasetLog()
    log.do(RegisterDataset, BODY | body)
    log.settle()
    return log


def watched(lines: int = 0, **body: Any) -> DatasetLog:
    log = registered(**body)
    log.place()
    log.say()
    log.acknowledge()
    if lines:
        log.say(end=end_of(lines))
        assert log.dataset.end.lines == lines
    return log


def stopped_with(**problem: Any) -> DatasetLog:
    """Tells of a dataset of 5 samples whose watcher has reported a problem."""
    log = watched(5)
    log.say(problem=problem)
    return log
