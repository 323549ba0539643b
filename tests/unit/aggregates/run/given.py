"""A run in a log that is told event by event: dispatchers write what it lacks, tests end its tasks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.unit.aggregates.given import end_attempt, of_kind, place, published
from tests.unit.domain.given import STREAM, Told
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run.messages import StartPipelineRun
from trackside.aggregates.run.state import Run, run_of
from trackside.contracts.envelope.message import Command, Event, Json, Record
from trackside.contracts.fleet.fleet import CHECK_ARTIFACTS
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted
from trackside.domain.commands import stream_commands
from trackside.domain.commands.react import react
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.stream_index import StreamIndex
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import shrink
from trackside.domain.tasks.task import TaskState

CAPABILITIES = Capabilities(
    frozenset({"noop", "digits"}),
    digests={"noop": ("d1",), "digits": ("d2",)},
    built_in=frozenset({CHECK_ARTIFACTS}),
)
EVENTS = "trackside.events"
DIGEST = "ab" * 32
NOTHING: Mapping[str, str] = {}


def step(name: str, *needs: str, **fields: Any) -> Json:
    own = {} if {"kind", "gate"} & fields.keys() else {"task_type": "noop"}
    return {"name": name, **own, **({"needs": list(needs)} if needs else {}), **fields}


@dataclass
class RunLog(Told):
    """The log with a run in it; `written` are the events of dispatchers."""

    written: list[Event] = field(default_factory=list)
    commands: int = 0
    capabilities: Capabilities = CAPABILITIES
    index: StreamIndex = field(init=False)

    def __post_init__(self) -> None:
        self.index = StreamIndex(self.streams)

    def fold(self, record: Record) -> Outcome:
        outcome = super().fold(record)
        if outcome is Outcome.APPLIED:
            self.index.fold(self.streams.by_id[record.envelope.stream], record.message)
        return outcome

    @property
    def run(self) -> Run:
        found = run_of(self.stream)
        assert found is not None
        return found

    @property
    def states(self) -> dict[str, str]:
        return {name: found.state.value for name, found in self.run.steps.items()}

    @property
    def submitted(self) -> list[str]:
        return [event.task_id.removeprefix(f"{STREAM}.") for event in of_kind(TaskSubmitted, self.written)]

    def command(self, wanted: Command | str, body: Json | None = None, stream: str = STREAM) -> list[Event]:
        """Publishes a command and lets dispatchers write all that follows; returns what was written."""
        self.commands += 1
        kind = wanted if isinstance(wanted, str) else wanted.wire_type()
        given = body if isinstance(wanted, str) else wanted.model_dump(mode="json", exclude_none=True)
        self.tell(published(self.commands, kind, given or {}), stream=stream)
        return self.settle()

    def settle(self) -> list[Event]:
        events: list[Event] = []
        while found := next(self._proposals(), None):  # one decision after another, as a partition takes them
            stream, proposal = found
            outcomes = self.tell(*proposal.events, role="dispatcher", stream=stream)
            assert set(outcomes) == {Outcome.APPLIED}, (proposal, outcomes)
            events += proposal.events
            shrink(self.stream)
        self.written += events
        return events

    def overdue(self, now_ms: int) -> list[Event]:
        aggregate = AGGREGATES.of(self.stream)
        assert aggregate is not None
        self.next_offset += max(0, now_ms - self.now_ms)
        for proposal in aggregate.due(self.stream, now_ms):
            self.tell(*proposal.events, role="dispatcher")
        return self.settle()

    def _proposals(self) -> Iterator[tuple[str, Proposal]]:
        for stream in list(self.streams.by_id.values()):
            for proposal in react(stream, self.capabilities, AGGREGATES, self.index):
                yield stream.stream_id, proposal
            yield from stream_commands.pending(stream, self.streams.find, AGGREGATES, EVENTS)

    def place(self, name: str) -> Json:
        return self.place_in(STREAM, f"{STREAM}.{name}")

    def place_in(self, stream: str, task_id: str) -> Json:
        if self.streams.by_id[stream].tasks[task_id].state is TaskState.ACTIVE:
            return {"task_id": task_id, "attempt": 1, "placement": 1, "incarnation": "i-1"}
        return place(self, task_id, stream)

    def finish(
        self, name: str, result: Json | None = None, end: AttemptEnd = AttemptEnd.FINISHED, **artifacts: str
    ) -> list[Event]:
        return self.end_in(STREAM, f"{STREAM}.{name}", result, end, artifacts)

    def end_in(
        self,
        stream: str,
        task_id: str,
        result: Json | None = None,
        end: AttemptEnd = AttemptEnd.FINISHED,
        artifacts: Mapping[str, str] = NOTHING,
        digest: str = DIGEST,
    ) -> list[Event]:
        token = self.place_in(stream, task_id)
        for number, (artifact, kind) in enumerate(artifacts.items(), 1):
            about = {"number": number, "name": artifact, "version": 1, "kind": kind}
            where = {"uri": f"store:sha256/{digest}", "sha256": digest, "size_bytes": 8}
            saved = ArtifactSaved.model_validate({**token, **about, **where})
            self.tell(saved, role="worker", stream=stream)
        end_attempt(self, token, end, result, stream)
        return self.settle()


def body_of(*steps: Json, parameters: Json | None, schemas: Json | None, **fields: Any) -> Json:
    """Returns the body of a command that starts a run; `schemas` are those of its parameters."""
    pipeline = {"steps": list(steps), "parameters": schemas or {}, **fields}
    return {"pipeline": pipeline, "parameters": parameters or {}}


def started(*steps: Json, parameters: Any = None, schemas: Any = None, **fields: Any) -> RunLog:
    log = RunLog()
    body = body_of(*steps, parameters=parameters, schemas=schemas, **fields)
    log.command(StartPipelineRun.wire_type(), body)
    refused = [event for event in log.written if isinstance(event, CommandRefused)]
    assert refused == [], refused
    return log


def refusal(*steps: Json, parameters: Any = None, schemas: Any = None, **fields: Any) -> list[Any]:
    log = RunLog()
    body = body_of(*steps, parameters=parameters, schemas=schemas, **fields)
    (event,) = log.command(StartPipelineRun.wire_type(), body)
    assert isinstance(event, CommandRefused)
    return [(problem.code, problem.path) for problem in event.problems]
