"""What the dispatcher decides about repeats."""

from collections.abc import Iterator

from tests.aggregates.repeat import messages
from tests.aggregates.repeat.evolve import end_of
from tests.aggregates.repeat.state import GOES_ON, Repeat, repeat_of
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.parts import Part
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import TaskStopRequested, TaskSubmitted
from trackside.domain.fleet.capabilities import type_problem
from trackside.domain.folding.aggregate import FindStream
from trackside.domain.folding.lookup import Lookup
from trackside.domain.proposal import Proposal
from trackside.domain.streams.outgoing import answer_of
from trackside.domain.streams.stream import Stream, check_not_begun, no_aggregate

MOST_TASKS = 100
"""How many runs one decision submits."""


def start(
    stream: Stream, wanted: messages.StartRepeat, command_id: str, lookup: Lookup
) -> list[Event] | tuple[Problem, ...]:
    """Begins a repeat, unless its stream is taken or no worker knows the type of its task."""
    found = (check_not_begun(stream), type_problem(lookup.capabilities, wanted.task_type, "$.task_type"))
    problems = tuple(problem for problem in found if problem is not None)
    spec = messages.RepeatSpec(**{name: getattr(wanted, name) for name in messages.RepeatSpec.model_fields})
    return problems or [messages.RepeatStarted(command_id=command_id, repeat=spec)]


def extend(
    stream: Stream, wanted: messages.ExtendRepeat, command_id: str, lookup: Lookup
) -> list[Event] | Problem:
    """Extends a repeat, unless it was stopped or is archived."""
    repeat = repeat_of(stream)
    if repeat is None:
        return no_aggregate(stream, "repeat")
    if repeat.status not in GOES_ON or repeat.archived:
        return _over(repeat)
    return [messages.RepeatExtended(command_id=command_id, times=repeat.times + wanted.more)]


def stop(
    stream: Stream, wanted: messages.StopRepeat, command_id: str, lookup: Lookup
) -> list[Event] | Problem:
    """Stops a repeat."""
    repeat = repeat_of(stream)
    if repeat is None:
        return no_aggregate(stream, "repeat")
    if repeat.over:
        return _over(repeat)
    if repeat.status is messages.RepeatStatus.STOPPING:
        return []
    return [messages.RepeatStopRequested(command_id=command_id, reason=wanted.reason)]


def lacking(stream: Stream[Repeat]) -> Iterator[Proposal]:
    """Yields what a repeat lacks now: its end, stops, or runs."""
    repeat, traceparent = stream.root, stream.traceparent
    if repeat.over:
        return
    end = None if repeat.open else end_of(repeat)
    if end is not None:
        ended = messages.RepeatEnded(status=end, finished=repeat.finished)
        yield Proposal("end repeat", [ended], repeat.changed_at, traceparent)
    elif repeat.status is messages.RepeatStatus.STOPPING:
        running = [name for name in sorted(repeat.open) if not stream.tasks[name].stop_reason]
        if running:
            stops = [TaskStopRequested(task_id=name, reason="user") for name in running]
            yield Proposal("stop runs", stops, repeat.stopped_at, traceparent)
    elif repeat.has_room:
        yield Proposal("submit runs", list(_runs(repeat)), repeat.changed_at, traceparent)


def extension_answered(stream: Stream[Repeat], find: FindStream) -> Iterator[Proposal]:
    """Yields how the repeat that this one extends has answered."""
    repeat = stream.root
    command = answer_of(stream, repeat.ended_at, find(repeat.spec.extends)) if repeat.asks else None
    if command is not None:
        refused = "" if command.answer is None else command.answer.code
        answered = messages.RepeatExtensionAnswered(asked_at=repeat.ended_at, refused=refused)
        at = command.publications[0].answered_at
        yield Proposal("note answer", [answered], at, stream.traceparent, repeat.spec.extends)


def due(stream: Stream[Repeat], now_ms: int) -> Iterator[Proposal]:
    """Yields the end of the time in which it can be extended."""
    repeat = stream.root
    if repeat.due_ms is not None and now_ms >= repeat.due_ms:
        archived = messages.RepeatArchived(due_ms=repeat.due_ms)
        yield Proposal("archive repeat", [archived], repeat.changed_at, stream.traceparent)


def _over(repeat: Repeat) -> Problem:
    message = f"repeat {repeat.repeat_id} is over: {repeat.status.value}"
    return Problem(code="already_terminal", path="$partitionkey", message=message)


def _runs(repeat: Repeat) -> Iterator[TaskSubmitted]:
    room = min(MOST_TASKS, repeat.spec.at_once - len(repeat.open), repeat.times - repeat.submitted)
    for number in range(repeat.submitted, repeat.submitted + room):
        yield TaskSubmitted(
            task_id=repeat.task_of(number),
            task_type=repeat.spec.task_type,
            parameters=repeat.spec.parameters | {"run": number},
            part=Part(kind="run", number=number),
            needs=Needs(**{name: getattr(repeat.spec, name) for name in Needs.model_fields}),
        )
