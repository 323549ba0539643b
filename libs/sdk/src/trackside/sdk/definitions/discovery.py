"""Finds the platform and the names of task types: from the environment, and files in or above this folder."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.wire.topic_rights import PUBLISHER
from trackside.sdk.definitions.yaml_core import YamlError, read_yaml
from trackside.sdk.errors import ClientError, SpecError
from trackside.sdk.task import Task

if TYPE_CHECKING:
    from trackside.eventlog.settings.kafka_settings import KafkaSettings

BOOTSTRAP, PREFIX = "TRACKSIDE_KAFKA_BOOTSTRAP", "TRACKSIDE_TOPIC_PREFIX"
STACK = Path(".trackside") / "stack.json"
CATALOGUE = "catalogue.yaml"


def bootstrap() -> "KafkaSettings | str":
    """Returns Kafka's address: from the environment, else of the nearest stack that `trackside up` started.

    Of a stack with users it is how a publisher connects. Raises ClientError if there is neither.
    """
    given = os.environ.get(BOOTSTRAP, "")
    if given:
        return given
    path = _nearest(STACK)
    if path is None:
        raise ClientError(
            f"no {STACK} in {Path.cwd()} or above it, and {BOOTSTRAP} is not set: run `trackside up`, "
            "or give the address of Kafka"
        )
    try:
        found = json.loads(path.read_text("utf-8"))
        address, secure = str(found["bootstrap_servers"]), str(found.get("secure", ""))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClientError(
            f"{path} is not what `trackside up` writes there: {error}; start the stack again"
        ) from error
    if not secure:
        return address
    from trackside.eventlog.settings.secure_folder import (
        settings_of,  # tasks import this module, and never connect
    )

    try:
        return settings_of(Path(secure), address, PUBLISHER)
    except ValueError as error:
        raise ClientError(str(error)) from error


def prefix() -> str:
    """Returns the prefix of topic names, empty by default."""
    return os.environ.get(PREFIX, "")


def task_type_of(task: type[Task]) -> str:
    """Returns the name of a class in the nearest catalogue; raises SpecError if it has none.

    A class of the main script is looked up under the name of its file.
    """
    entry, path = _entry(task), _nearest(Path(CATALOGUE))
    line = f"tasks: {{{task.__qualname__.lower()}: {{entry: {entry!r}, path: .}}}}"
    if path is None:
        raise _unknown("", f"no {CATALOGUE} in {Path.cwd()} or above it; one with {line} makes it known")
    try:
        tasks = read_yaml(path.read_bytes()).value["tasks"]
        entries = {name: task["entry"] for name, task in tasks.items() if "entry" in task}
    except (OSError, YamlError, KeyError, TypeError, AttributeError) as error:
        raise _unknown(str(path), f"can't be read as a catalogue: {error}") from error
    for name, known in entries.items():
        if known == entry:
            return str(name)
    raise _unknown(str(path), f"has no task with entry {entry!r}; add {line} and start the worker again")


def _entry(task: type[Task]) -> str:
    if task.__module__ != "__main__":
        return f"{task.__module__}:{task.__qualname__}"
    script = getattr(sys.modules["__main__"], "__file__", None) or "main"
    return f"{Path(script).stem}:{task.__qualname__}"


def _nearest(name: Path) -> Path | None:
    try:
        here = Path.cwd()
    except OSError as error:
        raise ClientError(
            f"the current folder can't be used: {error.strerror}; change to one that exists"
        ) from error
    found = (folder / name for folder in (here, *here.parents) if (folder / name).is_file())
    return next(found, None)


def _unknown(file: str, message: str) -> SpecError:
    return SpecError(file or CATALOGUE, 0, Problem(code="unknown_task_type", path="$.task", message=message))


def policy(given: str | dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns a tuner or an assessor as a spec has it: a bare name becomes an object."""
    return {"name": given} if isinstance(given, str) else given
