"""What the dispatcher decides about batches: whose turn it is, and what is over. Pure."""

from collections.abc import Iterator, Mapping
from itertools import chain, islice

from trackside.aggregates.batch.messages import (
    GROUP,
    BatchEnded,
    BatchSpec,
    BatchStarted,
    BatchStatus,
    BatchStopRequested,
    GroupEnded,
    StopTasks,
    SubmitTasks,
    estimated_by,
    group_name,
    inputs_of,
    needs_of,
    task_name,
)
from trackside.aggregates.batch.state import OVER, Batch, batch_of
from trackside.contracts.envelope.ids import batch_task_id
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.parts import Part
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, Problem, nearest
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES
from trackside.contracts.streams.children import ChildRequested, ChildStopRequested, WantedChild
from trackside.contracts.tasks.resources import Needs, RetryPolicy
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested, TaskSubmitted
from trackside.domain.fleet.capabilities import Capabilities, device_problem, service_problem, type_problem
from trackside.domain.folding.lookup import Lookup
from trackside.domain.proposal import Proposal
from trackside.domain.streams.child import Child
from trackside.domain.streams.stream import Stream, check_not_begun, no_aggregate
from trackside.domain.tasks import task_reuse
from trackside.domain.tasks.task import Task, TaskState

MOST_TASKS = 100
"""How many tasks one decision submits or stops: with their needs they stay well within one append."""
MOST_INPUT_BYTES = MAX_BATCH_BYTES // 4
"""How much the inputs of the tasks take that one decision submits, except those of its first task."""


def start(
    stream: Stream, wanted: SubmitTasks, command_id: str, lookup: Lookup
) -> list[Event] | tuple[Problem, ...]:
    """Begins a batch, unless its stream is taken or it asks for what there is not; returns all problems."""
    batch = BatchSpec(**{name: getattr(wanted, name) for name in BatchSpec.model_fields})
    started = BatchStarted(command_id=command_id, batch=batch)
    capabilities = lookup.capabilities
    unknown = islice(chain(_unknown(wanted, capabilities), _not_services(wanted, capabilities)), MAX_PROBLEMS)
    found = (check_not_begun(stream), *unknown, _too_long(started))
    problems = tuple(problem for problem in found if problem is not None)
    return problems or [started]


def _too_long(started: BatchStarted) -> Problem | None:
    size = len(started.model_dump_json())
    if size <= MAX_BATCH_BYTES:
        return None
    message = (
        f"with all defaults the batch takes {size:,} bytes, the limit is {MAX_BATCH_BYTES:,}: "
        "say what tasks share once, in their group or in the batch"
    )
    return Problem(code="too_long", path="$.groups", message=message)


def stop(stream: Stream, wanted: StopTasks, command_id: str, lookup: Lookup) -> list[Event] | Problem:
    """Stops a batch, or one task of it; what is being stopped already is accepted and changes nothing."""
    batch = batch_of(stream)
    if batch is None:
        return no_aggregate(stream, "batch")
    if batch.status in OVER:
        message = f"batch {stream.stream_id} is over: {batch.status.value}"
        return Problem(code="already_terminal", path="$partitionkey", message=message)
    if wanted.task is not None:
        ids = (each for each in _ids(batch, wanted.task) if each in stream.children)
        child = stream.children.get(next(ids, ""))
        return _stop_task(batch, stream.tasks, wanted.task) if child is None else _stop_child(child, wanted)
    if batch.status is BatchStatus.STOPPING:
        return []
    return [BatchStopRequested(command_id=command_id, reason=wanted.reason)]


def children_of(wanted: SubmitTasks, batch_id: str) -> Iterator[WantedChild]:
    """Yields the children that a batch asks for."""
    for number, group in enumerate(wanted.groups):
        for at, child in enumerate(group.children):
            child_id = batch_task_id(batch_id, number, child.name)
            yield WantedChild(f"$.groups[{number}].children[{at}]", child_id, child.kind, child.spec)


def lacking(stream: Stream[Batch]) -> Iterator[Proposal]:
    """Yields what a batch lacks now: children, tasks, stops, the end of a group, its own end.

    Takes as long as it gives events, whatever the size of the batch; only while it is being stopped it
    looks at all its open tasks and children.
    """
    batch, tasks, traceparent = stream.root, stream.tasks, stream.traceparent
    for task in (tasks[task_id] for task_id in sorted(batch.asking)):
        if not task_reuse.is_stopping(task):
            yield task_reuse.withhold(task, "no_search")
    if batch.group == len(batch.spec.groups):
        ended = BatchEnded(status=BatchStatus.DONE)
        yield Proposal("end batch", [ended], batch.changed_at, traceparent)
    elif batch.status is BatchStatus.STOPPING:
        yield from _stopping(stream)
    elif batch.group_is_over:
        over = GroupEnded(group=batch.group, ends=dict(sorted(batch.ends.items())))
        yield Proposal("end group", [over], batch.changed_at, traceparent)
    elif batch.next_child is not None:
        yield Proposal("request child", [_next_child(batch, batch.next_child)], batch.changed_at, traceparent)
    elif events := list(_next_tasks(batch)):
        yield Proposal("submit tasks", events, batch.changed_at, traceparent)


def _next_child(batch: Batch, number: int) -> ChildRequested:
    child = batch.spec.groups[batch.group].children[number]
    child_id = batch_task_id(batch.batch_id, batch.group, child.name)
    return ChildRequested(child_id=child_id, kind=child.kind, body=child.spec)


def _next_tasks(batch: Batch) -> Iterator[TaskSubmitted]:
    first = batch.next_task
    if first is None:
        return
    group = batch.spec.groups[batch.group]
    room = min(MOST_TASKS, batch.room)
    left = MOST_INPUT_BYTES
    for number, task in enumerate(group.tasks[first : first + room], first):
        inputs = inputs_of(batch.spec, task)
        left -= sum(len(each.model_dump_json()) for each in inputs.values())
        if left < 0 and number > first:
            return
        name = task_name(task, number)
        needs = needs_of(batch.spec, group, task)
        yield TaskSubmitted(
            task_id=batch_task_id(batch.batch_id, batch.group, name),
            task_type=task.task_type,
            parameters=task.parameters,
            part=Part(kind=GROUP, number=batch.group, name=name),
            needs=needs,
            estimated_by=estimated_by(needs, task),
            inputs=inputs,
        )


def _stopping(stream: Stream[Batch]) -> Iterator[Proposal]:
    batch, tasks, traceparent = stream.root, stream.tasks, stream.traceparent
    if not batch.open and not batch.open_children:
        ended = BatchEnded(status=BatchStatus.STOPPED)
        yield Proposal("end batch", [ended], batch.changed_at, traceparent)
        return
    untold = sorted(task_id for task_id in batch.open if not tasks[task_id].stop_reason)[:MOST_TASKS]
    if untold:
        stops = [TaskStopRequested(task_id=task_id, reason="user") for task_id in untold]
        yield Proposal("stop tasks", stops, batch.stopped_at, traceparent)
    running = [child_id for child_id in sorted(batch.open_children) if not stream.children[child_id].stopping]
    if running:
        ends = [ChildStopRequested(child_id=child_id, reason=batch.stop_reason) for child_id in running]
        yield Proposal("stop children", ends, batch.stopped_at, traceparent)


def _stop_task(batch: Batch, tasks: Mapping[str, Task], name: str) -> list[Event] | Problem:
    known = (task_id for task_id in _ids(batch, name) if task_id in tasks or batch.has_settled(task_id))
    task_id = next(known, None)
    if task_id is None:
        return _no_task(batch, name)
    task = tasks.get(task_id)
    if task is None or task.state is TaskState.ENDED:
        end = batch.unfinished.get(task_id, AttemptEnd.FINISHED) if task is None else task.end
        message = f"task {task_id} is over: {'' if end is None else end.value}"
        return Problem(code="already_terminal", path="$.task", message=message)
    if task.stop_reason:
        return []
    return [TaskStopRequested(task_id=task_id, reason="user")]


def _ids(batch: Batch, name: str) -> Iterator[str]:
    """Yields which id a name may mean: itself; one in the group that runs now, then in those before."""
    yield name
    for number in range(min(batch.group, len(batch.spec.groups) - 1), -1, -1):
        yield batch_task_id(batch.batch_id, number, name)


def _stop_child(child: Child, wanted: StopTasks) -> list[Event] | Problem:
    if not child.open:
        message = f"{child.kind} {child.child_id} is over: {child.status}"
        return Problem(code="already_terminal", path="$.task", message=message)
    if child.stopping:
        return []
    return [ChildStopRequested(child_id=child.child_id, reason=wanted.reason or "user")]


def _no_task(batch: Batch, name: str) -> Problem:
    names: set[str] = set()
    for number, group in enumerate(batch.spec.groups):
        tasks = [task_name(task, at) for at, task in enumerate(group.tasks)]
        for own in (*tasks, *(child.name for child in group.children)):
            if name in (own, batch_task_id(batch.batch_id, number, own)):
                message = f"task {name!r} of {group_name(group, number)} has not had its turn; stop the batch"
                return Problem(code="unknown_task", path="$.task", message=message)
            names.add(own)
    message = f"batch {batch.batch_id} has no task {name!r}{nearest(name, names)}"
    return Problem(code="unknown_task", path="$.task", message=message)


def _unknown(wanted: BatchSpec, capabilities: Capabilities) -> Iterator[Problem]:
    """Yields which task types and devices no worker has, in the order of the command."""
    for path, is_device, name in _names(wanted):
        check = device_problem if is_device else type_problem
        problem = check(capabilities, name, path)
        if problem is not None:
            yield problem


def _not_services(wanted: BatchSpec, capabilities: Capabilities) -> Iterator[Problem]:
    """Yields which tasks are services and can't be, or the other way round."""
    for number, group in enumerate(wanted.groups):
        for at, task in enumerate(group.tasks):
            path = f"$.groups[{number}].tasks[{at}]"
            is_service = bool(task.service or wanted.service)
            problem = service_problem(capabilities, task.task_type, is_service, f"{path}.task_type")
            if problem is not None:
                yield problem
            if is_service and (limited := _limits(needs_of(wanted, group, task))):
                message = (
                    f"a service runs until it is stopped, and is tried again for ever: leave {limited} out, "
                    "for it and for its batch"
                )
                yield Problem(code="bad_service", path=f"{path}.service", message=message)


def _limits(needs: Needs) -> str:
    """Names what a service can't have, empty if there is nothing of it."""
    limits = [name for name in ("run_timeout_s", "queue_timeout_s") if getattr(needs, name) is not None]
    return " and ".join(limits + (["retry"] if needs.retry != RetryPolicy() else []))


def _names(wanted: BatchSpec) -> Iterator[tuple[str, bool, str]]:
    """Yields the task types and devices that a batch names: path, whether it is a device, and the name."""
    yield "$.resources.device", True, wanted.resources.device
    for number, group in enumerate(wanted.groups):
        place = f"$.groups[{number}]"
        yield f"{place}.device", True, group.device
        for at, task in enumerate(group.tasks):
            own = f"{place}.tasks[{at}]"
            yield f"{own}.task_type", False, task.task_type
            yield f"{own}.resources.device", True, "" if task.resources is None else task.resources.device
