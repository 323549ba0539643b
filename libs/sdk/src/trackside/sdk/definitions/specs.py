"""Spec files: YAML that users write, parsed into commands.

A file is one mapping with a `kind`, such as search or tasks; the rest are the fields of the command.
Errors name file, line and path. Fields in seconds, whose names end in `_s`, may be `30m`, `2h`, `1d`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.envelope.nni_names import nni_hint
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.envelope.step_names import step_hint
from trackside.contracts.envelope.topics import MAX_COMMAND_BYTES
from trackside.contracts.tasks.artifacts import STORED, ArtifactReference
from trackside.contracts.wire.codec import validate_command
from trackside.domain.folding.spec_kind import SpecKind
from trackside.sdk.definitions.durations import put_seconds
from trackside.sdk.definitions.known_fields import known_mappings
from trackside.sdk.definitions.recorded_steps import (
    NOT_HERE,
    FindTasks,
    has_references,
    put_tasks,
    take_copied,
)
from trackside.sdk.definitions.yaml_core import Document, YamlError, read_yaml
from trackside.sdk.errors import SpecError

Resolve = Callable[[Mapping[str, str | ArtifactReference]], Mapping[str, ArtifactReference | Problem]]
"""Gets the inputs of a spec by their paths, and returns the whole reference of each, or problems of some."""
_UNRESOLVED: Json = {"uri": f"{STORED}{0:064x}", "sha256": f"{0:064x}", "size_bytes": 0}


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A file that a command was read from, to name the lines of problems that are found later.

    `moved` are the beginnings of paths of the command, each with its beginning in the file.
    """

    file: str
    document: Document
    moved: tuple[tuple[str, str], ...] = ()

    def describe(self, problem: Problem) -> str:
        """Returns a problem with its place in the file, and with its line if its field is there."""
        line = self.line_of(problem)
        where = f"{self.file}:{line}" if line else self.file
        return f"{where}: {problem.code} at {self.path_of(problem.path)}: {problem.message}"

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


def read_spec_file(
    path: Path, resolve: Resolve | None = None, find: FindTasks | None = None
) -> tuple[Command, SpecFile]:
    """Reads a spec file and returns its command, and the file for the lines of later problems.

    Inputs may be short references if there is a `resolve`, and steps copies of tasks if there is a `find`;
    both are called if all else is valid. Raises SpecError with all problems.
    """
    try:
        octets = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError(
            str(path), 0, Problem(code="unreadable", message=f"cannot be read: {reason}")
        ) from error
    return _parse(octets, str(path), resolve, find)


def parse_spec(octets: bytes, file: str) -> Command:
    """Parses the bytes of a spec file; `file` is its name in errors. Raises SpecError with all problems."""
    return _parse(octets, file)[0]


def _parse(
    octets: bytes, file: str, resolve: Resolve | None = None, find: FindTasks | None = None
) -> tuple[Command, SpecFile]:
    body, kind, spec = _read(octets, file)
    inputs = {} if resolve is None else _inputs(kind, body)
    for each in inputs.values():
        if each.text:
            each.inputs[each.name] = _UNRESOLVED
    copied, problems = take_copied(body) if kind.has_steps else ([], [])
    if find is None:
        problems += [Problem(code="unknown_field", path=each.path, message=NOT_HERE) for each in copied]
    problems += [*_misspelt(kind, body), *convert_durations(kind.name, body)]
    command = _command(kind, body, spec, problems)
    problems = [] if resolve is None else _put_references(inputs, resolve)
    if find is not None and copied:
        problems += put_tasks(copied, find({each.path: each.task for each in copied}))
    if problems:
        raise _error(spec, problems, coded=True)
    return (_command(kind, body, spec, []) if copied or inputs else command), spec


def _read(octets: bytes, file: str) -> tuple[Json, SpecKind, SpecFile]:
    """Returns the body of a file without its kind, the kind, and the file."""
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
    return body, kind, SpecFile(file, document, kind.moved)


def _put_references(inputs: Mapping[str, "_Input"], resolve: Resolve) -> list[Problem]:
    """Replaces short references in inputs by whole ones; returns the problems of inputs."""
    found = resolve(
        {
            path: each.text or ArtifactReference.model_validate(each.inputs[each.name])
            for path, each in inputs.items()
        }
    )
    for path, each in inputs.items():
        reference = found.get(path)
        if each.text and isinstance(reference, ArtifactReference):
            each.inputs[each.name] = reference.model_dump(mode="json")
    return [problem for problem in found.values() if isinstance(problem, Problem)]


def _command(kind: SpecKind, body: Json, spec: SpecFile, problems: list[Problem]) -> Command:
    """Returns the command of the body of a file; raises SpecError with its problems, and those before."""
    found = validate_command(kind.command.wire_type(), kind.command_body(body), (kind.command,))
    if isinstance(found, tuple):
        problems = merged(problems, (_in_file(problem, kind, spec, body) for problem in found))
    if problems or isinstance(found, tuple):
        raise _error(spec, problems)
    return found


def _error(spec: SpecFile, problems: Iterable[Problem], coded: bool = False) -> SpecError:
    (line, first), *more = ((spec.document.line_of(each.path), each) for each in problems)
    return SpecError(spec.file, line, first, more, coded)


@dataclass(frozen=True, slots=True)
class _Input:
    """An input of a body: the mapping that it is in, its name there, and the text if it has no mapping."""

    inputs: Json
    name: str
    text: str = ""


def _inputs(kind: SpecKind, body: Json) -> dict[str, _Input]:
    """Returns the inputs in the body of a file by their paths, those left out that are templates."""
    return {
        f"{path}.inputs.{name}": _Input(inputs, name, given if isinstance(given, str) else "")
        for path, value, known in known_mappings("$", body, kind.fields)
        if "inputs" in known and isinstance(inputs := value.get("inputs"), dict)
        for name, given in inputs.items()
        if not kind.has_steps or _is_artifact(given)
    }


def _is_artifact(given: object) -> bool:
    """Returns whether an input of a step is an artifact, and not a template of one."""
    if has_references(given):
        return False
    try:
        ArtifactReference.model_validate(given)
    except ValidationError:
        return isinstance(given, str)  # anything else is a problem that the dispatcher lists with the others
    return True


def merged(problems: Iterable[Problem], more: Iterable[Problem]) -> list[Problem]:
    """Returns problems, and of some more those at other places."""
    found = list(problems)
    places = {problem.path for problem in found}
    return [*found, *(problem for problem in more if problem.path not in places)]


def _kind(body: Json, file: str, document: Document) -> SpecKind:
    kinds = AGGREGATES.specs
    listed = ", ".join(kinds)
    if "kind" not in body:
        problem = Problem(code="missing_field", path="$.kind", message=f"missing; expected one of: {listed}")
        raise SpecError(file, 1, problem)
    name = body.pop("kind")
    if not isinstance(name, str) or name not in kinds:
        message = f"unknown kind {name!r}; expected one of: {listed}{nearest(str(name), kinds)}"
        problem = Problem(code="unknown_value", path="$.kind", message=message)
        raise SpecError(file, document.line_of("$.kind"), problem)
    return kinds[name]


def _in_file(problem: Problem, kind: SpecKind, spec: SpecFile, body: Json) -> Problem:
    """Returns a problem of a command with its path in the file."""
    return kind.explain(problem.model_copy(update={"path": spec.path_of(problem.path)}), body)


def _misspelt(kind: SpecKind, body: Json) -> Iterator[Problem]:
    """Yields unknown fields as problems: before a missing one, which it often was meant to be."""
    for path, value, known in known_mappings("$", body, kind.fields):
        for name in value:
            if name not in known:
                listed = f"; expected: {', '.join(known)}{nearest(name, known)}"
                hint = nni_hint(name) or step_hint(name, known) or listed
                message = f"unknown field {name!r}{hint}"
                yield Problem(code="unknown_field", path=f"{path}.{name}", message=message)


def convert_durations(kind: str, body: Json) -> list[Problem]:
    """Replaces durations by seconds in the fields of a kind of file; returns the problems of invalid ones."""
    return [
        problem
        for path, value, known in known_mappings("$", body, AGGREGATES.specs[kind].fields)
        for problem in put_seconds(path, value, known)
    ]
