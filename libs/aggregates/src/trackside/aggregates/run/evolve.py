"""What each event does to a run: the guards that every reader folds with."""

from collections.abc import Callable
from typing import Any

from trackside.aggregates.run.messages import (
    RunAbortRequested,
    RunArchived,
    RunEnded,
    RunPaused,
    RunResumed,
    RunRevived,
    RunStatus,
    RunTimeLimitReached,
    RunUpdated,
)
from trackside.aggregates.run.state import Run, RunStep
from trackside.aggregates.run.step_messages import FAILURES
from trackside.aggregates.run.steps import step_events
from trackside.aggregates.run.steps.progress import connect, stop
from trackside.contracts.envelope.message import Message, Record
from trackside.domain.outcome import Outcome


def evolve(run: Run, record: Record) -> Outcome:
    """Folds one of its events into the run; changes it only if it returns APPLIED."""
    handler = HANDLERS.get(type(record.message))
    if handler is None:
        return Outcome.DUPLICATE
    outcome = handler(run, record.message, record)
    if outcome is Outcome.APPLIED:
        run.changed_at = record.offset
    return outcome


def _abort_run(run: Run, event: RunAbortRequested, record: Record) -> Outcome:
    if run.over or run.stopping:
        return Outcome.OVERTAKEN
    run.stop_reason = event.reason or "user"
    stop(run, RunStatus.ABORTING, record)
    return Outcome.APPLIED


def _time_limit(run: Run, event: RunTimeLimitReached, record: Record) -> Outcome:
    if run.over or event.due_ms != run.due_ms or record.append_time_ms < event.due_ms:
        return Outcome.OVERTAKEN
    stop(run, RunStatus.TIMING_OUT, record)
    return Outcome.APPLIED


def _paused(run: Run, event: RunPaused, record: Record) -> Outcome:
    return _changed(run, event.change, record) or _set_paused(run, event.running)


def _resumed(run: Run, event: RunResumed, record: Record) -> Outcome:
    return _changed(run, event.change, record) or _set_paused(run, "")


def _changed(run: Run, change: int, record: Record) -> Outcome | None:
    """Counts a change; returns what becomes of its event if it is not the next one."""
    if change <= run.changes:
        return Outcome.DUPLICATE
    if change != run.changes + 1 or run.over or run.stopping:
        return Outcome.OVERTAKEN
    run.changes, run.control_at = change, record.offset
    return None


def _set_paused(run: Run, paused: str) -> Outcome:
    run.paused = paused
    run.status = RunStatus.PAUSED if paused else RunStatus.RUNNING
    return Outcome.APPLIED


def _updated(run: Run, event: RunUpdated, record: Record) -> Outcome:
    found = _changed(run, event.change, record)
    if found is not None:
        return found
    run.timeout_s = run.timeout_s if event.timeout_s is None else event.timeout_s
    run.concurrency = event.concurrency or run.concurrency
    run.priority = run.priority if event.priority is None else event.priority
    return Outcome.APPLIED


def _revived(run: Run, event: RunRevived, record: Record) -> Outcome:
    if event.revival <= run.revival:
        return Outcome.DUPLICATE
    if not run.over or event.revival != run.revival + 1 or set(event.reset) - run.steps.keys():
        return Outcome.OVERTAKEN
    run.revival, run.status, run.since_ms = event.revival, RunStatus.RUNNING, record.append_time_ms
    changed = {step.name: step for step in event.steps}
    steps = [changed.get(step.name, step) for step in run.spec.steps]
    run.spec = run.spec.model_copy(update={"steps": steps})
    run.control_at, run.ended_ms, run.stop_reason, run.paused = record.offset, 0, "", ""
    run.outputs, run.models = {}, []
    for name in event.reset:
        _reset(run, name, event.indexes.get(name), record.offset)
    run.causes = [name for name, step in run.steps.items() if _fails_run(run, name, step)]
    connect(run)
    return Outcome.APPLIED


def _fails_run(run: Run, name: str, step: RunStep) -> bool:
    """Returns whether a step has ended so that its run can't succeed, also while it was being stopped."""
    return step.state in FAILURES and not run.counts_as_success(name, step.state)


def _reset(run: Run, name: str, indexes: list[int] | None, offset: int) -> None:
    old = run.steps[name]
    new = RunStep(old.number, generation=run.revival, changed_at=offset)
    if indexes is not None:
        chosen = set(indexes)
        new.again, new.items, new.count = sorted(chosen), old.items, old.count
        new.resolved, new.sources = old.resolved, old.sources
        new.unsuccessful = {at: end for at, end in old.unsuccessful.items() if at not in chosen}
        new.outputs = {at: output for at, output in old.outputs.items() if at not in chosen}
        new.ended_items = old.ended_items - len(old.unsuccessful) + len(new.unsuccessful)
    run.steps[name] = new


def _ended(run: Run, event: RunEnded, record: Record) -> Outcome:
    if run.over or event.revival < run.revival:
        return Outcome.DUPLICATE
    if run.unended or run.checks or event.revival != run.revival or event.status is not end_of(run):
        return Outcome.OVERTAKEN
    run.status, run.ended_ms = event.status, record.append_time_ms
    run.outputs, run.models = event.outputs, event.models
    return Outcome.APPLIED


def end_of(run: Run) -> RunStatus:
    """Returns how a run none of whose steps is open ends."""
    stopped = {
        RunStatus.ABORTING: RunStatus.ABORTED,
        RunStatus.TIMING_OUT: RunStatus.TIMED_OUT,
        RunStatus.FAILING: RunStatus.FAILED,
    }
    return stopped.get(run.status, RunStatus.FAILED if run.causes else RunStatus.SUCCEEDED)


def _archived(run: Run, event: RunArchived, record: Record) -> Outcome:
    if not run.over:
        return Outcome.OVERTAKEN
    if event.due_ms is not None and (event.due_ms != run.due_ms or record.append_time_ms < event.due_ms):
        return Outcome.OVERTAKEN
    run.archived = True
    return Outcome.APPLIED


HANDLERS: dict[type[Message], Callable[[Run, Any, Record], Outcome]] = {
    **step_events.HANDLERS,
    RunAbortRequested: _abort_run,
    RunTimeLimitReached: _time_limit,
    RunPaused: _paused,
    RunResumed: _resumed,
    RunUpdated: _updated,
    RunRevived: _revived,
    RunEnded: _ended,
    RunArchived: _archived,
}
"""What folds each event of a run after its first."""
