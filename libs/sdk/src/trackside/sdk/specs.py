"""Spec files: what a person writes in YAML, read into the command that it means.

A file is one mapping with a `kind`; the rest are the fields of the command. Errors name file, line and path.
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from trackside.contracts import search_space
from trackside.contracts.codec import command_of
from trackside.contracts.message import Command, Json
from trackside.contracts.refusals import Problem, nearest
from trackside.contracts.resources import RetryPolicy
from trackside.contracts.searches import Assessor, StartSearch, Tuner
from trackside.contracts.topics import MAX_COMMAND_BYTES
from trackside.sdk.errors import SpecError
from trackside.sdk.yaml_core import Document, YamlError, read_yaml

KINDS: Mapping[str, type[Command]] = {"search": StartSearch}
_PARAMETERS: Mapping[str, type[BaseModel]] = {
    "choice": search_space.Choice,
    "uniform": search_space.Uniform,
    "loguniform": search_space.LogUniform,
    "quniform": search_space.QUniform,
    "randint": search_space.RandInt,
}
_NESTED: Mapping[str, type[BaseModel]] = {"tuner": Tuner, "assessor": Assessor, "retry": RetryPolicy}


def read_spec(path: Path) -> Command:
    """Reads a spec file into the command that it means; raises SpecError."""
    try:
        octets = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError(
            str(path), 0, Problem(code="unreadable", message=f"cannot be read: {reason}")
        ) from error
    return parse_spec(octets, str(path))


def parse_spec(octets: bytes, file: str) -> Command:
    """Reads the bytes of a spec file; `file` is what errors call it. Raises SpecError."""
    if len(octets) > MAX_COMMAND_BYTES:
        message = f"{len(octets):,} bytes, the limit is {MAX_COMMAND_BYTES:,}"
        raise SpecError(file, 0, Problem(code="too_large", message=message))
    try:
        document = read_yaml(octets)
    except YamlError as error:
        raise SpecError(file, error.line, Problem(code="not_yaml", message=str(error))) from error
    if not isinstance(document.value, dict):
        message = f"expected a mapping with a `kind`, got {type(document.value).__name__}"
        raise SpecError(file, 1, Problem(code="not_object", message=message))
    body: Json = dict(document.value)
    kind = _kind(body, file, document)
    found = _misspelt(kind, body) or command_of(kind.wire_type(), body)
    if isinstance(found, Problem):
        problem = _hinted(found, body)
        raise SpecError(file, document.line_of(problem.path), problem)
    return found


def _kind(body: Json, file: str, document: Document) -> type[Command]:
    listed = ", ".join(KINDS)
    if "kind" not in body:
        problem = Problem(code="missing_field", path="$.kind", message=f"missing; expected one of: {listed}")
        raise SpecError(file, 1, problem)
    name = body.pop("kind")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        message = f"unknown kind {name!r}; expected one of: {listed}{nearest(str(name), KINDS)}"
        problem = Problem(code="unknown_value", path="$.kind", message=message)
        raise SpecError(file, document.line_of("$.kind"), problem)
    return kind


def _misspelt(kind: type[Command], body: Json) -> Problem | None:
    """Names the first unknown field; it is told before a missing one, which it was often meant to be."""
    places: list[tuple[str, object, type[BaseModel]]] = [("$", body, kind)]
    places += [(f"$.{name}", body.get(name), model) for name, model in _NESTED.items()]
    space = body.get("space")
    for name, parameter in space.items() if isinstance(space, dict) else ():
        model = _PARAMETERS.get(str(parameter.get("type"))) if isinstance(parameter, dict) else None
        if model is not None:
            places.append((f"$.space.{name}", parameter, model))
    for path, value, model in places:
        known = sorted(model.model_fields)
        for name in value if isinstance(value, dict) else ():
            if name not in known:
                message = f"unknown field {name!r}; expected: {', '.join(known)}{nearest(name, known)}"
                return Problem(code="unknown_field", path=f"{path}.{name}", message=message)
    return None


def _hinted(problem: Problem, body: Json) -> Problem:
    """Adds the names of the types to a parameter of the space that has none of them."""
    _, *parts = problem.path.split(".")
    if problem.code != "unknown_value" or len(parts) != 2 or parts[0] != "space":
        return problem
    parameter = body["space"][parts[1]]
    given = parameter.get("type")
    message = f"unknown type {given!r}; expected one of: {', '.join(_PARAMETERS)}"
    message += nearest(str(given), _PARAMETERS)
    return Problem(code=problem.code, path=f"{problem.path}.type", message=message)
