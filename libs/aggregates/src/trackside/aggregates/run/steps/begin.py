"""How the dispatcher begins steps: readiness, values, items, and tasks or children for these. Pure."""

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from trackside.aggregates.run.state import Run, StepWait
from trackside.aggregates.run.step_messages import (
    GateOpened,
    StepCacheMissed,
    StepEnded,
    StepError,
    StepExpanded,
    StepReady,
    StepResolved,
    StepSkipped,
    StepState,
)
from trackside.aggregates.run.steps.cache import look_up
from trackside.aggregates.run.steps.values import (
    FindRun,
    RunNames,
    States,
    fill,
    has_references,
    resolve_step,
)
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.envelope.parts import Part
from trackside.contracts.envelope.redaction import may_have_secret
from trackside.contracts.envelope.refusals import json_path
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES
from trackside.contracts.streams.children import ChildRequested
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.contracts.wire.secret_search import secrets_in
from trackside.domain.folding.lookup import NO_LOOKUP, Lookup
from trackside.domain.pipelines.definition import CHILD, GATE, MAX_ITEMS, STEP, StepSpec, kind_of, needs_of
from trackside.domain.pipelines.expressions import ExpressionError, evaluate
from trackside.domain.pipelines.references import MissingValueError

MOST_EVENTS = 100
"""How many events one decision has, so that it stays well within one append."""
MOST_BYTES = MAX_BATCH_BYTES // 4
"""How much the values, items and parameters of one decision take, except those of its first task."""
MOST_VALUE_BYTES = MAX_BATCH_BYTES * 3 // 8
"""How much the values of a step's references may take; with its items, they fit one decision."""
MOST_ITEM_BYTES = MAX_BATCH_BYTES // 2
"""How much the items of a step may take, and the parameters of a task or the body of a child."""

_IS_SECRET = (
    "looks like a secret, which is not repeated; where it comes from, name one of the worker's host instead: "
    '{"secret": "NAME"}'
)
_NeedsByQueue = dict[str | None, Needs]


@dataclass
class Room:
    """What may still begin while a run is looked at: items, and events of the decision that is made."""

    items: int
    """How many items of all steps may begin."""
    lookup: Lookup = NO_LOOKUP
    """What the decision may read besides its run."""
    events: int = MOST_EVENTS
    """How many events the decision may still have."""
    bytes: int = MOST_BYTES
    """How much they may still take."""
    claimed: set[str] = field(default_factory=set)
    """The steps that a decision begins, or skips, already."""

    @property
    def is_full(self) -> bool:
        """Returns whether the decision has as much as it may."""
        return self.events <= 0 or self.bytes <= 0

    def renew(self) -> None:
        """Makes room for another decision."""
        self.events, self.bytes = MOST_EVENTS, MOST_BYTES


class StepFailure(Exception):
    """A step can't begin: it ends as failed, and nothing else does."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class _Begun:
    """What is known of a step before its events are folded."""

    values: Json
    items: list[Any] | None
    count: int
    first: int
    """How many items have begun."""


def begin_step(run: Run, name: str, wait: StepWait, states: States, room: Room) -> list[Event]:
    """Returns what becomes of a pending step whose needs are decided: it is skipped, fails, or begins.

    `states` are those of steps that end in the same decision.
    """
    room.claimed.add(name)
    spec, step = run.spec_of(name), run.steps[name]
    own: Json = {"step": name, "generation": step.generation}
    room.events -= 1
    if wait.blocked_by:
        return [StepSkipped(**own, by="upstream", cause=wait.blocked_by)]
    events: list[Event] = []
    try:
        value = _condition(run, spec, states)
        refuse_secrets({"when": value})
        if spec.when and not value:
            return [StepSkipped(**own, by="when", expression=spec.when, value=value)]
        events.append(StepReady(**own, value=value))
        events += _opened(run, name, states, room)
    except StepFailure as failure:
        if not events:
            events.append(StepReady(**own))
        events.append(failed_end(own, failure.code, str(failure)))
    return events


def continue_step(run: Run, name: str, room: Room) -> list[Event]:
    """Returns what a step that is ready, or has items to begin, does next."""
    step = run.steps[name]
    own: Json = {"step": name, "generation": step.generation}
    room.claimed.add(name)
    try:
        return _opened(run, name, {}, room)
    except StepFailure as failure:
        return [] if step.begun else [failed_end(own, failure.code, str(failure))]


def begin_repetition(run: Run, name: str, room: Room) -> list[Event]:
    """Returns the task or child of a step that is repeated in the same decision. Raises StepFailure."""
    step = run.steps[name]
    return _items(run, name, _Begun(step.resolved or {}, None, step.count + 1, step.begun), room)


def _condition(run: Run, spec: StepSpec, states: States) -> Any:
    if not spec.when:
        return None
    try:
        return evaluate(spec.when, RunNames(run, states))
    except MissingValueError as error:
        raise StepFailure("ref_error", f"when: {error}") from error
    except ExpressionError as error:
        raise StepFailure(error.code, f"when: {error}") from error


def failed_end(own: Json, code: str, message: str, ends: dict[str, int] | None = None) -> StepEnded:
    """Returns the end of a step that fails of an error of its own; `own` are its name and generation."""
    error = StepError(code=code, message=message[:2_000])
    return StepEnded(**own, status=StepState.FAILED, kind=code, ends=ends or {}, error=error)


def refuse_secrets(found: Event | Json) -> None:
    """Raises StepFailure if what is to be in the log looks like a secret with its values filled in."""
    octets = to_json(found)
    place = next(secrets_in(from_json(octets)), None) if may_have_secret(octets) else None
    if place is not None:
        message = f"{json_path(place)} {_IS_SECRET}"
        raise StepFailure("secret_suspected", message)


def _opened(run: Run, name: str, states: States, room: Room) -> list[Event]:
    """Returns the events with which a step goes on once it is ready, as far as they are not there."""
    spec, step = run.spec_of(name), run.steps[name]
    own: Json = {"step": name, "generation": step.generation}
    if kind_of(spec) == GATE:
        return _gate(spec, own) if step.gate is None else []
    events: list[Event] = []
    values, items = step.resolved, step.items
    if values is None:
        values = {}
        if not step.begun and items is None and has_references(run, name):
            values, sources = _values(run, name, states, room.lookup.find)
            events.append(StepResolved(**own, values=values, sources=sources))
            refuse_secrets(events[-1])
            room.bytes -= len(to_json(values))
    count = step.count if step.state is not StepState.PENDING or step.again is not None else 1
    if spec.each is not None and items is None:
        items = _expanded(run, name, values)
        events.append(StepExpanded(**own, items=items))
        refuse_secrets(events[-1])
        room.bytes -= len(to_json(items))
        count = len(items)
    room.events -= len(events)
    if spec.cache is not None and not step.cache_parts:
        task = _task(run, name, 0, values, None, {})
        refuse_secrets(task)
        if step.state is StepState.PENDING:
            return events  # its age limit counts from when it is ready, by the clock of the log
        found = look_up(run, name, task, room.lookup)
        room.events -= len(found)
        room.bytes -= sum(len(to_json(event)) for event in found)
        events += found
        if not found or not isinstance(found[-1], StepCacheMissed):
            return events
    return events + _items(run, name, _Begun(values, items, count, step.begun), room)


def _gate(spec: StepSpec, own: Json) -> list[Event]:
    gate = spec.gate
    assert gate is not None
    return [GateOpened(**own, message=gate.message, timeout_s=gate.timeout_s)]


def _values(run: Run, name: str, states: States, find: FindRun) -> tuple[Json, dict[str, str]]:
    try:
        values, sources = resolve_step(run, name, states, find)
    except MissingValueError as error:
        raise StepFailure("ref_error", str(error)) from error
    if (size := len(to_json(values))) > MOST_VALUE_BYTES:
        message = f"the values of its references take {size:,} bytes, the limit is {MOST_VALUE_BYTES:,}"
        raise StepFailure("values_too_large", message)
    return values, sources


def _expanded(run: Run, name: str, values: Json) -> list[Any]:
    items = _fill(run.spec_of(name).each, values)
    if not isinstance(items, list):
        raise StepFailure("bad_items", f"each is {type(items).__name__}, expected a list")
    if len(items) > MAX_ITEMS:
        message = f"each has {len(items):,} items, at most {MAX_ITEMS:,} are allowed"
        raise StepFailure("too_many_items", message)
    _check_size(items, "its items take")
    return items


def _items(run: Run, name: str, begun: _Begun, room: Room) -> list[Event]:
    """Returns the tasks or children of the next items, as many as there is room for.

    Before the first one begins all are made: one that can't be fails the step, which it may not do later.
    """
    step = run.steps[name]
    is_first = begun.first == 0 or begun.items is None
    todo = begun.count if step.again is None else len(step.again)
    wanted = min(todo - begun.first, run.at_once(name) - len(step.open), room.items)
    needs: _NeedsByQueue = {}
    events: list[Event] = []
    for position in range(begun.first, todo if is_first else begun.first + wanted):
        index = position if step.again is None else step.again[position]
        item = None if begun.items is None else begun.items[index]
        event = _submitted(run, name, index, begun.values, item, needs)
        size = _size_of(event)
        if is_first:
            refuse_secrets({"spec": event.body} if isinstance(event, ChildRequested) else event)
        if len(events) < wanted and not (events and room.is_full):
            room.bytes -= size
            room.events -= 1
            room.items -= 1
            events.append(event)
        elif not is_first:
            break
    return events


def _size_of(event: TaskSubmitted | ChildRequested) -> int:
    """Returns how much the parameters of a task, or the body of a child, take."""
    if isinstance(event, ChildRequested):
        return _check_size(event.body, "the body of its child takes")
    return _check_size(event.parameters, "the parameters of its task take")


def _check_size(value: Any, what: str) -> int:
    if (size := len(to_json(value))) > MOST_ITEM_BYTES:
        raise StepFailure("values_too_large", f"{what} {size:,} bytes, the limit is {MOST_ITEM_BYTES:,}")
    return size


def _submitted(
    run: Run, name: str, index: int, values: Json, item: Any, needs: _NeedsByQueue
) -> TaskSubmitted | ChildRequested:
    """Returns the task or child of an item; keeps in `needs` what is the same for many items."""
    spec = run.spec_of(name)
    if kind_of(spec) == CHILD:
        body = _fill(spec.spec or {}, values, item, index)
        return ChildRequested(child_id=run.item_id(name, index), kind=spec.kind or "", body=body)
    return _task(run, name, index, values, item, needs)


def _task(run: Run, name: str, index: int, values: Json, item: Any, needs: _NeedsByQueue) -> TaskSubmitted:
    spec = run.spec_of(name)
    queue = _fill(spec.queue, values, item, index)
    parameters = _fill(spec.parameters, values, item, index)
    try:
        if queue not in needs:
            needs[queue] = _needs_of(run, spec, queue)
        inputs = {
            own: ArtifactReference.model_validate(_fill(tree, values, item, index))
            for own, tree in spec.inputs.items()
        }
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StepFailure("ref_error", f"{where}: {first['msg']}") from error
    part = Part(kind=STEP, number=index, name=name)
    return TaskSubmitted(
        task_id=run.item_id(name, index),
        task_type=spec.task_type or "",
        parameters=parameters,
        part=part,
        needs=needs[queue],
        inputs=inputs,
    )


def _needs_of(run: Run, spec: StepSpec, queue: str | None) -> Needs:
    needs = needs_of(run.spec, spec, queue)
    return needs if run.priority is None else needs.model_copy(update={"priority": run.priority})


def _fill(tree: Any, values: Json, item: Any = None, index: int | None = None) -> Any:
    try:
        return fill(tree, values, item, index)
    except MissingValueError as error:
        raise StepFailure("ref_error", str(error)) from error
