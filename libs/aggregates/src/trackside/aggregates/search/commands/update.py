"""What a dispatcher answers to commands that change a search while it goes on: events, or why not. Pure."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from trackside.aggregates.search.messages import (
    AddTrial,
    ImportTrials,
    PastTrial,
    PauseSearch,
    RequestTrials,
    ResumeSearch,
    SearchPaused,
    SearchResumed,
    SearchSpaceUpdated,
    SearchStatus,
    SearchStopRequested,
    SearchUpdated,
    StopSearch,
    StopTrial,
    TrialAdded,
    TrialsImported,
    TrialsRequested,
    UpdateSearch,
    UpdateSearchSpace,
)
from trackside.aggregates.search.space.axes import axes_of, parameters_faults
from trackside.aggregates.search.space.builtin_tuners import check_tuner
from trackside.aggregates.search.state import Search, search_of
from trackside.aggregates.search.trials.added_trials import given_problems, is_partial
from trackside.aggregates.search.trials.changes import LIMITS
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, Problem
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.lookup import Lookup
from trackside.domain.streams.stream import Stream, no_aggregate

Changing = (
    RequestTrials
    | UpdateSearchSpace
    | ImportTrials
    | AddTrial
    | UpdateSearch
    | PauseSearch
    | ResumeSearch
    | StopTrial
)
_FORK = "; an end is final: `trackside replay fork` begins a new stream with what it has"


def stop(stream: Stream, wanted: StopSearch, command_id: str, lookup: Lookup) -> list[Event] | Problem:
    """Stops a search; one that is being stopped already is accepted and changes nothing."""
    search = _search_of(stream)
    if isinstance(search, Problem):
        return search
    if stream.closed:
        return _over(search)
    if search.status is SearchStatus.STOPPING:
        return []
    return [SearchStopRequested(command_id=command_id, reason=wanted.reason)]


def change(
    stream: Stream, wanted: Changing, command_id: str, lookup: Lookup
) -> list[Event] | Problem | tuple[Problem, ...]:
    """Changes a search; what is so already is accepted and changes nothing."""
    search = _search_of(stream)
    if isinstance(search, Problem):
        return search
    if stream.closed:
        return _over(search, _FORK)
    if isinstance(wanted, StopTrial):
        return _stop_trial(stream, search, wanted)
    if search.status is SearchStatus.STOPPING:
        message = f"search {stream.stream_id} is being stopped{_FORK}"
        return Problem(code="is_stopping", path="$partitionkey", message=message)
    known = {"command_id": command_id, "change": search.changes + 1}
    match wanted:
        case RequestTrials():
            return _request(search, wanted, known)
        case UpdateSearchSpace():
            return _space(search, wanted, known, lookup.capabilities)
        case ImportTrials():
            return _import(search, wanted, known)
        case AddTrial():
            return _add(search, wanted, known)
        case UpdateSearch():
            return _update(search, wanted, known)
        case PauseSearch():
            same = search.paused == wanted.running
            return [] if same else [SearchPaused(**known, running=wanted.running, reason=wanted.reason)]
        case ResumeSearch():
            return [SearchResumed(**known)] if search.paused else []


def _search_of(stream: Stream) -> Search | Problem:
    search = search_of(stream)
    if search is not None:
        return search
    return no_aggregate(stream, "search")


def _over(search: Search, hint: str = "") -> Problem:
    message = f"search {search.search_id} is over: {search.status.value}{hint}"
    return Problem(code="already_terminal", path="$partitionkey", message=message)


def _full(search: Search) -> Problem | None:
    """Returns why a search takes no trial more, whoever suggests it."""
    spec, waiting = search.spec, len(search.added)
    if len(search.trials) + waiting >= spec.max_trials:
        message = f"all {spec.max_trials} trials are suggested or added; raise max_trials first"
    elif search.time_is_up:
        message = f"it has run for its max_duration_s of {spec.max_duration_s:g}; raise or remove that first"
    elif search.goal_is_reached:
        message = f"its goal of {spec.goal:g} is reached; change or remove that first"
    else:
        return None
    return Problem(code="no_more_trials", message=f"search {search.search_id}: {message}")


def _request(
    search: Search, wanted: RequestTrials, known: dict[str, Any]
) -> list[Event] | tuple[Problem, ...]:
    full = _full(search)
    problems = () if full is None else (full,)
    if search.exhausted:
        message = f"search {search.search_id}: its tuner has nothing left to suggest; update the space first"
        problems = (*problems, Problem(code="no_more_trials", message=message))
    if problems:
        return problems
    room = search.spec.max_trials - len(search.trials)
    return [TrialsRequested(**known, count=min(wanted.count, room))]


def _add(search: Search, wanted: AddTrial, known: dict[str, Any]) -> list[Event] | tuple[Problem, ...]:
    axes = axes_of(search.spec.model_dump(mode="json", include={"space"})["space"])
    full, flag = _full(search), "" if wanted.outside else "outside"
    problems: tuple[Problem, ...] = () if full is None else (full,)
    problems += tuple(islice(given_problems(axes, wanted.parameters, "$.parameters", flag), MAX_PROBLEMS))
    if problems:
        return problems[:MAX_PROBLEMS]
    partial = is_partial(axes, wanted.parameters)
    added = TrialAdded(**known, parameters=wanted.parameters, tell_tuner=wanted.tell_tuner, partial=partial)
    return [added]


def _space(
    search: Search, wanted: UpdateSearchSpace, known: dict[str, Any], capabilities: Capabilities
) -> list[Event] | tuple[Problem, ...]:
    space = wanted.model_dump(mode="json")["space"]
    faults = check_tuner(space, search.spec.tuner.model_dump(mode="json"), capabilities.tuners)
    if faults:
        return tuple(Problem(code="bad_search_space", path=path, message=message) for path, message in faults)
    version = search.space_version + 1
    updated = SearchSpaceUpdated(**known, space_version=version, space=wanted.space)
    return [] if wanted.space == search.spec.space else [updated]


def _import(
    search: Search, wanted: ImportTrials, known: dict[str, Any]
) -> list[Event] | Problem | tuple[Problem, ...]:
    if len(search.spec.objectives) > 1:
        message = "results from elsewhere have one value, and this search has multi_objective objectives"
        return Problem(code="bad_objectives", path="$.trials", message=message)
    problems = tuple(islice(_unfit_trials(search, wanted.trials), MAX_PROBLEMS))
    if problems:
        return problems
    new = list(_unknown(search, wanted.trials))
    return [TrialsImported(**known, trials=new)] if new else []


def _unfit_trials(search: Search, trials: list[PastTrial]) -> Iterator[Problem]:
    axes = axes_of(search.spec.model_dump(mode="json")["space"])
    for place, past in enumerate(trials):
        for path, reason in parameters_faults(axes, past.parameters, f"$.trials[{place}].parameters"):
            message = f"{reason}; leave this trial out, or update the space first"
            yield Problem(code="bad_parameters", path=path, message=message)


def _unknown(search: Search, trials: list[PastTrial]) -> Iterator[PastTrial]:
    """Leaves out the parameters that a search has from a trial of its own or from an import."""
    seen = {_key(trial.parameters) for trial in search.trials}
    seen |= {_key(past.parameters) for past in search.imported}
    for past in trials:
        key = _key(past.parameters)
        if key not in seen:
            seen.add(key)
            yield past


def _key(parameters: dict[str, Any]) -> str:
    return json.dumps(parameters, sort_keys=True)


def _update(search: Search, wanted: UpdateSearch, known: dict[str, Any]) -> list[Event] | tuple[Problem, ...]:
    problems: list[Problem] = []
    if wanted.goal is not None and len(search.spec.objectives) > 1:
        message = "a goal is one value, and this search has multi_objective objectives"
        problems.append(Problem(code="bad_objectives", path="$.goal", message=message))
    before = {name: getattr(search.spec, name) for name in LIMITS}
    given = {name: value for name in LIMITS if (value := getattr(wanted, name)) is not None}
    for name in wanted.remove:
        if name in given:
            message = f"{name} is given and removed in one command; leave one of them out"
            problems.append(Problem(code="unknown_value", path="$.remove", message=message))
    if problems:
        return tuple(problems)
    limits = before | dict.fromkeys(wanted.remove) | given
    return [] if limits == before else [SearchUpdated(**known, **limits)]


def _stop_trial(stream: Stream, search: Search, wanted: StopTrial) -> list[Event] | Problem:
    if wanted.trial >= len(search.trials):
        message = f"search {search.search_id} has {len(search.trials)} trials so far, from 0 on"
        return Problem(code="unknown_trial", path="$.trial", message=message)
    trial = search.trials[wanted.trial]
    task = stream.tasks.get(search.task_of(wanted.trial))
    if trial.status is not None or task is None or task.end is not None:
        how = "it has ended" if trial.status is None else trial.status.value
        message = f"trial {wanted.trial} is over: {how}"
        return Problem(code="already_terminal", path="$.trial", message=message)
    if task.stop_reason:
        return []
    return [TaskStopRequested(task_id=task.task_id, reason="user")]
