"""Mutants of the guards of what running tasks save, continue from and acknowledge."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from trackside.contracts.artifacts import ArtifactSaved, ArtifactsForgotten, TaskResumed
from trackside.contracts.instructions import InstructionAcknowledged, InstructionGiven, TaskReady
from trackside.contracts.message import Message, Record
from trackside.contracts.resources import ServicePolicy
from trackside.domain import fold, retries, task_artifacts, task_commands, task_events, task_instructions
from trackside.domain.outcome import Outcome
from trackside.domain.task import Attempt, Task, TaskState

Mutate = Callable[[pytest.MonkeyPatch], None]
Change = Callable[[Task, Any], None]


def _folds_after(kind: type[Message], change: Change) -> Mutate:
    """Returns a mutant that makes a task and an event such that a guard finds nothing wrong."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        folds = dict(task_events._FOLDS)
        honest = folds[kind]

        def lax(task: Task, event: Any, record: Record) -> Outcome:
            change(task, event)
            return honest(task, event, record)

        patch.setattr(task_events, "_FOLDS", folds | {kind: lax})

    return mutate


def _event_after(kind: type[Message], change: Callable[[Task, Any], dict[str, Any]]) -> Mutate:
    """Returns a mutant that folds an event as if it said what a guard expects."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        folds = dict(task_events._FOLDS)
        honest = folds[kind]

        def lax(task: Task, event: Any, record: Record) -> Outcome:
            event = event.model_copy(update=change(task, event))
            return honest(task, event, replace(record, message=event))

        patch.setattr(task_events, "_FOLDS", folds | {kind: lax})

    return mutate


def any_placement_runs(patch: pytest.MonkeyPatch) -> None:
    """What running tasks say is not compared with the placement that runs."""
    patch.setattr(Task, "runs", lambda task, *_: task.place is not None and task.state is TaskState.ACTIVE)


def a_placement_runs_before_it_is_accepted(patch: pytest.MonkeyPatch) -> None:
    """A placement may save and acknowledge that its worker has not accepted."""
    patch.setattr(Task, "runs", Task.has_placement)


def a_resume_counts_twice(task: Task, event: TaskResumed) -> None:
    if task.attempt.resumed is not None and not task.reports:
        task.attempt.resumed = None


def a_resume_counts_after_reports(task: Task, event: TaskResumed) -> None:
    if task.attempt.resumed is None and task.reports and event.requests == task.taken:
        task.reports, task.has_final = [], False


def any_checkpoint_puts_reports_back(patch: pytest.MonkeyPatch) -> None:
    """A training may continue from a checkpoint that the log does not know."""

    def lax(task: Task, event: TaskResumed) -> Outcome:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(task_artifacts, "candidates", lambda _: [event.checkpoint])
            return honest(task, event)

    honest = task_artifacts.resumed
    patch.setattr(task_artifacts, "resumed", lax)


def an_instruction_is_given_to_a_task_that_stops(patch: pytest.MonkeyPatch) -> None:
    honest = task_instructions.given

    def lax(task: Task, event: Any) -> Outcome:
        reason, task.stop_reason = task.stop_reason, ""
        try:
            return honest(task, event)
        finally:
            task.stop_reason = reason

    patch.setattr(task_instructions, "given", lax)


def an_old_instruction_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    honest = task_instructions.acknowledged

    def lax(task: Task, event: Any) -> Outcome:
        outcome = honest(task, event)
        if outcome is Outcome.OVERTAKEN and task.runs(event.attempt, event.placement, event.incarnation):
            return Outcome.APPLIED
        return outcome

    patch.setattr(task_instructions, "acknowledged", lax)


def any_task_is_ready(patch: pytest.MonkeyPatch) -> None:
    honest = task_instructions.ready

    def lax(task: Task, event: Any, record: Record) -> Outcome:
        needs = task.needs
        task.needs = needs.model_copy(update={"service": needs.service or ServicePolicy()})
        try:
            return honest(task, event, record)
        finally:
            task.needs = needs

    patch.setattr(task_events, "_FOLDS", dict(task_events._FOLDS) | {TaskReady: lax})


def a_service_waits_as_after_its_first_failure(patch: pytest.MonkeyPatch) -> None:
    def first(attempts: list[Attempt], task_id: str) -> int:
        return honest(attempts[-1:], task_id)

    honest = retries.service_wait_ms
    patch.setattr(retries, "service_wait_ms", first)


def a_service_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retries, "service_wait_ms", lambda *_: 0)


def what_is_needed_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def lax(_stream: object, _event: ArtifactsForgotten, _aggregates: object) -> Outcome:
        return Outcome.APPLIED

    patch.setattr(fold, "_forgotten", lax)
    patch.setattr(task_commands, "in_use", lambda _: {})


def _numbers(task: Task, event: ArtifactSaved) -> None:
    task.attempt.saved = min(task.attempt.saved, event.number - 1)


def _versions(task: Task, event: ArtifactSaved) -> None:
    known = task.artifacts.get(event.name)
    if known is not None and event.version <= known.version:
        known.version = event.version - 1


def _of_now(task: Task, event: Any) -> dict[str, Any]:
    return {"requests": task.taken}


def _of_this_training(task: Task, event: Any) -> dict[str, Any]:
    return {"interrupts": task.attempt.interrupted, "requests": task.taken}


def _next_instruction(task: Task, event: Any) -> dict[str, Any]:
    return {"number": 1 + (0 if task.instruction is None else task.instruction.number)}


def _acknowledged_again(task: Task, event: Any) -> None:
    task.acknowledged = min(task.acknowledged, event.number - 1)


def _ready_again(task: Task, event: Any) -> None:
    task.attempt.ready_number = min(task.attempt.ready_number, event.number - 1)


OF_RUNNING_TASKS: dict[str, tuple[str, Mutate]] = {
    "any placement may save and acknowledge": ("INV-21", any_placement_runs),
    "a placement saves before it is accepted": ("INV-21", a_placement_runs_before_it_is_accepted),
    "an artifact counts twice": ("INV-21", _folds_after(ArtifactSaved, _numbers)),
    "a version of an artifact counts twice": ("INV-21", _folds_after(ArtifactSaved, _versions)),
    "a checkpoint of another trial counts": ("INV-21", _event_after(ArtifactSaved, _of_now)),
    "a resume counts twice": ("INV-21", _folds_after(TaskResumed, a_resume_counts_twice)),
    "a resume counts after reports": ("INV-21", _folds_after(TaskResumed, a_resume_counts_after_reports)),
    "a resume of a training that is over counts": ("INV-21", _event_after(TaskResumed, _of_this_training)),
    "any checkpoint puts reports back": ("INV-21", any_checkpoint_puts_reports_back),
    "instructions are not counted": (
        "INV-21",
        _event_after(InstructionGiven, _next_instruction),
    ),
    "a task that stops gets an instruction": ("INV-21", an_instruction_is_given_to_a_task_that_stops),
    "an old instruction is acknowledged": ("INV-21", an_old_instruction_is_acknowledged),
    "an instruction is acknowledged twice": (
        "INV-21",
        _folds_after(InstructionAcknowledged, _acknowledged_again),
    ),
    "any task is ready": ("INV-21", any_task_is_ready),
    "a service is ready twice": ("INV-21", _folds_after(TaskReady, _ready_again)),
    "a service waits as after its first failure": ("INV-10", a_service_waits_as_after_its_first_failure),
    "a service does not wait": ("INV-10", a_service_does_not_wait),
    "an artifact that a task needs is forgotten": ("INV-21", what_is_needed_is_forgotten),
}
"""Descriptions, the invariant that must be violated, and the mutant."""
