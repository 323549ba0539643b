"""Parameters that a user gives a trial: which of them a space has, and which are left to the tuner. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from trackside.aggregates.search.messages import SearchSpec
from trackside.aggregates.search.space.axes import Axes, axes_of, faults_by_kind, parameters_faults
from trackside.contracts.envelope.refusals import Problem


def given_problems(axes: Axes, given: Mapping[str, Any], path: str, flag: str) -> Iterator[Problem]:
    """Yields the names that a space doesn't have, and the values outside of it unless `flag` is empty.

    `flag` is the field of the command that permits such values; a parameter that is left out is no problem.
    """
    faults = faults_by_kind(axes, given, path)
    for place, message in faults["unknown"]:
        yield Problem(code="bad_parameters", path=place, message=message)
    for place, message in faults["outside"] if flag else ():
        hint = f"{message}; with {flag} it is tried all the same, and is never the best trial"
        yield Problem(code="bad_parameters", path=place, message=hint)


def is_partial(axes: Axes, given: Mapping[str, Any]) -> bool:
    """Returns whether parameters of the space are left out, also those of a sub-space that is chosen."""
    return bool(faults_by_kind(axes, given)["missing"])


def names_outside(spec: SearchSpec, parameters: Mapping[str, Any]) -> list[str]:
    """Returns the names of the parameters that are not in the space of a search, such as `layer.kernel`."""
    faults = parameters_faults(axes_of(spec.model_dump(mode="json", include={"space"})["space"]), parameters)
    return [path.removeprefix("$.") for path, _ in faults]
