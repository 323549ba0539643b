"""Spec files: YAML that users write, parsed into commands.

A file is one mapping with a `kind`: search, tasks or task; the rest are the fields of the command.
Errors name file, line and path. Fields in seconds, whose names end in `_s`, may be `30m`, `2h`, `1d`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from trackside.aggregates.batch.messages import GroupSpec, SubmitTasks, TaskSpec
from trackside.aggregates.search import space as search_space
from trackside.aggregates.search.messages import Assessor, StartSearch, Tuner
from trackside.contracts.codec import validate_command
from trackside.contracts.message import Command, Json
from trackside.contracts.refusals import Problem, nearest
from trackside.contracts.resources import Resources, Retry, RetryPolicy
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
_TASK_PATHS = (("$.groups[0].tasks[0]", "$"), ("$.groups[0].tasks", "$"), ("$.groups[0]", "$"))
SpecNode = tuple[str, object, list[str]]
"""A path, the value there, and the names of its fields."""


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A file that a command was read from, to name the lines of problems that are found later.

    `moved` are the beginnings of paths of the command, each with its beginning in the file.
    """

    file: str
    document: Document
    moved: tuple[tuple[str, str], ...] = ()

    def describe(self, problem: Problem) -> str:
        """Returns a problem with its file, and with its line if its field is in the file."""
        line = self.line_of(problem)
        where = f"{self.file}:{line}" if line else self.file
        return f"{where}: {problem.code} at {problem.path}: {problem.message}"

    def line_of(self, problem: Problem) -> int:
        """Returns the line of the place of a problem, 0 if its field is not in the file."""
        path = self.path_of(problem.path)
        fields = path.split(".")
        known = len(fields) == 1 or f"$.{fields[1].partition('[')[0]}" in self.document.lines
        return self.document.line_of(path) if known else 0

    def path_of(self, path: str) -> str:
        """Returns the path in the file for a path of the command."""
        for begin, there in self.moved:
            if path == begin or path.startswith((f"{begin}.", f"{begin}[")):
                return there + path[len(begin) :]
        return path


def read_spec(path: Path) -> Command:
    """Reads a spec file and returns its command; raises SpecError with all problems."""
    return read_spec_file(path)[0]


def read_spec_file(path: Path) -> tuple[Command, SpecFile]:
    """Reads a spec file and returns its command, and the file for the lines of later problems.

    Raises SpecError with all problems.
    """
    try:
        octets = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError(
            str(path), 0, Problem(code="unreadable", message=f"cannot be read: {reason}")
        ) from error
    return _parse(octets, str(path))


def parse_spec(octets: bytes, file: str) -> Command:
    """Parses the bytes of a spec file; `file` is its name in errors. Raises SpecError with all problems."""
    return _parse(octets, file)[0]


def _parse(octets: bytes, file: str) -> tuple[Command, SpecFile]:
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
    spec = SpecFile(file, document, _TASK_PATHS if name == TASK else ())
    problems = [*_misspelt(name, body), *convert_durations(name, body)]
    found = validate_command(kind.wire_type(), _wrapped(body) if name == TASK else body, (kind,))
    if isinstance(found, tuple):
        problems = merged(problems, (_in_file(problem, spec, body) for problem in found))
    if problems or isinstance(found, tuple):
        first, *more = problems
        lines = [(document.line_of(problem.path), problem) for problem in more]
        raise SpecError(file, document.line_of(first.path), first, lines)
    return found, spec


def merged(problems: Iterable[Problem], more: Iterable[Problem]) -> list[Problem]:
    """Returns problems, and of some more those at other places."""
    found = list(problems)
    places = {problem.path for problem in found}
    return [*found, *(problem for problem in more if problem.path not in places)]


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


def _in_file(problem: Problem, spec: SpecFile, body: Json) -> Problem:
    """Returns a problem of a command with its path in the file."""
    if not spec.moved:
        return _hinted(problem, body)
    return problem.model_copy(update={"path": spec.path_of(problem.path)})


def _misspelt(kind: str, body: Json) -> Iterator[Problem]:
    """Yields unknown fields as problems: before a missing one, which it often was meant to be."""
    for path, value, known in _nodes(kind, body):
        for name in value if isinstance(value, dict) else ():
            if name not in known:
                message = f"unknown field {name!r}; expected: {', '.join(known)}{nearest(name, known)}"
                yield Problem(code="unknown_field", path=f"{path}.{name}", message=message)


def convert_durations(kind: str, body: Json) -> list[Problem]:
    """Replaces durations by seconds in the fields of a kind of file; returns the problems of invalid ones."""
    return [
        problem
        for path, value, known in _nodes(kind, body)
        if isinstance(value, dict)
        for problem in put_seconds(path, value, known)
    ]


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
