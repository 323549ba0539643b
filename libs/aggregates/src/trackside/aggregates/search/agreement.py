"""INV-26 of searches: trials have parameters of the space, and tasks theirs; they end as their tasks did.

Nothing here is of the fold or of what decides: a fault there is not repeated.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from trackside.aggregates.search.messages import (
    SearchSpec,
    TrialAdded,
    TrialEnded,
    TrialStatus,
    TrialSuggested,
    UpdateSearch,
)
from trackside.aggregates.search.space import space as spaces
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.artifacts import CheckpointReference
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import Figure, MetricReported, TaskSubmitted
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import CheckedTask

_ROUNDING = 1e-9
_BUDGETS = frozenset({"interval", "max_resource", "starts"})
"""The options of tuners that give trials a limit of steps."""
LIMITS = ("concurrency", "max_trials", "max_duration_s", "max_trial_duration_s", "goal")
"""The limits of a search that people may change."""
_EARLY = TrialStatus.EARLY_STOPPED
STOPPED_BY = {"assessor": _EARLY, "max_trial_duration": _EARLY}
STOPPED_BY |= {"user": TrialStatus.USER_CANCELED}
"""How a trial ends whose task was stopped, by the reason; by another one it is SYS_CANCELED."""


def default_seed(stream_id: str) -> int:
    """Returns the seed of a search that was given none: the same each time that it is decided."""
    return int.from_bytes(blake2b(stream_id.encode(), digest_size=6).digest(), "big")


def has_budgets(spec: SearchSpec) -> bool:
    """Returns whether the tuner of a search may limit the steps of its trials."""
    return not spec.tuner.remote and not _BUDGETS.isdisjoint(spec.tuner.options)


def outside(space: Mapping[str, Any], given: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yields the names of parameters that a space doesn't have, that are missing, or not in their range."""
    for name in sorted(space.keys() ^ given.keys()):
        yield f"{path}{name}"
    for name in sorted(space.keys() & given.keys()):
        yield from _outside(space[name], given[name], f"{path}{name}")


def has_all(space: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Returns whether parameters are given for a whole space, also for branches that are chosen."""
    if space.keys() - given.keys():
        return False
    for name in space.keys() & given.keys():
        parameter, value = space[name], given[name]
        if isinstance(parameter, spaces.Choice) and isinstance(value, Mapping):
            named = (each for each in parameter.values if isinstance(each, spaces.Branch))
            branch = next((each for each in named if each.name == value.get(spaces.NAME)), None)
            if branch is not None and not has_all(branch.__pydantic_extra__, value):
                return False
    return True


def _outside(parameter: Any, value: Any, path: str) -> Iterator[str]:
    match parameter:
        case spaces.Constant():
            fits = value == parameter.value
        case spaces.Choice():
            branches = {each.name: each for each in parameter.values if isinstance(each, spaces.Branch)}
            named = value.get(spaces.NAME) if isinstance(value, Mapping) else None
            if (branch := branches.get(named) if isinstance(named, str) else None) is not None:
                inner = {name: each for name, each in value.items() if name != spaces.NAME}
                yield from outside(branch.__pydantic_extra__, inner, f"{path}.")
                return
            fits = value in parameter.values
        case spaces.RandInt():
            fits = isinstance(value, int) and parameter.low <= value < parameter.high
        case spaces.Normal() | spaces.QNormal():
            fits = isinstance(value, int | float)
        case spaces.LogNormal() | spaces.QLogNormal():
            fits = isinstance(value, int | float) and value >= 0
        case _:
            slack = _ROUNDING * max(abs(parameter.low), abs(parameter.high))
            is_number = isinstance(value, int | float)
            fits = is_number and parameter.low - slack <= value <= parameter.high + slack
    if not fits:
        yield path


def check_task(
    spec: SearchSpec, event: TaskSubmitted, suggested: TrialSuggested, record: Record, findings: Findings
) -> None:
    """Checks that the task of a trial is what the search asks for, with the parameters of the trial."""
    budget = budget_parameter(spec)
    expected = dict(suggested.parameters)
    if budget and suggested.step_limit is not None:
        expected[budget] = suggested.step_limit
    needs = {name: getattr(event.needs, name) for name in Needs.model_fields}
    wanted = {name: getattr(spec, name) for name in Needs.model_fields}
    keep = spec.keep_checkpoints
    findings.compare(record, "the parameters", event.parameters, expected)
    findings.compare(record, "the task type", event.task_type, spec.task_type)
    findings.compare(record, "the inputs", event.inputs, spec.inputs)
    findings.compare(record, "the step limit", event.step_limit, None if budget else suggested.step_limit)
    findings.compare(record, "estimates of", event.estimated_by, "task")
    if needs["keep_checkpoints"] != keep:  # older releases did not set the direction of the search
        wanted["keep_checkpoints"] = keep.model_copy(update={"direction": spec.direction})
    for name, value in needs.items():
        findings.compare(record, name, value, wanted[name])


def budget_parameter(spec: SearchSpec) -> str:
    """Returns the parameter that has the step limit of a trial, empty if none has."""
    name = spec.tuner.options.get("budget_parameter", "")
    return name if isinstance(name, str) else ""


def check_trial_end(
    spec: SearchSpec, task: CheckedTask, event: TrialEnded, record: Record, findings: Findings
) -> None:
    """Checks that a trial ends as its task did, with the value that it has reported."""
    finished = not task.has_ended or task.end == "finished"
    stopped = task.end == "cancelled"
    done = stopped and (task.has_final or (task.stop_reason == "step_limit" and task.said is not None))
    if finished or done:
        status = TrialStatus.SUCCEEDED
    elif stopped:
        status = STOPPED_BY.get(task.stop_reason, TrialStatus.SYS_CANCELED)
    else:
        status = TrialStatus.FAILED
    if spec.assessor is not None and status is TrialStatus.SUCCEEDED and event.status is _EARLY:
        status = _EARLY  # by a verdict that came after the last report
    lacks = status is TrialStatus.SUCCEEDED and event.status is TrialStatus.FAILED
    if lacks and (event.missing or event.value is None):
        status = TrialStatus.FAILED  # it has not reported what the search asks for
    findings.compare(record, "the status", event.status.value, status.value)
    if event.status is _EARLY and spec.assessor is not None:
        _check_stopped_value(spec, task, event, record, findings)
    elif event.status in (TrialStatus.SUCCEEDED, _EARLY) or event.missing:
        if task.trainings == 1:
            _check_values(spec, task.said, event, record, findings)
    else:
        findings.compare(record, "the value", event.non_finite or event.value, None)


def _check_stopped_value(
    spec: SearchSpec, task: CheckedTask, event: TrialEnded, record: Record, findings: Findings
) -> None:
    """Checks that the value of a trial that was stopped early is that of one of its reports."""
    name = spec.objectives[0].name if spec.objectives else "default"
    value, values = event.non_finite or event.value, set[Figure | None]()
    if value is None and task.trainings > 1:
        return  # the last training has reported nothing: what one before has reported is gone with it
    for said in task.reports.values():
        values |= {_value_of(name, said, is_first=True), said.non_finite or said.value}
    if value not in values and (value is not None or values):
        findings.differs(record, "the value", value, "that of a report")


def _check_values(
    spec: SearchSpec, said: MetricReported | None, event: TrialEnded, record: Record, findings: Findings
) -> None:
    names = [each.name for each in spec.objectives] or ["default"]
    values = [_value_of(name, said, is_first=not at) for at, name in enumerate(names)]
    missing = [name for name, value in zip(names, values, strict=True) if value is None]
    findings.compare(record, "the value", event.non_finite or event.value, values[0])
    if event.missing:
        findings.compare(record, "missing", event.missing, missing)
    findings.compare(record, "the values", event.values, values if len(names) > 1 and any(values) else [])


def _value_of(name: str, said: MetricReported | None, *, is_first: bool) -> Figure | None:
    """Returns what a report says of an objective: the number of its name, else the plain one of the first."""
    if said is None:
        return None
    if name in said.others:
        return said.others[name]
    return (said.non_finite or said.value) if is_first or name == "default" else None


def limits(spec: SearchSpec, command: UpdateSearch | None = None) -> dict[str, Any]:
    """Returns the limits of a search, with what a command changes."""
    before = {name: getattr(spec, name) for name in LIMITS}
    if command is None:
        return before
    given = {name: value for name in LIMITS if (value := getattr(command, name)) is not None}
    return before | dict.fromkeys(command.remove) | given


def of_checkpoint(checkpoint: CheckpointReference) -> tuple[str, int]:
    """Returns what a checkpoint is known by."""
    return checkpoint.sha256, checkpoint.step


def holds(suggested: TrialSuggested, added: TrialAdded) -> bool:
    """Returns whether a trial has the parameters a user gave it, and others only if some were missing."""
    if not added.partial:
        return suggested.parameters == added.parameters
    return _is_within(added.parameters, suggested.parameters)


def _is_within(given: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    return all(
        name in found
        and (
            _is_within(value, found[name])
            if isinstance(value, Mapping) and isinstance(found[name], Mapping)
            else value == found[name]
        )
        for name, value in given.items()
    )
