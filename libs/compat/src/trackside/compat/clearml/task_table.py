"""Which task type a base task of ClearML is here: a table that its users write."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import nearest

TaskTypes = Mapping[str, Any] | str | os.PathLike[str]
"""A table, or the path of a YAML file with one.

Keys are ids of base tasks, or `PROJECT/NAME`; values are task types, or mappings with `task_type` and further
fields of a step, such as the parameters that the base task had.
"""


def read_table(given: TaskTypes | None) -> dict[str, Json]:
    """Returns the fields of a step for each base task. Raises ValueError for what is no such table."""
    where = "task_types"
    if isinstance(given, str | os.PathLike):
        where = os.fspath(given)
        try:
            given = yaml.safe_load(Path(given).read_text("utf-8"))
        except (OSError, UnicodeError, yaml.YAMLError) as error:
            raise ValueError(f"{where} can't be read as a table of task types: {error}") from error
    if not isinstance(given, Mapping | None):
        raise ValueError(f"{where}: expected a mapping of base tasks to task types")
    return {str(key): _fields(value, f"{where}: {key}") for key, value in (given or {}).items()}


def _fields(value: Any, where: str) -> Json:
    if isinstance(value, str) and value:
        return {"task_type": value}
    if isinstance(value, Mapping) and isinstance(value.get("task_type"), str):
        return dict(value)
    raise ValueError(f"{where}: expected a task type, or a mapping with `task_type`, got {value!r}")


def key_of(given: Mapping[str, Any]) -> str:
    """Returns the key of the base task of the arguments of add_step; raises ValueError if they name none."""
    if given["base_task_id"]:
        return str(given["base_task_id"])
    if not (given["base_task_project"] and given["base_task_name"]):
        raise ValueError("expected base_task_id, or base_task_project and base_task_name")
    return f"{given['base_task_project']}/{given['base_task_name']}"


def look_up(table: Mapping[str, Json], key: str) -> Json:
    """Returns the fields of a step for a base task; raises ValueError if the table does not have it."""
    if key not in table:
        hint = nearest(key, table) or f"; add it to task_types: {{{key!r}: TASK_TYPE}}"
        raise ValueError(f"no task type for the base task {key!r}{hint}")
    return table[key]
