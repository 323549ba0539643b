"""What is decided about StartSearch: its events, or why it is refused. Pure."""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any

from trackside.aggregates.search.messages import (
    SearchSpec,
    SearchStarted,
    SearchUpdated,
    StartSearch,
    TrialAdded,
    TrialsImported,
)
from trackside.aggregates.search.space.axes import Axes, axes_of, choices_problem, parameters_faults
from trackside.aggregates.search.space.builtin_assessors import check_assessor
from trackside.aggregates.search.space.builtin_tuners import HISTORY, TUNERS, check_tuner
from trackside.aggregates.search.trials.added_trials import given_problems, is_partial
from trackside.aggregates.search.trials.changes import LIMITS
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, Problem
from trackside.domain.fleet.capabilities import Capabilities, device_problem, type_problem
from trackside.domain.folding.lookup import Lookup
from trackside.domain.streams.stream import Stream, check_not_begun

DEFAULT_DIRECTION = StartSearch.model_fields["direction"].default


def start(
    stream: Stream, wanted: StartSearch, command_id: str, lookup: Lookup
) -> list[Event] | tuple[Problem, ...]:
    """Begins a search, unless its stream is taken or it asks for what there is not; returns all problems."""
    plain = wanted.model_dump(mode="json")
    if (too_costly := choices_problem(plain["space"])) is not None:
        return (too_costly,)
    axes = axes_of(plain["space"])
    problems = tuple(islice(_problems(stream, wanted, plain, axes, lookup.capabilities), MAX_PROBLEMS))
    if problems:
        return problems
    if wanted.objectives:
        plain["direction"] = wanted.objectives[0].direction
    spec = SearchSpec.model_validate({name: plain[name] for name in SearchSpec.model_fields if name in plain})
    seed = default_seed(stream.stream_id) if wanted.seed is None else wanted.seed
    started = SearchStarted(command_id=command_id, search=spec, seed=seed, origin=wanted.origin)
    return [started, *warm_start_events(wanted, axes, command_id)]


def _problems(
    stream: Stream, wanted: StartSearch, plain: dict[str, Any], axes: Axes, capabilities: Capabilities
) -> Iterator[Problem]:
    named = (
        check_not_begun(stream),
        type_problem(capabilities, wanted.task_type, "$.task_type"),
        device_problem(capabilities, wanted.resources.device, "$.resources.device"),
    )
    yield from (problem for problem in named if problem is not None)
    path = "$.task_type" if wanted.service is None else "$.service"
    if wanted.service is not None or wanted.task_type in capabilities.services:
        message = (
            "the trials of a search end, and a service runs until it is stopped: search with a task type "
            "that has `train`, and submit a service in a file of kind task"
        )
        yield Problem(code="bad_service", path=path, message=message)
    faults = check_tuner(plain["space"], plain["tuner"], capabilities.tuners)
    if plain["assessor"]:
        faults += check_assessor(plain["assessor"], capabilities.assessors)
    for path, message in faults:
        yield Problem(code=_fault_code(path), path=path, message=message)
    yield from objective_problems(wanted)
    yield from past_problems(wanted, axes)
    yield from first_problems(wanted, axes)


def default_seed(stream_id: str) -> int:
    """Derives the seed of a search whose command gave none, so that a repeated decision is the same."""
    return int.from_bytes(blake2b(stream_id.encode(), digest_size=6).digest(), "big")


def _fault_code(path: str) -> str:
    if path.endswith("tuner.name"):
        return "unknown_tuner"
    if path.endswith("assessor.name"):
        return "unknown_assessor"
    return "bad_search_space" if path.startswith("$.space") else "bad_option"


def objective_problems(wanted: StartSearch) -> Iterator[Problem]:
    """Yields why a search can't have the objectives that it names."""
    names = [objective.name for objective in wanted.objectives]
    if not names:
        return
    for place, name in enumerate(names):
        if name in names[:place]:
            yield _bad_objectives(f"$.objectives[{place}].name", f"{name!r} is the name of another objective")
    # A client writes the default too, and a rerun the first objective's: neither contradicts the objectives.
    if wanted.direction not in (wanted.objectives[0].direction, DEFAULT_DIRECTION):
        yield _bad_objectives(
            "$.direction", "each of the objectives has its own direction; leave this one out"
        )
    if len(names) > 1:
        yield from _multi_objective_problems(wanted)


def _multi_objective_problems(wanted: StartSearch) -> Iterator[Problem]:
    tuner = wanted.tuner.name
    if tuner not in TUNERS or not TUNERS[tuner].multi_objective:
        able = ", ".join(sorted(name for name, kind in TUNERS.items() if kind.multi_objective))
        yield _bad_objectives(
            "$.tuner.name", f"tuner {tuner} learns from one objective only; these can: {able}"
        )
    if HISTORY in wanted.tuner.options and not wanted.tuner.remote:
        said = "the best trials of several objectives are not in one order; leave it out"
        yield _bad_objectives(f"$.tuner.options.{HISTORY}", said)
    if wanted.assessor is not None:
        said = "an assessor judges a trial by one value; leave it out, or name one objective"
        yield _bad_objectives("$.assessor", said)
    if wanted.goal is not None:
        yield _bad_objectives("$.goal", "a goal is one value; leave it out, or name one objective")
    if wanted.past:
        yield _bad_objectives("$.past", "results from elsewhere have one value; leave them out")


def _bad_objectives(path: str, message: str) -> Problem:
    return Problem(code="bad_objectives", path=path, message=message)


def past_problems(wanted: StartSearch, axes: Axes) -> Iterator[Problem]:
    """Yields which values of results of other searches are not in the space."""
    for place, past in enumerate(wanted.past):
        for path, message in parameters_faults(axes, past.parameters, f"$.past[{place}].parameters"):
            yield Problem(code="bad_parameters", path=path, message=f"{message}; leave this trial out")


def first_problems(wanted: StartSearch, axes: Axes) -> Iterator[Problem]:
    """Yields why the parameters to try first can't all be tried, and which of their values can't."""
    if len(wanted.first) > wanted.max_trials:
        message = f"{len(wanted.first)} first trials are more than the {wanted.max_trials} of max_trials"
        yield Problem(code="no_more_trials", path="$.first", message=message)
    for place, parameters in enumerate(wanted.first):
        path, flag = f"$.first[{place}]", "" if wanted.first_outside else "first_outside"
        yield from given_problems(axes, parameters, path, flag)


def warm_start_events(wanted: StartSearch, axes: Axes, command_id: str) -> list[Event]:
    """Returns the events after a search's start for its past and its first trials."""
    events: list[Event] = []
    if wanted.past:
        same = {name: getattr(wanted, name) for name in LIMITS}
        events = [
            TrialsImported(command_id=command_id, change=1, trials=wanted.past),
            SearchUpdated(command_id=command_id, change=2, **same),
        ]
    if wanted.first:
        events += [
            TrialAdded(
                command_id=command_id,
                change=number,
                parameters=parameters,
                tell_tuner=True,
                partial=is_partial(axes, parameters),
            )
            for number, parameters in enumerate(wanted.first, start=len(events) + 1)
        ]
    return events
