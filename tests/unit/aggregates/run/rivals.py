"""A run whose tasks, gates and time go on by chance, decided by dispatchers that read late, and by rivals."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from tests.unit.aggregates.given import published
from tests.unit.aggregates.run.drawn import STATES, DrawnPipeline
from tests.unit.aggregates.run.given import CAPABILITIES, EVENTS
from tests.unit.domain.given import Told
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run.state import Run, run_of
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskStopRequested,
)
from trackside.domain.commands import stream_commands
from trackside.domain.commands.react import react
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.tasks.task import Task, TaskState

APPLIED = Outcome.APPLIED
MAX_MOVES = 4_000
IN_VAIN = ("expire gate", "reach time limit", "hold task", "release task")
"""What may have no effect, as something else was decided in the same moment, such as a stop."""


@dataclass
class Rival:
    """A dispatcher that has read the log up to `read`."""

    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES))
    read: int = 0

    def catch_up(self, told: Told, most: int | None = None) -> None:
        end = len(told.records) if most is None else min(self.read + most, len(told.records))
        for record in told.records[self.read : end]:
            self.streams.fold(record)
        self.read = end

    def proposals(self, now_ms: int) -> Iterable[tuple[str, Proposal]]:
        for stream in list(self.streams.by_id.values()):
            for proposal in react(stream, CAPABILITIES, AGGREGATES):
                yield stream.stream_id, proposal
            yield from stream_commands.pending(stream, self.streams.find, AGGREGATES, EVENTS)
            aggregate = AGGREGATES.of(stream)
            if aggregate is not None and not stream.closed and not stream.unanswered:
                for proposal in aggregate.due(stream, now_ms):
                    yield stream.stream_id, proposal


@dataclass
class RivalLog(Told):
    """The log of a run; all that happens to it comes from `random`."""

    random: Random = field(default_factory=Random)
    pipeline: DrawnPipeline | None = None
    rivals: list[Rival] = field(default_factory=lambda: [Rival(), Rival()])
    commands: int = 0
    torn: list[str] = field(default_factory=list)
    """The decisions of which only a part had an effect."""

    @property
    def run(self) -> Run:
        found = run_of(self.stream)
        assert found is not None
        return found

    def publish(self, kind: str, body: Json) -> None:
        self.commands += 1
        self.tell(published(self.commands, f"trackside.{kind}.v1", body))

    def start(self) -> None:
        assert self.pipeline is not None
        self.publish("start-pipeline-run", self.pipeline.body)

    def write(self, stream: str, proposal: Proposal) -> bool:
        outcomes = self.tell(*proposal.events, role="dispatcher", stream=stream)
        applied = [outcome is APPLIED for outcome in outcomes]
        if any(applied) and not all(applied):
            may = [
                kind is TaskStopRequested or any(kind in each.may_be_too_late for each in AGGREGATES.types)
                for kind in map(type, proposal.events)
            ]
            if not applied[0] or not all(one or late for one, late in zip(applied, may, strict=True)):
                names = [type(event).__name__ for event in proposal.events]
                self.torn.append(f"{proposal.span}: {list(zip(names, outcomes, strict=True))}")
        return applied[0]

    def settle(self) -> bool:
        """Lets one dispatcher that has read all write what it wants, until that is nothing; says if it wrote.

        All that it proposes at once must count.
        """
        wrote = False
        rival = self.rivals[0]
        for _ in range(1_000):
            rival.catch_up(self)
            found = list(rival.proposals(self.now_ms))
            if not found:
                return wrote
            wrote = True
            for stream, proposal in found:
                counts = self.write(stream, proposal)
                assert counts or proposal.span in IN_VAIN, proposal
        raise AssertionError(f"it never has enough: {found}")

    def open_tasks(self) -> list[tuple[str, Task]]:
        return [
            (stream.stream_id, task)
            for stream in self.streams.by_id.values()
            for task in stream.tasks.values()
            if task.state is not TaskState.ENDED
        ]

    def advance(self, stream: str, task: Task) -> bool:
        placement = task.attempt.placement + (task.state is TaskState.QUEUED)
        token: Json = {"task_id": task.task_id, "attempt": task.attempt.number, "placement": placement}
        token |= {"incarnation": "i-1"}
        if task.state is TaskState.QUEUED:
            if task.held:
                return False
            placed = {"worker_id": "w1", "device_ids": ["cpu-0"], "seen": 0}
            outcomes = self.tell(TaskAssigned.model_validate({**token, **placed}), stream=stream)
            return outcomes == [APPLIED]
        if task.state is TaskState.PLACED:
            return self.tell(TaskAccepted.model_validate(token), stream=stream) == [APPLIED]
        assert self.pipeline is not None
        end, result = self.pipeline.attempt(task.task_id, task.attempt.number)
        if task.stop_reason:
            end, result = AttemptEnd.CANCELLED, {}
        role = "scheduler" if end is AttemptEnd.LOST else "worker"
        fields: Json = {**token, "end": end, "result": result if end is AttemptEnd.FINISHED else None}
        return self.tell(AttemptEnded.model_validate(fields), role=role, stream=stream) == [APPLIED]

    def decide_gate(self, name: str) -> None:
        """Publishes the decision of a gate as it is drawn, or lets the time pass until it expires."""
        assert self.pipeline is not None
        decision = self.pipeline.decision(name)
        if decision == "expired":
            gate = self.run.steps[name].gate
            assert gate is not None and gate.due_ms is not None
            self.next_offset += max(0, gate.due_ms - self.now_ms)
        else:
            self.publish("approve-gate" if decision == "approved" else "reject-gate", {"step": name})

    def disturb(self) -> None:
        """Publishes a command of any kind; many of them are refused."""
        random, steps = self.random, list(self.run.steps)
        step = random.choice(steps)
        index = random.choice([None, 0, 1])
        failed = [name for name in steps if self.run.steps[name].state.value in STATES]
        going = [name for name in steps if self.run.steps[name].open or name in self.run.open_gates]
        patch = {step: {"priority": random.randrange(10)}} if random.random() < 0.3 else {}
        steps_of = {"steps": [random.choice(failed or steps)]} if random.random() < 0.5 else {}
        commands: list[tuple[str, Json]] = [
            ("pause-pipeline-run", {"running": random.choice(["finish", "return"])}),
            ("resume-pipeline-run", {}),
            ("skip-step", {"step": step}),
            ("abort-step", {"step": step} | ({} if index is None else {"index": index})),
            ("abort-step", {"step": random.choice(going or steps)}),
            ("approve-gate", {"step": step}),
            ("reject-gate", {"step": step}),
            ("update-pipeline-run", {"concurrency": random.randint(1, 4)}),
            ("update-pipeline-run", {"timeout_s": random.uniform(0.02, 0.4)}),
            ("retry-failed-steps", {**steps_of, "patch": patch}),
            ("restart-from-step", {"steps": [step], "patch": patch}),
            *([("abort-pipeline-run", {"reason": "enough"})] if random.random() < 0.2 else []),
            *([("archive-run", {})] if random.random() < 0.2 else []),
        ]
        self.publish(*random.choice(commands))

    def finish(self) -> None:
        """Lets all that is open end, without further commands but those of gates and to go on."""
        for _ in range(MAX_MOVES):
            if self.settle() or self._end_one():
                continue
            if self.run.over:
                return
            if self.run.paused:
                self.publish("resume-pipeline-run", {})
            elif gates := list(self.run.open_gates):
                self.decide_gate(min(gates, key=self._is_to_expire))
            else:
                break
        raise AssertionError(f"the run does not end: {self.run.status}, {self.run.open} open")

    def _is_to_expire(self, name: str) -> bool:
        assert self.pipeline is not None
        return self.pipeline.decision(name) == "expired"

    def _end_one(self) -> bool:
        tasks = self.open_tasks()
        self.random.shuffle(tasks)
        return any(self.advance(stream, task) for stream, task in tasks)


def undisturbed(pipeline: DrawnPipeline, seed: object) -> RivalLog:
    told = RivalLog(random=Random(f"{seed}/order"), pipeline=pipeline)
    told.start()
    told.finish()
    return told


def disturbed(pipeline: DrawnPipeline, seed: object, moves: int = 120) -> RivalLog:
    random = Random(f"{seed}/moves")
    told = RivalLog(random=random, pipeline=pipeline)
    told.start()
    told.settle()
    for _ in range(moves):
        if told.stream.closed:
            break
        _move(told, random)
    told.finish()
    return told


def _move(told: RivalLog, random: Random) -> None:
    drawn = random.random()
    if drawn < 0.6:
        rival = random.choice(told.rivals)
        rival.catch_up(told, random.choice([None, None, 1, 3, 8]))
        found = list(rival.proposals(told.now_ms))
        for stream, proposal in found[: random.choice([1, len(found)])] if found else ():
            told.write(stream, proposal)
    elif drawn < 0.78:
        tasks = told.open_tasks()
        if tasks:
            told.advance(*random.choice(tasks))
        elif gates := list(told.run.open_gates):
            told.decide_gate(random.choice(gates))
    elif drawn < 0.97:
        told.disturb()
    else:
        told.next_offset += random.randrange(60)
