"""The spec files of searches."""

from trackside.aggregates.search.messages import StartSearch, StopSearch
from trackside.aggregates.search.space import space
from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.domain.folding.spec_kind import SpecKind


def stop_command(reason: str) -> Command:
    """Returns what stops a search."""
    return StopSearch(reason=reason)


def _title(command: StartSearch) -> str:
    return command.name or command.task_type


def _with_types(problem: Problem, body: Json) -> Problem:
    """Adds the names of the types to the problem of a parameter with an unknown type."""
    _, *parts = problem.path.split(".")
    if problem.code != "unknown_value" or len(parts) != 2 or parts[0] != "space":
        return problem
    given = body["space"][parts[1]].get("type")
    message = f"unknown type {given!r}; expected one of: {', '.join(space.TYPES)}"
    message += nearest(str(given), space.TYPES)
    return Problem(code=problem.code, path=f"{problem.path}.type", message=message)


SPECS = (SpecKind("search", StartSearch, StartSearch.model_fields, _title, explain=_with_types),)
