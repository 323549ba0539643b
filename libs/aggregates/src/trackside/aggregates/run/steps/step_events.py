"""What the events of its steps do to a run: their guards."""

from collections.abc import Callable, Iterable
from typing import Any

from trackside.aggregates.run.messages import RunStatus
from trackside.aggregates.run.state import WORKING, OpenGate, Run, RunStep, StepOutput, taken_artifact
from trackside.aggregates.run.step_messages import (
    GateDecided,
    GateOpened,
    StepAbortRequested,
    StepCacheHit,
    StepCacheMissed,
    StepEnded,
    StepExpanded,
    StepReady,
    StepRepeated,
    StepResolved,
    StepSkipped,
    StepState,
)
from trackside.aggregates.run.steps.cache import inputs_of, is_expired, short_parts
from trackside.aggregates.run.steps.progress import end_step, note_work, possible_ends
from trackside.contracts.envelope.message import Message, Record
from trackside.domain.outcome import Outcome
from trackside.domain.pipelines.definition import GATE, kind_of

_GATE_ENDS = {
    "approved": StepState.SUCCEEDED,
    "rejected": StepState.FAILED,
    "expired": StepState.TIMED_OUT,
}


def _step_in(run: Run, name: str, generation: int, states: Iterable[StepState]) -> RunStep | Outcome:
    """Returns a step of the generation if it is in one of the states, else what becomes of its event."""
    step = run.steps.get(name)
    if step is None or run.over or generation > step.generation:
        return Outcome.OVERTAKEN
    if generation < step.generation or step.over:
        return Outcome.DUPLICATE
    return step if step.state in states else Outcome.OVERTAKEN


def _ready(run: Run, event: StepReady, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, (StepState.PENDING,))
    if isinstance(step, Outcome):
        return step
    if not step.wait.met or run.status is not RunStatus.RUNNING:
        return Outcome.OVERTAKEN
    step.state = StepState.READY
    step.ready_ms, step.changed_at = record.append_time_ms, record.offset
    if run.spec_of(event.step).each is None and step.again is None:
        step.count = 1
    run.frontier.pop(event.step, None)
    run.ready[event.step] = None
    return Outcome.APPLIED


def _resolved(run: Run, event: StepResolved, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, (StepState.READY,))
    if isinstance(step, Outcome):
        return step
    if step.resolved is not None:
        return Outcome.DUPLICATE
    step.resolved, step.sources, step.changed_at = event.values, event.sources, record.offset
    return Outcome.APPLIED


def _expanded(run: Run, event: StepExpanded, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, (StepState.READY,))
    if isinstance(step, Outcome):
        return step
    if run.spec_of(event.step).each is None or step.items is not None:
        return Outcome.DUPLICATE
    step.items, step.count, step.changed_at = event.items, len(event.items), record.offset
    note_work(run, event.step)
    return Outcome.APPLIED


def _repeated(run: Run, event: StepRepeated, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, WORKING)
    if isinstance(step, Outcome):
        return step
    rule = run.spec_of(event.step).repeat
    if event.index < step.count:
        return Outcome.DUPLICATE
    if rule is None or event.step not in run.finished or event.index != step.count or run.stopping:
        return Outcome.OVERTAKEN
    if step.unsuccessful or event.index >= rule.times or step.aborted:
        return Outcome.OVERTAKEN
    step.count += 1
    step.changed_at = record.offset
    del run.finished[event.step]
    note_work(run, event.step)
    return Outcome.APPLIED


def _skipped(run: Run, event: StepSkipped, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, (StepState.PENDING, StepState.READY))
    if isinstance(step, Outcome):
        return step
    if run.stopping or step.begun:
        return Outcome.OVERTAKEN
    allowed = {
        "upstream": bool(step.wait.blocked_by),
        "when": step.wait.met and step.state is StepState.PENDING,
        "operator": True,
    }
    if not allowed[event.by]:
        return Outcome.OVERTAKEN
    step.reason = event.reason
    end_step(run, event.step, StepState.OMITTED if event.by == "upstream" else StepState.SKIPPED, record)
    return Outcome.APPLIED


def _cached(run: Run, event: StepCacheHit, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, (StepState.READY,))
    if isinstance(step, Outcome):
        return step
    if step.cache_parts:
        return Outcome.DUPLICATE
    check, cache = step.check, run.spec_of(event.step).cache
    if run.status is not RunStatus.RUNNING or not run.use_cache or cache is None or cache.refresh:
        return Outcome.OVERTAKEN
    if is_expired(run, event.step, event.found):
        return Outcome.OVERTAKEN
    if event.artifacts and (check is None or not check.is_of(event.found) or check.missing != []):
        return Outcome.OVERTAKEN
    step.cache_key, step.cache_parts, step.made_ms = event.key, short_parts(event.parts), event.found.ended_ms
    artifacts = {name: taken_artifact(saved) for name, saved in event.artifacts.items()}
    step.outputs[0] = StepOutput(
        event.found.task, record.offset, event.result, artifacts, inputs_of(run, event.step)
    )
    run.cached[event.key] = event.step
    end_step(run, event.step, StepState.CACHED, record)
    return Outcome.APPLIED


def _missed(run: Run, event: StepCacheMissed, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, (StepState.READY,))
    if isinstance(step, Outcome):
        return step
    if step.cache_parts:
        return Outcome.DUPLICATE
    if run.status is not RunStatus.RUNNING or event.step in run.checks:
        return Outcome.OVERTAKEN
    if run.spec_of(event.step).cache is None:
        return Outcome.OVERTAKEN
    step.cache_key, step.cache_parts = event.key, short_parts(event.parts)
    step.changed_at = record.offset
    return Outcome.APPLIED


def _gate_opened(run: Run, event: GateOpened, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, (StepState.READY,))
    if isinstance(step, Outcome):
        return step
    if kind_of(run.spec_of(event.step)) != GATE or run.status is not RunStatus.RUNNING:
        return Outcome.OVERTAKEN
    step.gate = OpenGate(record.append_time_ms, event.timeout_s)
    step.state, step.changed_at = StepState.RUNNING, record.offset
    run.open_gates[event.step] = None
    run.ready.pop(event.step, None)
    return Outcome.APPLIED


def _gate_decided(run: Run, event: GateDecided, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, (StepState.RUNNING,))
    if isinstance(step, Outcome):
        return step
    gate = step.gate
    if gate is None or gate.decision:
        return Outcome.DUPLICATE
    due_ms = gate.due_ms
    late = due_ms is not None and record.append_time_ms >= due_ms
    expired = event.decision == "expired"
    if event.step not in run.open_gates or expired is not late or (expired and event.due_ms != due_ms):
        return Outcome.OVERTAKEN
    gate.decision, gate.actor, gate.reason = event.decision, event.actor, event.reason
    gate.inputs, gate.decided_ms = event.inputs, record.append_time_ms
    del run.open_gates[event.step]
    item = run.item_id(event.step, 0)
    step.outputs[0] = StepOutput(item, record.offset, event.inputs)
    step.begun = step.ended_items = 1
    step.changed_at = record.offset
    if event.decision != "approved":
        step.unsuccessful[0], step.kind = _GATE_ENDS[event.decision], event.decision
    run.finished[event.step] = None
    return Outcome.APPLIED


def _abort_requested(run: Run, event: StepAbortRequested, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, WORKING)
    if isinstance(step, Outcome):
        return step
    if event.request <= step.aborts:
        return Outcome.DUPLICATE
    if event.request != step.aborts + 1 or event.step in run.finished:
        return Outcome.OVERTAKEN
    if event.index is not None and event.index not in step.open:
        return Outcome.OVERTAKEN
    step.aborts, step.reason, step.changed_at = event.request, event.reason, record.offset
    run.ending[event.step] = None
    if event.index is None:
        step.aborted = True
        step.to_stop |= step.open - step.stopping
        run.open_gates.pop(event.step, None)
        note_work(run, event.step)
    elif event.index not in step.stopping:
        step.to_stop.add(event.index)
    return Outcome.APPLIED


def _step_ended(run: Run, event: StepEnded, record: Record) -> Outcome:
    step = _step_in(run, event.step, event.generation, WORKING)
    if isinstance(step, Outcome):
        return step
    own_error = event.error is not None and not step.begun and event.status is StepState.FAILED
    if event.step not in run.finished and not own_error:
        return Outcome.OVERTAKEN
    if not own_error and event.status not in possible_ends(run, event.step):
        return Outcome.OVERTAKEN
    step.error, step.kind = event.error, event.kind
    if step.cache_key and event.status is StepState.SUCCEEDED:
        run.cached[step.cache_key] = event.step
    end_step(run, event.step, event.status, record)
    return Outcome.APPLIED


HANDLERS: dict[type[Message], Callable[[Run, Any, Record], Outcome]] = {
    StepReady: _ready,
    StepResolved: _resolved,
    StepExpanded: _expanded,
    StepRepeated: _repeated,
    StepSkipped: _skipped,
    StepCacheHit: _cached,
    StepCacheMissed: _missed,
    GateOpened: _gate_opened,
    GateDecided: _gate_decided,
    StepAbortRequested: _abort_requested,
    StepEnded: _step_ended,
}
"""What folds each event of a step."""
