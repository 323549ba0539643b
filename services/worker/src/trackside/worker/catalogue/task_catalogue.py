"""The catalogue: the task types that this worker may run, defined on its host only.

A command contains a task's type and parameters; code, folders and environment come from here. The file:

    preload: [sklearn.datasets]          installed modules, imported once, before tasks are forked
    tasks:
      digits:
        entry: digits:Digits             module and class
        path: .                          put on sys.path, relative to the file
        environment:                     variables that the task gets:
          - HTTPS_PROXY                  one of the host,
          - WANDB_API_KEY: {secret: wandb}   and one with the value of a secret of the host
        secrets: [kaggle]                secrets that its parameters may name: {"secret": "kaggle"}
      resnet:
        program: [python, ./train.py, --parameters, "{parameters_file}", --device, "{device}"]
        path: .                          where ./train.py is, relative to the file; put on PYTHONPATH
        parameters: {type: object, required: [lr], properties: {lr: {type: number}}}
        max_memory: 8GiB                 the most one task may request; max_cuda_memory per GPU.
                                         Where cgroups are available, a task that uses more is killed
        enforce: estimate                a task is killed that uses more host memory than is reserved for it
        enforce_factor: 1.2              times this, which is the default; never more than max_memory
        runner: warm                     classes only: one process runs many tasks, one after another,
        max_tasks: 100                   at most this many, 1,000 if not given,
        max_growth: 512MiB               until it has grown by this much, which is the default
        version: "2024-05"               any text; with another one, steps of pipelines that were cached
                                         before run again: for code that has changed
      serve:
        entry: serve:Model               a class with `serve` instead of `train`, or a program
        runner: service                  it runs until it is stopped, and is tried again for ever

A program is started as it is listed, never by a shell. Within its items only `{parameters_file}`,
`{workdir}` and `{device}` are replaced; an item that begins with `./` or `../` is relative to `path`.
`parameters` is a JSON Schema (2020-12) that is checked before the task runs.

Installed packages add tasks by the entry-point group `trackside.tasks`; the file takes precedence.
Names that begin with `trackside.` are those of the tasks that Trackside brings: neither may define one.
"""

import importlib.metadata
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, Identifier, is_identifier
from trackside.contracts.envelope.memory import Memory
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import field_names, json_path, problem_of
from trackside.contracts.envelope.secret_references import SecretRef, is_reference, references_in
from trackside.domain.json_schemas import BadSchemaError, compile_schema
from trackside.domain.pipelines.canonical import canonical_digest
from trackside.domain.pipelines.value_schemas import SchemaCheck, SchemaCosts
from trackside.worker.catalogue.parameter_schemas import violation

ENTRY_POINTS = "trackside.tasks"
RESERVED = "trackside."
"""What the names of the task types begin with that workers run themselves."""
PLACEHOLDERS = ("parameters_file", "workdir", "device")
MAX_ITEMS = 1_000
WARM_TASKS = 1_000
WARM_GROWTH_BYTES = 536_870_912
ENFORCE_FACTOR = 1.2
"""A learned estimate is 10% over the highest peak; tasks of a type differ by some more between two runs.

What is raised after a kill is 1.5 times as much, so each attempt may use more than the one before.
"""
MAX_ENFORCE_FACTOR = 10.0
_ENTRY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SERVICE_VARIABLE = re.compile(r"(TRACKSIDE|PG|POSTGRES|KAFKA)_?.*|.*(SECRET|PASSWORD|TOKEN).*")


class CatalogueError(Exception):
    """The catalogue is invalid; the message has file, key and rule."""


@dataclass(frozen=True, slots=True)
class TaskType:
    """A task type: a class `module:Class`, or a program as a list; one of them is empty.

    `path` is the folder of its code, `environment` names the variables of the host that are passed to it,
    `secret_environment` variables and the secrets that they get, `secrets` those that parameters may name.
    `parameters` is the JSON Schema of its parameters, None for any. `max_memory_bytes` and
    `max_cuda_memory_bytes` (per device) are the most one task may request, None for no limit. A warm
    process ends after `max_tasks`, or once its memory has grown by `max_growth_bytes` since the end of its
    first task. `enforce_factor` is how many times its estimate a task may use, None if that isn't enforced.
    `digest` is the SHA-256 of what the catalogue says of it, as it is written there.
    """

    name: str
    entry: str = ""
    path: str = ""
    environment: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    parameters: Json | None = None
    max_memory_bytes: int | None = None
    max_cuda_memory_bytes: int | None = None
    runner: Literal["process", "warm", "service"] = "process"
    max_tasks: int | None = None
    max_growth_bytes: int | None = None
    digest: str = ""
    secret_environment: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    enforce_factor: float | None = None


@dataclass(frozen=True, slots=True)
class TaskCatalogue:
    """The task types of a worker, and modules to import once for all of them."""

    tasks: Mapping[str, TaskType] = field(default_factory=dict)
    preload: tuple[str, ...] = ()

    @property
    def max_memory_bytes(self) -> dict[str, int]:
        """The most memory of the host that one task may have, by the types that have such a limit."""
        limits = {name: task_type.max_memory_bytes for name, task_type in sorted(self.tasks.items())}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def max_cuda_memory_bytes(self) -> dict[str, int]:
        """The same for the memory of each GPU."""
        limits = {name: task_type.max_cuda_memory_bytes for name, task_type in sorted(self.tasks.items())}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def digests(self) -> dict[str, str]:
        """The digests of what it says of each task type."""
        return {name: task_type.digest for name, task_type in sorted(self.tasks.items()) if task_type.digest}

    @property
    def services(self) -> frozenset[str]:
        """The task types that run until they are stopped."""
        return frozenset(name for name, task_type in self.tasks.items() if task_type.runner == "service")

    def secret_refused(self, task_type: str, parameters: Json) -> str | None:
        """Returns why a type is not given a secret that parameters name; None if it is given all of them."""
        known = self.tasks.get(task_type)
        allowed = () if known is None else known.secrets
        for place, name in references_in(parameters):
            if name not in allowed:
                what = f"may name {', '.join(allowed)}" if allowed else "may name no secret"
                return (
                    f"{json_path(place)}: the parameters of {task_type} {what}, and name {name!r}: add it to "
                    "`secrets` of the task type in the catalogue of the worker"
                )
        return None

    def violation_of(self, task_type: str, parameters: Json) -> str | None:
        """Returns how parameters violate the schema of a type, as a sentence; None if they don't.

        The value of a secret is a text; no other rule is checked of it.
        """
        known = self.tasks.get(task_type)
        schema = None if known is None else known.parameters
        return None if schema is None else violation(schema, parameters)


class _Task(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    entry: str | None = None
    program: list[str] | None = Field(default=None, min_length=1, max_length=MAX_ITEMS)
    path: str = ""
    environment: list[str | dict[str, Any]] = Field(default=[], max_length=100)
    secrets: list[Identifier] = Field(default=[], max_length=100)
    parameters: dict[str, Any] | None = None
    max_memory: Memory | None = None
    max_cuda_memory: Memory | None = None
    enforce: Literal["estimate"] | None = None
    enforce_factor: float | None = Field(default=None, ge=1, le=MAX_ENFORCE_FACTOR, allow_inf_nan=False)
    runner: Literal["process", "warm", "service"] = "process"
    max_tasks: int | None = Field(default=None, ge=1, le=1_000_000)
    max_growth: Memory | None = None
    version: str = Field(default="", max_length=200)

    @field_validator("entry")
    @classmethod
    def _is_entry(cls, text: str | None) -> str | None:
        if text is not None and _ENTRY.fullmatch(text) is None:
            raise PydanticCustomError("bad_entry", "expected module:Class, such as digits:Digits")
        return text

    @field_validator("program")
    @classmethod
    def _is_program(cls, items: list[str] | None) -> list[str] | None:
        for at, item in enumerate(items or []):
            _check_item(at, item)
        return items

    @field_validator("environment")
    @classmethod
    def _is_harmless(cls, items: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
        for name in items:
            if isinstance(name, dict):
                _check_variables(name)
            elif _SERVICE_VARIABLE.fullmatch(name.upper()):
                raise PydanticCustomError(
                    "secret_variable",
                    "{name} may hold a secret: write {name}: {example}",
                    {"name": name, "example": "{secret: NAME}"},
                )
        return items

    @field_validator("parameters")
    @classmethod
    def _is_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            if schema is not None:
                too_costly = SchemaCosts().add([SchemaCheck("$", schema, ())])
                if too_costly is not None:
                    raise PydanticCustomError("too_costly", "{reason}", {"reason": too_costly.message})
                compile_schema(schema)
        except BadSchemaError as error:
            raise PydanticCustomError("bad_schema", "{reason}", {"reason": str(error)}) from error
        return schema

    @model_validator(mode="after")
    def _is_one_thing(self) -> "_Task":
        if (self.entry is None) == (self.program is None):
            raise PydanticCustomError(
                "entry_or_program",
                "expected either entry (module:Class) or program (a list), and not both",
            )
        if self.runner == "warm" and self.program is not None:
            raise PydanticCustomError(
                "warm_program", "runner: warm is for classes (entry); a program gets a process each time"
            )
        if self.runner != "warm" and (self.max_tasks is not None or self.max_growth is not None):
            raise PydanticCustomError("not_warm", "max_tasks and max_growth are for runner: warm")
        if self.enforce is None and self.enforce_factor is not None:
            raise PydanticCustomError("not_enforced", "enforce_factor is for enforce: estimate")
        return self


def _check_variables(given: dict[str, Any]) -> None:
    for name, reference in given.items():
        if _VARIABLE.fullmatch(name) is None or name.startswith("TRACKSIDE_"):
            raise PydanticCustomError(
                "bad_variable",
                "{name} can't be a variable of a task: expected letters, digits and '_', no TRACKSIDE_...",
                {"name": repr(name[:200])},
            )
        if not is_reference(reference):
            raise PydanticCustomError(
                "bad_secret",
                "{name}: expected {example}, where NAME is {rule}",
                {"name": name, "example": "{secret: NAME}", "rule": IDENTIFIER_RULE},
            )


def _check_item(at: int, item: str) -> None:
    where = {"at": at, "known": ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)}
    if not item:
        raise PydanticCustomError("empty_item", "item {at} is empty; leave it out", where)
    if "\x00" in item:
        raise PydanticCustomError("nul_item", "item {at} holds a NUL character", where)
    for name in _PLACEHOLDER.findall(item):
        if name not in PLACEHOLDERS:
            raise PydanticCustomError(
                "unknown_placeholder",
                "item {at}: nothing is known to replace {name} with; expected one of {known}",
                {**where, "name": f"{{{name}}}"},
            )


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    tasks: dict[str, _Task]
    preload: list[str] = []


def read_catalogue(path: Path) -> TaskCatalogue:
    """Reads the catalogue file and the entry points. Raises CatalogueError."""
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
    tasks = installed_task_types()
    parsed = _parsed(path, found)
    tasks.update({name: _task(path, name, task) for name, task in parsed.tasks.items()})
    return TaskCatalogue(tasks, tuple(parsed.preload))


def installed_task_types() -> dict[str, TaskType]:
    """Returns the task types that installed packages define in the entry-point group `trackside.tasks`.

    Raises CatalogueError for one whose name can't be that of a task type, or is reserved.
    """
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    for point in points:
        package = "" if point.dist is None else f" of {point.dist.name}"
        _check_name(f"entry point {ENTRY_POINTS} {point.name!r}{package}", point.name)
    return {
        point.name: TaskType(point.name, point.value, digest=_digest_of_point(point))
        for point in points
        if _ENTRY.fullmatch(point.value)
    }


def _check_name(where: str, name: str) -> None:
    if not is_identifier(name):
        raise CatalogueError(f"{where}: a task type is {IDENTIFIER_RULE}")
    if name.startswith(RESERVED):
        raise CatalogueError(
            f"{where}: names that begin with {RESERVED!r} are those of tasks that every worker runs itself; "
            "take another one"
        )


def _digest_of_point(point: importlib.metadata.EntryPoint) -> str:
    package = {} if point.dist is None else {"package": point.dist.name, "version": point.dist.version}
    return canonical_digest({"entry": point.value, **package})


def _parsed(path: Path, found: dict[str, Any]) -> _File:
    try:
        return _File.model_validate(found)
    except ValidationError as error:
        problem = problem_of(error, field_names(_File), found)
        raise CatalogueError(f"{path}: {problem.path}: {problem.message}") from error


def _task(path: Path, name: str, task: _Task) -> TaskType:
    where = f"{path}: $.tasks.{name}"
    _check_name(where, name)
    folder = ""
    if task.path:
        folder = str((path.parent / task.path).resolve())
        if not Path(folder).is_dir():
            raise CatalogueError(f"{where}.path: no folder at {folder}")
    return TaskType(
        name,
        entry=task.entry or "",
        path=folder,
        environment=tuple(each for each in task.environment if isinstance(each, str)),
        secret_environment=tuple(
            (variable, SecretRef.model_validate(reference).secret)
            for each in task.environment
            if isinstance(each, dict)
            for variable, reference in each.items()
        ),
        secrets=tuple(task.secrets),
        program=tuple(_absolute_item(where, folder, at, item) for at, item in enumerate(task.program or [])),
        parameters=task.parameters,
        max_memory_bytes=task.max_memory,
        max_cuda_memory_bytes=task.max_cuda_memory,
        runner=task.runner,
        max_tasks=(task.max_tasks or WARM_TASKS) if task.runner == "warm" else None,
        max_growth_bytes=(task.max_growth or WARM_GROWTH_BYTES) if task.runner == "warm" else None,
        enforce_factor=(task.enforce_factor or ENFORCE_FACTOR) if task.enforce else None,
        digest=canonical_digest(task.model_dump(mode="json", exclude_defaults=True)),
    )


def _absolute_item(where: str, folder: str, at: int, item: str) -> str:
    """Returns an item of a program; a path (`./`, `../`, or any slash in the first item) becomes absolute."""
    is_path = item.startswith(("./", "../")) or (at == 0 and "/" in item)
    if not is_path or Path(item).is_absolute():
        return item
    if not folder:
        raise CatalogueError(f"{where}.program: item {at} ({item}) is found from `path`, which isn't given")
    return str(Path(folder) / item)
