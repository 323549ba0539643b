"""What the dispatcher decides about runs: which steps begin and end, and when a run is over. Pure."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from trackside.aggregates.run.evolve import end_of
from trackside.aggregates.run.messages import RunArchived, RunEnded, RunStatus, RunTimeLimitReached
from trackside.aggregates.run.state import Run, RunStep
from trackside.aggregates.run.step_messages import (
    FAILURES,
    GateDecided,
    GateOpened,
    StepEnded,
    StepExpanded,
    StepReady,
    StepRepeated,
    StepResolved,
    StepState,
)
from trackside.aggregates.run.steps.begin import (
    Room,
    StepFailure,
    begin_repetition,
    begin_step,
    continue_step,
    failed_end,
    refuse_secrets,
)
from trackside.aggregates.run.steps.outputs import models_of, outputs_of
from trackside.aggregates.run.steps.progress import possible_ends, wait_after, worst_end
from trackside.aggregates.run.steps.values import RunNames
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.streams.children import ChildStopRequested
from trackside.contracts.tasks.tasks import TaskHeld, TaskReleased, TaskStopRequested
from trackside.domain.folding.lookup import Lookup
from trackside.domain.pipelines.definition import action_after
from trackside.domain.pipelines.expressions import ExpressionError, evaluate
from trackside.domain.pipelines.references import INDEX, MissingValueError
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import TaskState

MOST_ENDS = 100
"""How many steps one look at a run ends; each end is a decision with what follows from it."""
MOST_STOPS = 100
"""How many tasks one decision stops or holds."""
MOST_CAUSES = 100
"""How many of the steps for which a run fails its end names."""


def lacking(stream: Stream[Run], lookup: Lookup) -> Iterator[Proposal]:
    """Yields what a run lacks now: stops, ends of steps with what follows, steps that begin, its own end.

    Takes as long as it gives events, whatever the size of the run; only while items are still to be held it
    looks at all that are open.
    """
    run, traceparent = stream.root, stream.traceparent
    if run.over:
        return
    yield from _stops(stream)
    yield from _holds(stream)
    room = Room(run.concurrency - run.open, lookup)
    for name in list(islice(run.finished, MOST_ENDS)):
        room.renew()
        events = _after_items(run, name, room)
        yield from _apart(run, "end step", events, run.steps[name].changed_at, traceparent)
        if any(_stops_run(run, event) for event in events):
            return
    if run.status is RunStatus.RUNNING:
        yield from _begin(run, room, traceparent)
    if not run.unended and not run.checks:
        outputs = outputs_of(run)
        ended = RunEnded(
            revival=run.revival,
            status=end_of(run),
            causes=run.causes[:MOST_CAUSES],
            outputs=outputs,
            models=models_of(run, outputs),
        )
        yield Proposal("end run", [ended], run.changed_at, traceparent)


def _begin(run: Run, room: Room, traceparent: str) -> Iterator[Proposal]:
    """Yields further items of steps that have begun, and the steps that may begin now, in one decision."""
    room.renew()
    events: list[Event] = []
    for name in run.ready:
        if room.is_full or room.items <= 0:
            break
        if name not in room.claimed:
            events += continue_step(run, name, room)
    for name in run.frontier:
        if room.is_full:
            break
        if name not in room.claimed:
            events += begin_step(run, name, run.steps[name].wait, {}, room)
    yield from _apart(run, "begin step", events, run.changed_at, traceparent)


def _apart(
    run: Run, span: str, events: Sequence[Event], follows: int, traceparent: str
) -> Iterator[Proposal]:
    """Yields events as decisions, each of which counts whole or not at all, whatever was written before it.

    What begins a step goes with its values and items: nothing but that lets these count. A task needs room
    in the run, which a rival may have taken, so it is a decision of its own. All are appended together; what
    comes after a step that stops the run would not count.
    """
    first = 0
    for at in range(1, len(events) + 1):
        if at == len(events) or not _belongs_to(events[at - 1], events[at]):
            yield Proposal(span, events[first:at], follows, traceparent)
            first = at
            if _stops_run(run, events[at - 1]):
                return


def _belongs_to(before: Event, event: Event) -> bool:
    """Returns whether an event counts wherever the one before it does: both are of a step's beginning."""
    kinds = (StepResolved, StepExpanded, GateOpened, StepEnded)
    begins = isinstance(before, StepReady | StepResolved | StepExpanded)
    return begins and isinstance(event, kinds) and getattr(before, "step", "") == event.step


def _stops_run(run: Run, event: Event) -> bool:
    """Returns whether an event is the end of a step at which its run is stopped."""
    if not isinstance(event, StepEnded):
        return False
    spec = run.spec_of(event.step)
    return event.status in FAILURES and action_after(run.spec, spec, event.status.value) == "fail"


def _after_items(run: Run, name: str, room: Room) -> list[Event]:
    """Returns the end of a step whose items have ended and what follows from it, or its repetition.

    Nothing while its run is paused and it is to be repeated.
    """
    step, decided = run.steps[name], _end_of_step(run, name)
    if isinstance(decided, StepRepeated):
        if run.status is not RunStatus.RUNNING:
            return []
        try:
            return [decided, *begin_repetition(run, name, room)]
        except StepFailure as failure:
            own: Json = {"step": name, "generation": step.generation}
            decided = failed_end(own, failure.code, str(failure), step.ends)
    events: list[Event] = [decided]
    room.events -= 1
    state = decided.status
    if run.status is not RunStatus.RUNNING or _stops_run(run, decided):
        return events
    for dependent in step.dependents:
        waiting = run.steps[dependent]
        if room.is_full or waiting.state is not StepState.PENDING or dependent in room.claimed:
            continue
        wait = wait_after(run, dependent, waiting.wait, name, state)
        if wait.decided and not waiting.wait.decided:
            events += begin_step(run, dependent, wait, {name: state}, room)
    return events


def _end_of_step(run: Run, name: str) -> StepEnded | StepRepeated:
    """Returns how a step whose items have ended ends, or that it is repeated."""
    spec, step = run.spec_of(name), run.steps[name]
    own: Json = {"step": name, "generation": step.generation}
    ends = step.ends if run.has_items(name) else {}
    possible = possible_ends(run, name)
    value: Any = None
    try:
        if len(possible) == 1:
            (state,) = possible
        elif spec.repeat is not None:
            value = evaluate(spec.repeat.until, RunNames(run, {}, _last(step)))
            refuse_secrets({"until": value})
            if not value and run.stopping:
                return StepEnded(**own, status=StepState.ABORTED, ends=ends, value=value)
            if not value and step.count < spec.repeat.times:
                return StepRepeated(**own, index=step.count, value=value)
            if not value:
                message = f"{spec.repeat.until} does not hold after {step.count} times"
                return failed_end(own, "repeat_limit", message, ends)
            state = StepState.SUCCEEDED
        else:
            value = evaluate(spec.collect, RunNames(run, {}, _counts(step)))
            refuse_secrets({"collect": value})
            worst = worst_end(step)
            failed = StepState.FAILED if worst is StepState.SUCCEEDED else worst
            state = StepState.SUCCEEDED if value else failed
    except MissingValueError as error:
        return failed_end(own, "ref_error", str(error), ends)
    except (ExpressionError, StepFailure) as error:
        return failed_end(own, error.code, str(error), ends)
    kind = step.kind if state is not StepState.SUCCEEDED else ""
    return StepEnded(**own, status=state, kind=kind, ends=ends, value=value)


def _last(step: RunStep) -> Json:
    """Returns what `until` knows besides the run: the last result and its index."""
    index = step.count - 1
    return {"result": step.outputs[index].result, INDEX: index}


_ITEM_ENDS = sorted({StepState.SUCCEEDED, *FAILURES})


def _counts(step: RunStep) -> Json:
    """Returns what `collect` knows besides the run: how the items have ended."""
    failed = len(step.unsuccessful)
    return {
        "succeeded": step.ended_items - failed,
        "failed": failed,
        "total": step.count,
        "states": dict.fromkeys(_ITEM_ENDS, 0) | step.ends,
    }


def _stops(stream: Stream[Run]) -> Iterator[Proposal]:
    """Yields the stops of items that were asked to end, and have not been sent one."""
    run = stream.root
    reason = "run_timeout" if run.status is RunStatus.TIMING_OUT else "user"
    reason = "run_failed" if run.status is RunStatus.FAILING else reason
    events: list[Event] = []
    follows = -1
    for name in run.ending:
        step = run.steps[name]
        for index in sorted(step.to_stop):
            item_id = run.item_id(name, index)
            task, child = stream.tasks.get(item_id), stream.children.get(item_id)
            if task is not None and task.state is not TaskState.ENDED and not task.stop_reason:
                events.append(TaskStopRequested(task_id=item_id, reason=reason))
            elif child is not None and child.open and not child.stopping:
                events.append(ChildStopRequested(child_id=item_id, reason=step.reason or reason))
            follows = max(follows, step.changed_at)
            if len(events) == MOST_STOPS:
                break
    for name, check_id in run.checks.items():
        task = stream.tasks.get(check_id)
        if (run.stopping or run.steps[name].over) and task is not None and not task.stop_reason:
            events.append(TaskStopRequested(task_id=check_id, reason=reason))
            follows = max(follows, run.steps[name].changed_at)
    after = max(follows, run.control_at)
    tasks = [event for event in events[:MOST_STOPS] if isinstance(event, TaskStopRequested)]
    if tasks:
        yield Proposal("stop steps", tasks, after, stream.traceparent)
    for event in events[:MOST_STOPS]:
        if isinstance(event, ChildStopRequested):  # alone: others count, too, if this child has ended
            yield Proposal("stop steps", [event], after, stream.traceparent)


def _holds(stream: Stream[Run]) -> Iterator[Proposal]:
    """Yields holds of the tasks of a run that was paused with `return`, and their release after that."""
    run = stream.root
    hold = run.paused == "return"
    if run.stopping or (len(run.held) + len(run.settled) == len(stream.tasks) if hold else not run.held):
        return
    held = 0
    for task in stream.tasks.values() if hold else (stream.tasks[task_id] for task_id in run.held):
        if task.state is TaskState.ENDED or task.stop_reason or task.held is hold:
            continue
        event: Event = TaskReleased(task_id=task.task_id, hold=task.holds)
        if hold:
            event = TaskHeld(task_id=task.task_id, hold=task.holds + 1)
        span = "hold task" if hold else "release task"
        yield Proposal(span, [event], run.control_at, stream.traceparent)
        held += 1
        if held == MOST_STOPS:
            break


def next_due_ms(run: Run) -> int | None:
    """Returns when its next time limit is reached: of the run, a gate, or for archiving it."""
    gates = (gate.due_ms for name in run.open_gates if (gate := run.steps[name].gate) is not None)
    found = [due_ms for due_ms in (run.due_ms, *gates) if due_ms is not None]
    return min(found, default=None)


def due(stream: Stream[Run], now_ms: int) -> Iterator[Proposal]:
    """Yields what follows from the time limits that are reached."""
    run, traceparent = stream.root, stream.traceparent
    if run.due_ms is not None and now_ms >= run.due_ms:
        reached = RunArchived(due_ms=run.due_ms) if run.over else RunTimeLimitReached(due_ms=run.due_ms)
        yield Proposal("reach time limit", [reached], run.changed_at, traceparent)
    for name in list(run.open_gates):
        step = run.steps[name]
        due_ms = None if step.gate is None else step.gate.due_ms
        if due_ms is not None and now_ms >= due_ms:
            expired = GateDecided(step=name, generation=step.generation, decision="expired", due_ms=due_ms)
            yield Proposal("expire gate", [expired], step.changed_at, traceparent)
