"""A kind of spec file: a YAML mapping that users write, and how it becomes a command."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.envelope.refusals import Problem


def _unchanged(body: Json) -> Json:
    return body


def _as_found(problem: Problem, body: Json) -> Problem:
    return problem


@dataclass(frozen=True, slots=True)
class SpecKind:
    """A kind of spec file; its functions are pure and get the body of the file, which may be any JSON."""

    name: str
    """The `kind` in the file."""
    command: type[Command]
    """The command that it becomes."""
    fields: Mapping[str, FieldInfo]
    """The fields of the file, by name: for misspelt ones, and for durations."""
    title: Callable[[Any], str]
    """Returns what a command of this type is about, in a word or two: its new stream is named after it."""
    command_body: Callable[[Json], Json] = _unchanged
    """Makes the body of the command."""
    moved: tuple[tuple[str, str], ...] = ()
    """The beginnings of paths of the command that differ in the file, each with its beginning there."""
    explain: Callable[[Problem, Json], Problem] = _as_found
    """Returns a problem of the command with a message and a path that say more."""
    has_steps: bool = False
    """Its `steps` may be copies of recorded tasks, with `from`, and their inputs templates."""
