"""Lists of trials as files: exports of a search, and trials to import into one.

A JSON file is a list of objects with `parameters` and `value`; NNI's names, `parameter` and a value as JSON
text, are read too. A CSV file has a column `value` and one for each parameter, under its name or with the
prefix `parameters.`; a cell is JSON, else text, and an empty cell means that the trial lacks the parameter.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from trackside.aggregates.search.messages import ImportTrials, PastTrial, StartSearch, TrialStatus
from trackside.aggregates.search.state import Search, Trial, search_of
from trackside.aggregates.search.trials.objectives import names_of
from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.envelope.topics import MAX_COMMAND_BYTES
from trackside.contracts.tasks.tasks import Figure, NonFinite
from trackside.contracts.wire.codec import validate_command
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import TaskState
from trackside.sdk.definitions.yaml_core import YamlError, read_yaml
from trackside.sdk.errors import SpecError, UnsendableError

PARAMETER_PREFIX, OBJECTIVE_PREFIX = "parameters.", "values."
MAX_TRIALS_PER_COMMAND = 10_000
"""The limit of ImportTrials."""
MAX_BYTES_PER_COMMAND = MAX_COMMAND_BYTES // 2
_ABOUT = ("trial", "status", "value", "task_id", "trialJobId", "trial_job_id", "intermediate", "reward")
"""Columns of a CSV file that aren't parameters, where these have no prefix; also the names that NNI uses."""
_ORIGIN = ("source", "space_version")
"""The source of a trial and the version of its space; not every list has them."""


def export_rows(stream: Stream, every: bool = False) -> list[Json]:
    """Returns a search's trials of its space that succeeded and have a value; with `every` all of them.

    Where there are several objectives, `values` are those of all of them, by their names.
    """
    search = search_of(stream)
    if search is None:
        return []
    return [_row(stream, search, trial) for trial in search.trials if every or _is_result(trial)]


def status_of(stream: Stream, trial: Trial) -> TrialStatus:
    """Returns the state of a trial, also of one that has not ended."""
    if trial.status is not None:
        return trial.status
    task = stream.tasks.get(trial.task_of(stream.stream_id))
    runs = task is not None and task.state in (TaskState.ACTIVE, TaskState.ENDED)
    return TrialStatus.RUNNING if runs else TrialStatus.WAITING


def values_of(search: Search, trial: Trial) -> dict[str, Figure | None]:
    """Returns a trial's value for each objective of its search, by name; None where it has none."""
    names = names_of(search.spec)
    only = trial.value if trial.value is not None else cast("NonFinite | None", trial.non_finite or None)
    found: Sequence[Figure | None] = trial.values or [only, *[None] * (len(names) - 1)]
    return dict(zip(names, found, strict=True))


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats exported trials as CSV, with a column for each parameter and each objective of any of them."""
    names = list(dict.fromkeys(name for row in rows for name in row["parameters"]))
    objectives = list(dict.fromkeys(name for row in rows for name in row.get("values", ())))
    about = [name for name in _ORIGIN if any(name in row for row in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = [
        *(f"{OBJECTIVE_PREFIX}{name}" for name in objectives),
        *(f"{PARAMETER_PREFIX}{name}" for name in names),
    ]
    writer.writerow(["trial", "status", "value", "task_id", *about, *columns])
    for row in rows:
        value = "" if row["value"] is None else _cell(row["value"])
        values = {name: one for name, one in row.get("values", {}).items() if one is not None}
        cells = [_cell(values[name]) if name in values else "" for name in objectives]
        cells += [_cell(row["parameters"][name]) if name in row["parameters"] else "" for name in names]
        origin = [row.get(name, "") for name in about]
        writer.writerow([row["trial"], row["status"], value, row["task_id"], *origin, *cells])
    return text.getvalue()


def to_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats exported trials as JSON, one per line."""
    return "[" + ",\n ".join(json.dumps(row, allow_nan=False) for row in rows) + "]\n"


def read_trials(path: Path) -> list[Json]:
    """Reads a file of trials, CSV by its suffix, else JSON or YAML; raises SpecError.

    Trials without a value, which an export of every trial contains, are left out.
    """
    try:
        octets = path.read_bytes()
    except OSError as error:
        raise _fault(path, 0, "unreadable", f"cannot be read: {error.strerror or error}") from error
    if path.suffix.lower() == ".csv":
        return _read_csv(path, octets)
    try:
        found = json.loads(octets) if path.suffix.lower() == ".json" else read_yaml(octets).value
    except json.JSONDecodeError as error:
        raise _fault(path, error.lineno, "not_json", error.msg) from error
    except UnicodeDecodeError as error:
        raise _fault(path, 1, "not_utf8", f"byte {error.start} is not UTF-8") from error
    except YamlError as error:
        raise _fault(path, error.line, "not_yaml", str(error)) from error
    if not isinstance(found, list):
        given = type(found).__name__
        raise _fault(path, 1, "not_object", f"expected a list of {{parameters, value}}, got {given}")
    return [past for past in map(past_trial, found) if not _is_empty(past)]


def past_trial(past: Any) -> Any:
    """Reads a trial of a list, ours or NNI's: `parameter`, and a value as JSON text or an object."""
    if not isinstance(past, dict):
        return past
    value = past.get("value")
    value = _value(value) if isinstance(value, str) else value
    value = value.get("default") if isinstance(value, dict) else value
    return {"parameters": past.get("parameters", past.get("parameter")), "value": value}


def import_commands(trials: Iterable[Any]) -> list[ImportTrials]:
    """Returns commands that import trials, as few as their limits permit; raises UnsendableError."""
    return [_import(group, first) for first, group in _groups(list(trials))]


def with_past(command: Command, trials: Sequence[PastTrial]) -> Command | None:
    """Returns the command of a search with more past trials to start with; None if it starts no search."""
    if not isinstance(command, StartSearch):
        return None
    return command.model_copy(update={"past": [*command.past, *trials]})


def _row(stream: Stream, search: Search, trial: Trial) -> Json:
    several = len(search.spec.objectives) > 1
    return {
        "trial": trial.number,
        "status": status_of(stream, trial).value,
        "value": trial.value,
        **({"values": values_of(search, trial)} if several else {}),
        "parameters": trial.parameters,
        "task_id": search.task_of(trial.number),
        "source": trial.source,
        "space_version": trial.space_version,
    }


def _is_result(trial: Trial) -> bool:
    return trial.status is TrialStatus.SUCCEEDED and trial.value is not None and not trial.outside


def _is_empty(past: Any) -> bool:
    return isinstance(past, dict) and past["value"] is None and isinstance(past["parameters"], dict)


def _cell(value: Any) -> str:
    """Formats a value so that `_value` parses it back: text as it is, unless it parses as JSON."""
    if isinstance(value, str) and value and _value(value) == value:
        return value
    return json.dumps(value, allow_nan=False)


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text


def _read_csv(path: Path, octets: bytes) -> list[Json]:
    try:
        lines = csv.reader(io.StringIO(octets.decode("utf-8-sig"), newline=""), strict=True)
        head = next(lines, [])
        _check_head(path, head)
        names = _parameters(head)
        found = []
        for cells in lines:
            if len(cells) != len(head) and cells:
                message = f"{len(cells)} cells, the head has {len(head)}"
                raise _fault(path, lines.line_num, "not_object", message)
            row = dict(zip(head, cells, strict=False))
            given = row.get("value") or row.get("reward")
            if given:
                parameters = {name: _value(row[column]) for column, name in names.items() if row[column]}
                found.append({"parameters": parameters, "value": past_trial({"value": given})["value"]})
    except UnicodeDecodeError as error:
        raise _fault(path, 1, "not_utf8", f"byte {error.start} is not UTF-8") from error
    except csv.Error as error:
        raise _fault(path, lines.line_num, "not_csv", str(error)) from error
    return found


def _check_head(path: Path, head: Sequence[str]) -> None:
    if len(set(head)) != len(head):
        raise _fault(path, 1, "unknown_field", "a column appears twice")
    if not {"value", "reward"} & set(head):
        raise _fault(path, 1, "missing_field", f"no column 'value'; its columns are: {', '.join(head)}")
    if not _parameters(head):
        raise _fault(path, 1, "missing_field", "no column of a parameter")


def _parameters(head: Sequence[str]) -> dict[str, str]:
    """Returns the columns of parameters, and their names."""
    marked = {
        column: column.removeprefix(PARAMETER_PREFIX)
        for column in head
        if column.startswith(PARAMETER_PREFIX)
    }
    return marked or {column: column for column in head if column not in _ABOUT}


def _groups(trials: list[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Splits a list into parts that fit one command; yields the index of each part and the part."""
    first, size = 0, 0
    for at, past in enumerate(trials):
        octets = len(json.dumps(past, default=str)) + 2
        if at > first and (at - first >= MAX_TRIALS_PER_COMMAND or size + octets > MAX_BYTES_PER_COMMAND):
            yield first, trials[first:at]
            first, size = at, 0
        size += octets
    if trials:
        yield first, trials[first:]


def _import(group: list[Any], first: int) -> ImportTrials:
    found = validate_command(ImportTrials.wire_type(), {"trials": group}, (ImportTrials,))
    if isinstance(found, tuple):
        where = f" (of the part that begins with trial {first} of the list)" if first else ""
        raise UnsendableError(*(each.model_copy(update={"message": each.message + where}) for each in found))
    assert isinstance(found, ImportTrials)
    return found


def _fault(path: Path, line: int, code: str, message: str) -> SpecError:
    return SpecError(str(path), line, Problem(code=code, message=message))
