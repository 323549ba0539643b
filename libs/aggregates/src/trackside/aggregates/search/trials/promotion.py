"""Trials that continue other ones: from which checkpoint, and up to which step. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.search.messages import SearchSpec, TrialCheckpoint, TrialSuggested
from trackside.aggregates.search.space.promoting_options import BUDGET_PARAMETER, STARTS, is_promoting
from trackside.aggregates.search.state import Search
from trackside.contracts.tasks.artifacts import CheckpointReference
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState


@dataclass(frozen=True, slots=True)
class Start:
    """Where a trial begins and ends: the trial whose checkpoint it continues, and its step limit."""

    from_trial: int | None = None
    step_limit: int | None = None


AT_FIRST_STEP = Start()


def promotes(spec: SearchSpec) -> bool:
    """Returns whether the tuner of a search continues trials from the checkpoints of others."""
    return not spec.tuner.remote and is_promoting(spec.tuner.name, spec.tuner.options)


def budget_parameter(spec: SearchSpec) -> str:
    """Returns the parameter that tells a task how many steps it has; empty where a step limit does."""
    name = spec.tuner.options.get(BUDGET_PARAMETER, "") if promotes(spec) else ""
    return name if isinstance(name, str) else ""


def start_of_others(spec: SearchSpec) -> Start:
    """Returns how a trial starts that the tuner has not suggested: with its largest budget, or one turn."""
    options = spec.tuner.options if promotes(spec) else {}
    starts: Any = options.get(STARTS) or ()
    if starts:
        return Start(step_limit=max(each.get("step_limit") or 0 for each in starts) or None)
    limit = options.get("max_resource", options.get("interval"))
    return Start(step_limit=limit) if isinstance(limit, int) else AT_FIRST_STEP


def continued(search: Search, trial: int | None) -> TrialCheckpoint | None:
    """Returns what the event of a suggestion says of the trial that it continues; None for none."""
    return None if trial is None else TrialCheckpoint(trial=trial, checkpoint=search.trials[trial].checkpoint)


def task_parameters(spec: SearchSpec, parameters: dict[str, Any], step_limit: int | None) -> dict[str, Any]:
    """Returns the parameters of a trial's task: those of the trial, and its budget where one has it."""
    name = budget_parameter(spec)
    return {**parameters, name: step_limit} if name and step_limit is not None else parameters


def is_continuable(search: Search, event: TrialSuggested) -> bool:
    """Returns whether the trial that a suggestion continues has ended with the checkpoint that it names.

    Its step limit must be higher than that of the trial.
    """
    if event.from_checkpoint is None:
        return True
    number = event.from_checkpoint.trial
    if number >= len(search.trials) or search.trials[number].ended_at < 0:
        return False
    before = search.trials[number]
    if before.step_limit is None or event.step_limit is None or event.step_limit <= before.step_limit:
        return False
    return before.checkpoint == event.from_checkpoint.checkpoint


def last_checkpoint(search: Search, task: Task) -> CheckpointReference | None:
    """Returns the checkpoint that a trial which ends may be continued from; None if it has none.

    It is the newest one that its task keeps: none beyond its step limit. A trial that has saved none is where
    it began.
    """
    if not promotes(search.spec):
        return None
    return task.checkpoints[-1].reference if task.checkpoints else task.checkpoint


def stops_at_limit(stream: Stream[Search]) -> Iterable[Proposal]:
    """Yields the stops of tasks that have reported the step before their limit."""
    search = stream.root
    if not promotes(search.spec):
        return
    for number in sorted(search.active):
        task = stream.tasks.get(search.task_of(number))
        if task is not None and _is_at_limit(task):
            reported_by = task.attempt.number
            stop = TaskStopRequested(task_id=task.task_id, reason="step_limit", attempt=reported_by)
            yield Proposal("stop task", [stop], task.reported_at, task.traceparent)


def _is_at_limit(task: Task) -> bool:
    limit = task.step_limit
    if limit is None or task.state is not TaskState.ACTIVE or task.stop_reason or task.has_final:
        return False
    return bool(task.reports) and task.reports[-1][0] >= limit - 1
