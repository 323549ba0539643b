"""Why a schedule can't wait for something, as far as that follows from what it says. Pure."""

from collections.abc import Iterator

from trackside.aggregates.pipeline.schedule.schedule_messages import ScheduleTrigger
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.tasks.tasks import AttemptEnd

_BOUNDED = ("best", "metric")
_OF_TASKS = ("task_ended", "artifact", "metric")
_ENDS = sorted(set(AttemptEnd) - {AttemptEnd.PREEMPTED})


def trigger_problems(on: ScheduleTrigger, path: str) -> Iterator[Problem]:
    """Yields what is missing, too much or impossible in what a schedule waits for, at a path."""
    if on.event in ("stage", "tag") and not on.of:
        yield _missing(f"{path}.of", f"missing: which {on.event}")
    if on.event in ("version", "observed", "best") and on.of:
        yield _unknown(f"{path}.of", f"{on.event!r} has no kinds; leave it out")
    if on.event == "task_ended" and on.of and on.of not in _ENDS:
        message = f"no task ends as {on.of!r}; known: {', '.join(_ENDS)}{nearest(on.of, _ENDS)}"
        yield Problem(code="unknown_value", path=f"{path}.of", message=message)
    if on.event not in _OF_TASKS and on.task is not None:
        yield _unknown(f"{path}.task", f"{on.event!r} is not of a task; a task has {', '.join(_OF_TASKS)}")
    if on.event != "artifact" and on.kind:
        yield _unknown(f"{path}.kind", "only an artifact has a kind: `event: artifact`")
    yield from _bounds_problems(on, path)


def _bounds_problems(on: ScheduleTrigger, path: str) -> Iterator[Problem]:
    bounded = not (on.above is None and on.below is None)
    if on.event not in _BOUNDED and bounded:
        message = "bounds are for a value: of a `metric`, or of the `best` trial of a search"
        yield _unknown(path, message)
    if on.event == "metric" and not bounded:
        message = "missing: `above` or `below`, the bounds that a value comes within"
        yield _missing(f"{path}.above", message)
    if on.above is not None and on.below is not None and on.above >= on.below:
        message = f"no value is over {on.above} and under {on.below}"
        yield Problem(code="unreachable_bounds", path=f"{path}.below", message=message)


def _missing(path: str, message: str) -> Problem:
    return Problem(code="missing_field", path=path, message=message)


def _unknown(path: str, message: str) -> Problem:
    return Problem(code="unknown_field", path=path, message=message)
