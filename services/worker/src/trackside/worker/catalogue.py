"""The catalogue: which tasks this worker may run, by the word of its host and of nobody else.

A command carries a task's type and parameters; code, folders and environment come from here. The file:

    preload: [sklearn.datasets]          imported once, before tasks are forked off
    tasks:
      digits:
        entry: digits:Digits             module and class
        path: .                          put on sys.path, relative to the file
        environment: [HTTPS_PROXY]       variables of the host that the task may see

Installed packages add tasks by the entry-point group `trackside.tasks`; the file wins.
"""

import importlib.metadata
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from trackside.contracts.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.refusals import nearest, problem_of

ENTRY_POINTS = "trackside.tasks"
_ENTRY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_SERVICE_VARIABLE = re.compile(r"(TRACKSIDE|PG|POSTGRES|KAFKA)_?.*|.*(SECRET|PASSWORD|TOKEN).*")


class CatalogueError(Exception):
    """The catalogue can't be obeyed: file, key and rule are in the message."""


@dataclass(frozen=True, slots=True)
class TaskType:
    """A task that may run here: `module:Class`, the folder it is found in, variables it may see."""

    name: str
    entry: str
    path: str = ""
    environment: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All tasks that may run here, and modules worth importing once for all of them."""

    tasks: Mapping[str, TaskType] = field(default_factory=dict)
    preload: tuple[str, ...] = ()

    def refusal_of(self, task_type: str) -> str:
        """Says in a sentence that a type is unknown here."""
        known = sorted(self.tasks)
        return f"task type {task_type!r} is not in this worker's catalogue{nearest(task_type, known)}"


class _Task(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    entry: str
    path: str = ""
    environment: list[str] = Field(default=[], max_length=100)

    @field_validator("entry")
    @classmethod
    def _is_entry(cls, text: str) -> str:
        if _ENTRY.fullmatch(text) is None:
            raise PydanticCustomError("bad_entry", "expected module:Class, such as digits:Digits")
        return text

    @field_validator("environment")
    @classmethod
    def _is_harmless(cls, names: list[str]) -> list[str]:
        for name in names:
            if _SERVICE_VARIABLE.fullmatch(name.upper()):
                raise PydanticCustomError(
                    "secret_variable", "{name} may hold a secret: name variables without one", {"name": name}
                )
        return names


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    tasks: dict[str, _Task]
    preload: list[str] = []


def read(path: Path) -> Catalogue:
    """Reads the catalogue file and the entry points; raises CatalogueError."""
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise CatalogueError(
            f"{path}: {error.strerror}; set TRACKSIDE_WORKER_CATALOGUE to the file that names the tasks"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path}: not YAML: {error}") from error
    if not isinstance(found, dict):
        raise CatalogueError(f"{path}: $: expected a mapping with the key 'tasks'")
    tasks = installed()
    parsed = _parsed(path, found)
    tasks.update({name: _task(path, name, task) for name, task in parsed.tasks.items()})
    return Catalogue(tasks, tuple(parsed.preload))


def installed() -> dict[str, TaskType]:
    """Lists the tasks that installed packages name in the entry-point group `trackside.tasks`."""
    return {
        point.name: TaskType(point.name, point.value)
        for point in importlib.metadata.entry_points(group=ENTRY_POINTS)
        if _ENTRY.fullmatch(point.value)
    }


def _parsed(path: Path, found: dict[str, Any]) -> _File:
    try:
        return _File.model_validate(found)
    except ValidationError as error:
        problem = problem_of(error, _File.model_fields, found)
        raise CatalogueError(f"{path}: {problem.path}: {problem.message}") from error


def _task(path: Path, name: str, task: _Task) -> TaskType:
    if not is_identifier(name):
        raise CatalogueError(f"{path}: $.tasks.{name}: a task type is {IDENTIFIER_RULE}")
    folder = ""
    if task.path:
        folder = str((path.parent / task.path).resolve())
        if not Path(folder).is_dir():
            raise CatalogueError(f"{path}: $.tasks.{name}.path: no folder at {folder}")
    return TaskType(name, task.entry, folder, tuple(task.environment))
