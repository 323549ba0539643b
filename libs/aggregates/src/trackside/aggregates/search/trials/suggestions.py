"""The events that follow from answers of tuners and assessors, and when these have failed too often. Pure."""

from typing import Any

from trackside.aggregates.search.advice.advice import is_deadlocked
from trackside.aggregates.search.advice.advice_messages import (
    MESSAGE_MAX,
    TRACEBACK_MAX,
    AssessmentFailed,
    SuggestionDeferred,
    SuggestionFailed,
)
from trackside.aggregates.search.messages import TRIAL, SearchExhausted, SearchSpec, Suggester, TrialSuggested
from trackside.aggregates.search.state import Search
from trackside.aggregates.search.trials import promotion
from trackside.aggregates.search.trials.added_trials import names_outside
from trackside.aggregates.search.trials.promotion import Start
from trackside.contracts.envelope.ids import trial_task_id
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import TaskStopRequested, TaskSubmitted
from trackside.domain.tasks import task_reuse
from trackside.domain.tasks.task import Task

CHANCES = 3
"""How often a trial may fail to be drawn by chance, where that stands in for a tuner."""


def suggestion(
    search: Search,
    number: int,
    parameters: dict[str, Any],
    seen: int,
    source: Suggester = "algorithm",
    task: Task | None = None,
    start: Start | None = None,
) -> list[Event]:
    """Returns the events of a tuner's suggestion for trial `number`, asked at offset `seen`, or of a user's.

    `task` is one that waits for a trial and goes on with it; else it has one of its own. `start` is what a
    tuner that promotes trials says besides the parameters.
    """
    spec, part = search.spec, Part(kind=TRIAL, number=number)
    if start is None:
        start = promotion.start_of_others(spec)
    from_checkpoint = promotion.continued(search, start.from_trial)
    by_parameter = bool(promotion.budget_parameter(spec))
    outside = names_outside(spec, parameters) if source == "customized" else []
    suggested = TrialSuggested(
        trial=number,
        parameters=parameters,
        seen=seen,
        source=source,
        space_version=search.space_version,
        within="" if task is None else task.task_id,
        outside=outside,
        from_checkpoint=from_checkpoint,
        step_limit=start.step_limit,
    )
    if task is not None:
        return [suggested, task_reuse.continued(task, part, parameters)]
    return [
        suggested,
        TaskSubmitted(
            task_id=trial_task_id(search.search_id, number),
            task_type=spec.task_type,
            parameters=promotion.task_parameters(spec, parameters, start.step_limit),
            part=part,
            needs=_needs_of(spec),
            inputs=spec.inputs,
            checkpoint=None if from_checkpoint is None else from_checkpoint.checkpoint,
            step_limit=None if by_parameter else start.step_limit,
        ),
    ]


def _needs_of(spec: SearchSpec) -> Needs:
    """Returns what a trial needs: its best checkpoints are those of the best values for the search."""
    needs = spec.needs
    if spec.direction == needs.keep_checkpoints.direction:
        return needs
    keep = needs.keep_checkpoints.model_copy(update={"direction": spec.direction})
    return needs.model_copy(update={"keep_checkpoints": keep})


def exhausted(search: Search, seen: int) -> list[Event]:
    """Returns the event of a tuner that has nothing left to suggest, asked at offset `seen`."""
    return [SearchExhausted(trials=len(search.trials), seen=seen)]


def deferred(search: Search, number: int, seen: int) -> list[Event]:
    """Returns the event of a tuner that waits for the end of a trial; a failure if none is to come."""
    if is_deadlocked(search, seen):
        vain = "it waits for the end of a trial, and none runs"
        return failed(search, number, seen, "tuner_waits_in_vain", vain)
    return [SuggestionDeferred(trial=number, seen=seen)]


def failed(
    search: Search, number: int, seen: int, code: str, message: str, traceback: str = ""
) -> list[Event]:
    """Returns the event of a tuner that gave nothing of use for trial `number`."""
    return [
        SuggestionFailed(
            trial=number,
            failure=search.failures + 1,
            code=code,
            message=message[:MESSAGE_MAX],
            traceback=traceback[-TRACEBACK_MAX:],
            seen=seen,
        )
    ]


def assessment_failed(
    failure: tuple[int, int, int | None], code: str, message: str, traceback: str, seen: int
) -> list[Event]:
    """Returns the event of an assessor that failed: at which row, how often in a row, about which trial."""
    rows, in_a_row, trial = failure
    return [
        AssessmentFailed(
            rows=rows,
            failure=in_a_row,
            trial=trial,
            code=code,
            message=message[:MESSAGE_MAX],
            traceback=traceback[-TRACEBACK_MAX:],
            seen=seen,
        )
    ]


def is_for_chance(search: Search) -> bool:
    """Returns whether the next trial is to be drawn by chance, since its tuner has failed too often."""
    policy = search.spec.tuner.on_failure
    return policy.then == "random" and search.failures > policy.retries


def has_failed(search: Search) -> bool:
    """Returns whether a search can't go on: neither its tuner nor chance in its place gave the next trial."""
    policy = search.spec.tuner.on_failure
    tries = policy.retries + (CHANCES if policy.then == "random" else 0)
    return search.next_trial is not None and search.failures > tries


def early_stop(search: Search, trial: int, seen: int) -> list[Event]:
    """Returns the event of an assessor's verdict that a trial is hopeless."""
    return [TaskStopRequested(task_id=search.task_of(trial), reason="assessor", seen=seen)]
