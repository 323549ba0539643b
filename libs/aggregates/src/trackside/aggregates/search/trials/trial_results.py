"""How a trial ends whose task has ended: its state, and what it is judged by. Pure."""

from pydantic import TypeAdapter

from trackside.aggregates.search.advice.advice import assessor_is_given_up
from trackside.aggregates.search.messages import SearchSpec, TrialEnded, TrialStatus
from trackside.aggregates.search.state import Search
from trackside.aggregates.search.trials.objectives import names_of, values_of
from trackside.contracts.tasks.tasks import AttemptEnd, NonFinite
from trackside.domain.tasks.task import Task

NON_FINITE: TypeAdapter[NonFinite] = TypeAdapter(NonFinite)


def trial_end(task: Task) -> tuple[TrialStatus, float | None]:
    """Returns the state and the value of a trial whose task has ended, or asks for another one.

    The value is the FINAL one, else the last PERIODICAL one; a trial that failed has none. One that was
    stopped after its FINAL value, or at its step limit, has done what it was for.
    """
    last = task.reports[-1][1] if task.reports else None
    match AttemptEnd.FINISHED if task.asks else task.end:
        case AttemptEnd.FINISHED:
            return TrialStatus.SUCCEEDED, task.final if task.has_final else last
        case AttemptEnd.CANCELLED if task.has_final:
            return TrialStatus.SUCCEEDED, task.final
        case _ if task.stop_reason == "step_limit" and task.reports:
            return TrialStatus.SUCCEEDED, last
        case AttemptEnd.CANCELLED if task.stop_reason in ("assessor", "max_trial_duration"):
            return TrialStatus.EARLY_STOPPED, last
        case AttemptEnd.CANCELLED if task.stop_reason == "user":
            return TrialStatus.USER_CANCELED, None
        case AttemptEnd.CANCELLED:
            return TrialStatus.SYS_CANCELED, None
        case _:
            return TrialStatus.FAILED, None


def awaits_verdict(search: Search, task: Task) -> bool:
    """Returns whether the end of a trial is decided by its assessor, which reads all of its reports before.

    Else it would depend on which is faster, the assessor with the last report or the task with its end.
    """
    if search.spec.assessor is None or assessor_is_given_up(search) or not task.reports:
        return False
    return task.asks or task.end is AttemptEnd.FINISHED or task.stop_reason in ("assessor", "step_limit")


def trial_ended(spec: SearchSpec, number: int, task: Task) -> TrialEnded:
    """Returns the event of a trial that is over: its state, and its value for each objective.

    A trial that said numbers, but not those that the search asks for, has failed whatever its task did.
    """
    status, value = trial_end(task)
    ended = TrialEnded(trial=number, status=status, value=value)
    if status not in (TrialStatus.SUCCEEDED, TrialStatus.EARLY_STOPPED):
        return ended
    deciding = NON_FINITE.validate_python(task.non_finite) if task.non_finite else value
    if deciding is None and not task.others:
        return ended
    names = names_of(spec)
    values = values_of(names, deciding, task.others)
    missing = [name for name, found in zip(names, values, strict=True) if found is None]
    first = values[0]
    return TrialEnded(
        trial=number,
        status=TrialStatus.FAILED if missing and status is TrialStatus.SUCCEEDED else status,
        value=first if isinstance(first, float) else None,
        non_finite=first if isinstance(first, str) else None,
        values=values if len(names) > 1 else [],
        missing=missing,
    )
