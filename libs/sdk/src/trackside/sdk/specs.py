"""Spec files: YAML that users write, parsed into commands.

A file is one mapping with a `kind`: search, tasks or task; the rest are the fields of the command.
Errors name file, line and path. Fields in seconds, whose names end in `_s`, may be `30m`, `2h`, `1d`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from trackside.contracts import search_space
from trackside.contracts.batches import GroupSpec, SubmitTasks, TaskSpec
from trackside.contracts.codec import command_of
from trackside.contracts.message import Command, Json
from trackside.contracts.refusals import Problem, nearest
from trackside.contracts.resources import Resources, Retry, RetryPolicy
from trackside.contracts.searches import Assessor, StartSearch, Tuner
from trackside.contracts.topics import MAX_COMMAND_BYTES
from trackside.sdk.durations import put_seconds
from trackside.sdk.errors import SpecError
from trackside.sdk.yaml_core import Document, YamlError, read_yaml

TASK = "task"
KINDS: Mapping[str, type[Command]] = {"search": StartSearch, "tasks": SubmitTasks, TASK: SubmitTasks}
"""The kinds of files: a search, tasks in groups, or one task, whose fields are at the top level."""
_OF_GROUP = ("device", "estimate_memory", "estimate_cuda_memory")
_OF_BATCH = ("queue",)
_NESTED: Mapping[str, type[BaseModel]] = {
    "tuner": Tuner,
    "assessor": Assessor,
    "retry": RetryPolicy,
    "resources": Resources,
}
SpecNode = tuple[str, object, list[str]]
"""A path, the value there, and the names of its fields."""


def read_spec(path: Path) -> Command:
    """Reads a spec file and returns its command; raises SpecError."""
    try:
        octets = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError(
            str(path), 0, Problem(code="unreadable", message=f"cannot be read: {reason}")
        ) from error
    return parse_spec(octets, str(path))


def parse_spec(octets: bytes, file: str) -> Command:
    """Parses the bytes of a spec file; `file` is its name in errors. Raises SpecError."""
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
    name = _kind(body, file, document)
    kind = KINDS[name]
    found: Problem | Command | None = _misspelt(name, body) or convert_durations(name, body)
    if found is None:
        found = command_of(kind.wire_type(), _wrapped(body) if name == TASK else body)
    if isinstance(found, Problem):
        problem = _unwrapped(found) if name == TASK else _hinted(found, body)
        raise SpecError(file, document.line_of(problem.path), problem)
    return found


def _kind(body: Json, file: str, document: Document) -> str:
    listed = ", ".join(KINDS)
    if "kind" not in body:
        problem = Problem(code="missing_field", path="$.kind", message=f"missing; expected one of: {listed}")
        raise SpecError(file, 1, problem)
    name = body.pop("kind")
    if not isinstance(name, str) or name not in KINDS:
        message = f"unknown kind {name!r}; expected one of: {listed}{nearest(str(name), KINDS)}"
        problem = Problem(code="unknown_value", path="$.kind", message=message)
        raise SpecError(file, document.line_of("$.kind"), problem)
    return name


def _wrapped(body: Json) -> Json:
    """Moves the fields of one task to where they are in a batch: the only task of the only group."""
    task = {name: value for name, value in body.items() if name in TaskSpec.model_fields}
    group = {name: value for name, value in body.items() if name in _OF_GROUP}
    batch = {name: value for name, value in body.items() if name in (*_OF_BATCH, "name")}
    return batch | {"groups": [group | {"tasks": [task]}]}


def _unwrapped(problem: Problem) -> Problem:
    """Returns a problem with its path as it is in the file of one task."""
    path = problem.path.replace("$.groups[0].tasks[0]", "$").replace("$.groups[0]", "$")
    return problem.model_copy(update={"path": path})


def _misspelt(kind: str, body: Json) -> Problem | None:
    """Returns the first unknown field as a problem: before a missing one, which it often was meant to be."""
    for path, value, known in _nodes(kind, body):
        for name in value if isinstance(value, dict) else ():
            if name not in known:
                message = f"unknown field {name!r}; expected: {', '.join(known)}{nearest(name, known)}"
                return Problem(code="unknown_field", path=f"{path}.{name}", message=message)
    return None


def convert_durations(kind: str, body: Json) -> Problem | None:
    """Replaces durations by seconds in the fields of a kind of file; returns a problem for an invalid one."""
    for path, value, known in _nodes(kind, body):
        problem = put_seconds(path, value, known) if isinstance(value, dict) else None
        if problem is not None:
            return problem
    return None


def _nodes(kind: str, body: Json) -> Iterator[SpecNode]:
    """Yields every mapping of a file whose field names are known."""
    if kind == TASK:
        yield "$", body, sorted({*TaskSpec.model_fields, *_OF_GROUP, *_OF_BATCH})
    else:
        yield "$", body, sorted(KINDS[kind].model_fields)
    yield from _nested("$", body)
    space = body.get("space")
    for name, parameter in space.items() if isinstance(space, dict) else ():
        model = search_space.TYPES.get(str(parameter.get("type"))) if isinstance(parameter, dict) else None
        if model is not None:
            yield f"$.space.{name}", parameter, sorted(model.model_fields)
    for path, group in _listed("$.groups", body.get("groups")):
        yield path, group, sorted(GroupSpec.model_fields)
        for inner, task in _listed(f"{path}.tasks", group.get("tasks")):
            yield inner, task, sorted(TaskSpec.model_fields)
            yield from _nested(inner, task)


def _nested(path: str, value: Json) -> Iterator[SpecNode]:
    for name, model in _NESTED.items():
        inner = value.get(name)
        yield f"{path}.{name}", inner, sorted(model.model_fields)
        if model is RetryPolicy and isinstance(inner, dict):
            for end, rule in inner.items():
                yield f"{path}.{name}.{end}", rule, sorted(Retry.model_fields)


def _listed(path: str, value: object) -> Iterator[tuple[str, Json]]:
    for at, inner in enumerate(value if isinstance(value, list) else ()):
        if isinstance(inner, dict):
            yield f"{path}[{at}]", inner


def _hinted(problem: Problem, body: Json) -> Problem:
    """Adds the names of the types to the problem of a parameter with an unknown type."""
    _, *parts = problem.path.split(".")
    if problem.code != "unknown_value" or len(parts) != 2 or parts[0] != "space":
        return problem
    parameter = body["space"][parts[1]]
    given = parameter.get("type")
    message = f"unknown type {given!r}; expected one of: {', '.join(search_space.TYPES)}"
    message += nearest(str(given), search_space.TYPES)
    return Problem(code=problem.code, path=f"{problem.path}.type", message=message)
