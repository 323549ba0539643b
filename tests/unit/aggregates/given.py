"""Published commands, and decisions of the dispatcher about a stream."""

from collections.abc import Iterable
from typing import Any, TypeVar

from tests.unit.domain.given import STREAM, Told, received
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import StartSearch
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.envelope.refusals import REFUSAL_CODES
from trackside.contracts.streams.commands import CommandReceived, CommandRefused
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskAccepted, TaskAssigned
from trackside.domain.commands.react import react as react_to
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.outcome import Outcome

E = TypeVar("E", bound=Event)
START = StartSearch.wire_type()
CAPABILITIES = Capabilities(
    frozenset({"digits", "faces"}),
    ("w1/cpu-0", "w1/gpu-1"),
    frozenset({"cpu-0", "w1/cpu-0", "gpu-1", "w1/gpu-1", "cuda:1", "w1/cuda:1"}),
)
SPEC: dict[str, Any] = {
    "task_type": "digits",
    "space": {"lr": {"type": "loguniform", "low": 0.001, "high": 0.1}},
    "max_trials": 20,
}


def published(at: int, command_type: str = START, body: Any = None, **changed: Any) -> CommandReceived:
    """Returns a command that was read at an offset of the commands topic; `c-<at>` is its id."""
    return received(at, command_type=command_type, body=SPEC if body is None else body, **changed)


def react(told: Told, capabilities: Capabilities = CAPABILITIES) -> list[Event]:
    """Lets the dispatcher decide once and appends its events, all of which must apply."""
    events: list[Event] = []
    for answer in react_to(told.stream, capabilities, AGGREGATES):
        assert set(told.tell(*answer.events, role="dispatcher")) == {Outcome.APPLIED}
        events += answer.events
    return events


def place(told: Told, task_id: str, stream: str = STREAM) -> Json:
    """Assigns a task a device, and lets its worker accept it; returns what names the placement."""
    token: Json = {"task_id": task_id, "attempt": 1, "placement": 1, "incarnation": "i-1"}
    placed = {"worker_id": "w1", "device_ids": ["cpu-0"], "seen": 0}
    told.tell(TaskAssigned.model_validate({**token, **placed}), stream=stream)
    told.tell(TaskAccepted.model_validate(token), stream=stream)
    return token


def end_attempt(
    told: Told, token: Json, end: AttemptEnd = AttemptEnd.FINISHED, result: Any = None, stream: str = STREAM
) -> None:
    ended = AttemptEnded.model_validate({**token, "end": end, "result": result})
    told.tell(ended, role="worker", stream=stream)


def answered(told: Told, command: CommandReceived, capabilities: Capabilities = CAPABILITIES) -> list[Event]:
    told.tell(command)
    return react(told, capabilities)


def of_kind(kind: type[E], events: Iterable[object]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def the(kind: type[E], events: Iterable[object]) -> E:
    """Returns the only event there is, which is of this kind."""
    (event,) = events
    assert isinstance(event, kind)
    return event


def problems(events: list[Event]) -> list[tuple[str, str]]:
    """Returns code and path of every problem of a refusal; the first one is that of the refusal itself."""
    (event,) = events
    assert isinstance(event, CommandRefused)
    found = [(problem.code, problem.path) for problem in event.problems]
    assert found[0] == (event.code, event.path)
    return found


def refusal(events: list[Event]) -> tuple[str, str, int]:
    (event,) = events
    assert isinstance(event, CommandRefused)
    assert event.code in REFUSAL_CODES or event.code.endswith("_range")
    return event.code, event.path, event.source.offset
