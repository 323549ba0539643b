"""What a search of multi_objective objectives may have: checked before it starts. Pure."""

from trackside.contracts.refusals import Problem
from trackside.contracts.searches import StartSearch
from trackside.dispatcher.tuners.builtin_tuners import TUNERS

DEFAULT_DIRECTION = StartSearch.model_fields["direction"].default


def problem(wanted: StartSearch) -> Problem | None:
    """Says why a search can't have the objectives that it names; None if it can."""
    names = [objective.name for objective in wanted.objectives]
    if not names:
        return None
    for place, name in enumerate(names):
        if name in names[:place]:
            return _refused(f"$.objectives[{place}].name", f"{name!r} is the name of another objective")
    # A client writes the default too, and a rerun the first objective's: neither contradicts the objectives.
    if wanted.direction not in (wanted.objectives[0].direction, DEFAULT_DIRECTION):
        return _refused("$.direction", "each of the objectives has its own direction; leave this one out")
    return _problem_of_several(wanted) if len(names) > 1 else None


def _problem_of_several(wanted: StartSearch) -> Problem | None:
    tuner = wanted.tuner.name
    if tuner not in TUNERS or not TUNERS[tuner].multi_objective:
        able = ", ".join(sorted(name for name, kind in TUNERS.items() if kind.multi_objective))
        return _refused("$.tuner.name", f"tuner {tuner} learns from one objective only; these can: {able}")
    if wanted.assessor is not None:
        said = "an assessor judges a trial by one value; leave it out, or name one objective"
        return _refused("$.assessor", said)
    if wanted.goal is not None:
        return _refused("$.goal", "a goal is one value; leave it out, or name one objective")
    if wanted.past:
        return _refused("$.past", "results from elsewhere have one value; leave them out")
    return None


def _refused(path: str, message: str) -> Problem:
    return Problem(code="bad_objectives", path=path, message=message)
