"""Rows of runs, their steps and their gates."""

from collections.abc import Iterable

from trackside.aggregates.run.messages import (
    RunAbortRequested,
    RunArchived,
    RunEnded,
    RunPaused,
    RunResumed,
    RunRevived,
    RunStarted,
    RunTimeLimitReached,
    RunUpdated,
)
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.run.step_messages import (
    FAILURES,
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
)
from trackside.aggregates.run.steps.step_display import share_ended, shown_parameters
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.children import ChildEnded, ChildRequested
from trackside.domain.pipelines.compiling import needed, source_of
from trackside.domain.pipelines.definition import GATE, STEP, kind_of
from trackside.domain.rows.cells import json_text, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task_events import TaskEvent

_OF_ALL_STEPS = (RunStarted, RunAbortRequested, RunTimeLimitReached, RunRevived)
"""Events that may change every step."""
_OF_RUN = (*_OF_ALL_STEPS, RunPaused, RunResumed, RunUpdated, RunEnded, RunArchived)
_OF_STEP = (
    *(StepReady, StepResolved, StepExpanded, StepRepeated, StepCacheHit, StepCacheMissed, GateOpened),
    *(GateDecided, StepAbortRequested),
)
_ENDS_STEP = (StepEnded, StepSkipped)
"""Events that end a step, and may stop the run and so end others."""
_SHOWN_CAUSES = 100
"""How many of the steps for which a run fails its row names."""


def _has_stopped(run: Run, event: Event) -> bool:
    """Returns whether the event that was folded last has ended a step and so stopped its run."""
    return isinstance(event, _ENDS_STEP) and run.stopping and run.control_at == run.changed_at


class RunRows:
    """One row per run; its progress is in the rows of its steps."""

    table = Table(
        "runs",
        (
            *("run_id", "name", "status", "pipeline_id", "version", "number", "steps", "parameters"),
            *("outputs", "causes", "revival", "stop_reason", "started_ms", "due_ms", "ended_ms"),
            *("archived", "sha256", "spec"),
        ),
        key_width=1,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the run of an event about it; most events of steps and tasks don't change its row.

        The row has the whole definition, so it must not be written again for each step that ends.
        """
        run = run_of(stream)
        if run is None:
            return ()
        fails = isinstance(event, StepEnded) and event.status in FAILURES and len(run.causes) <= _SHOWN_CAUSES
        changed = isinstance(event, _OF_RUN) or fails or _has_stopped(run, event)
        return ((stream.stream_id,),) if changed else ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream's run, if it has one."""
        return () if run_of(stream) is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the run."""
        run = run_of(stream)
        assert run is not None
        origin = run.origin
        return (
            *key,
            without_nul(run.spec.name),
            run.status.value,
            None if origin is None else origin.pipeline,
            None if origin is None else origin.version,
            None if origin is None else origin.number,
            len(run.steps),
            json_text(run.parameters),
            json_text(run.outputs),
            json_text(run.causes[:_SHOWN_CAUSES]),
            run.revival,
            without_nul(run.stop_reason),
            run.started_ms,
            None if run.over else run.due_ms,
            time_or_null(run.ended_ms),
            run.archived,
            run.sha256,
            json_text(source_of(run.spec)),
        )


class StepRows:
    """One row per step of a run, in the order of its definition."""

    table = Table(
        "steps",
        (
            *("run_id", "step", "number", "kind", "what", "state", "generation", "needs", "stage", "weight"),
            *("share_ended",),
            *("items", "begun", "open", "ends", "end_kind", "resolved", "parameters"),
            *("error", "reason"),
            *("ready_ms", "ended_ms"),
        ),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the step of an event, or all of a run that was stopped or continued."""
        run = run_of(stream)
        if run is None:
            return ()
        if isinstance(event, _OF_ALL_STEPS) or _has_stopped(run, event):
            return self.keys(stream)
        if isinstance(event, (*_OF_STEP, *_ENDS_STEP)):
            return ((stream.stream_id, event.step),)
        if isinstance(event, TaskEvent):
            part = stream.tasks[event.task_id].part
            return () if part is None or part.kind != STEP else ((stream.stream_id, part.name),)
        if isinstance(event, ChildRequested | ChildEnded):
            found = run.item_of(event.child_id)
            return () if found is None else ((stream.stream_id, found[0]),)
        return ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all steps of the stream's run."""
        run = run_of(stream)
        return () if run is None else ((stream.stream_id, name) for name in run.steps)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a step."""
        run = run_of(stream)
        assert run is not None
        name = str(key[1])
        step, spec = run.steps[name], run.spec_of(name)
        return (
            *key,
            step.number + 1,
            kind_of(spec),
            spec.task_type or spec.kind or GATE,
            step.state.value,
            step.generation,
            json_text(needed(spec)),
            without_nul(spec.stage),
            spec.weight,
            share_ended(run, name),
            step.count,
            step.begun,
            len(step.open),
            json_text(step.ends if step.ended_items else {}),
            step.kind,
            json_text(step.resolved),
            json_text(shown_parameters(run, name)),
            json_text(step.error),
            without_nul(step.reason),
            time_or_null(step.ready_ms),
            time_or_null(step.ended_ms),
        )


class GateRows:
    """One row per gate that was opened, of its newest generation."""

    table = Table(
        "gates",
        (
            *("run_id", "step", "message", "form", "state", "actor", "inputs", "reason"),
            *("opened_ms", "due_ms", "decided_ms"),
        ),
        key_width=2,
        grouped=True,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the run of an event that opens, decides or closes gates."""
        run = run_of(stream)
        if run is None:
            return ()
        if isinstance(event, _OF_ALL_STEPS) or _has_stopped(run, event):
            names: Iterable[str] = run.steps
        else:
            names = (event.step,) if isinstance(event, (GateOpened, GateDecided, *_ENDS_STEP)) else ()
        opened = any(run.steps[name].gate is not None for name in names)
        return ((stream.stream_id,),) if opened else ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all gates of the stream's run that were opened."""
        run = run_of(stream)
        if run is None:
            return ()
        return ((stream.stream_id, name) for name, step in run.steps.items() if step.gate is not None)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a gate."""
        run = run_of(stream)
        assert run is not None
        step, spec = run.steps[str(key[1])], run.spec_of(str(key[1])).gate
        gate = step.gate
        assert gate is not None and spec is not None
        return (
            *key,
            without_nul(spec.message),
            json_text(spec.form),
            gate.decision or ("closed" if step.over else "open"),
            without_nul(gate.actor),
            json_text(gate.inputs),
            without_nul(gate.reason),
            gate.opened_ms,
            gate.opened_ms + int(gate.timeout_s * 1000) if gate.timeout_s is not None else None,
            time_or_null(gate.decided_ms),
        )
