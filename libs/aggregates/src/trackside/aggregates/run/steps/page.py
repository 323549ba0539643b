"""Facts and tables of a run's page, from its rows. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from trackside.aggregates.run.step_messages import FAILURES
from trackside.domain.display.redacted import redacted_note
from trackside.domain.display.text import Column, TextTable, as_text, duration, one_line
from trackside.domain.rows.table import ViewRow

VALUE_WIDTH, VALUES_WIDTH = 24, 40
"""How many characters of a parameter's value, and of all parameters of a step, a table shows."""


def cut(value: object, width: int) -> str:
    """Returns a value as a line of at most so many characters, and ` ...` if there are more."""
    text = one_line(as_text(value))
    return text if len(text) <= width else f"{text[:width]} ..."


def short_values(values: object, value_width: int = VALUE_WIDTH, width: int = VALUES_WIDTH) -> str:
    """Returns parameters as a short text, each value and the whole cut: `rows=500 lr=0.5 ...`."""
    if not isinstance(values, dict) or not values:
        return ""
    text = " ".join(f"{name}={cut(value, value_width)}" for name, value in values.items())
    return text if len(text) <= width else f"{text[: width - 4]} ..."


def facts(run: ViewRow, gates: Iterable[ViewRow]) -> list[tuple[str, object]]:
    """Returns what is said of a run as a whole."""
    status = run["status"] + (f" ({run['stop_reason']})" if run["stop_reason"] else "")
    steps = f"{run['ended_steps']} ended of {run['steps']}, {run['open_steps']} open"
    if run["failed_steps"]:
        steps += f", {run['failed_steps']} failed"
    found: list[tuple[str, object]] = [
        ("run", run["run_id"]),
        ("name", run["name"]),
        ("status", status + (", archived" if run["archived"] else "")),
        ("steps", f"{steps}; {run['progress']:.0%} done"),
    ]
    if run["pipeline_id"]:
        found.append(("pipeline", f"{run['pipeline_id']}@{run['version']}, run #{run['number']}"))
    if run["causes"]:
        found.append(("failed for", run["causes"]))
    if run["revival"]:
        found.append(("continued", "once" if run["revival"] == 1 else f"{run['revival']} times"))
    if run["parameters"]:
        found.append(("parameters", run["parameters"]))
    found += [("output", f"{name}: {cut(value, 200)}") for name, value in run["outputs"].items()]
    found += [
        ("waits for", f"gate {gate['step']}: trackside approve {run['run_id']} {gate['step']}{_form(gate)}")
        for gate in gates
        if gate["state"] == "open"
    ]
    found += [("started", run["started_at"]), ("ended", run["ended_at"])]
    if run["due_at"] is not None:
        found.append(("time limit", run["due_at"]))
    return found


def _form(gate: ViewRow) -> str:
    """Returns the options that a form needs: its fields without a default."""
    return "".join(
        f" --set {name}=..."
        for name, schema in gate["form"].items()
        if not isinstance(schema, dict) or "default" not in schema
    )


def notes_of(tasks: Iterable[ViewRow]) -> dict[str, str]:
    """Returns what is said of steps with tasks whose results are redacted, by the step."""
    return {task["name"]: note for task in tasks if (note := redacted_note(task["result"]))}


def step_table(steps: Sequence[ViewRow], notes: Mapping[str, str]) -> TextTable:
    """Returns the table of steps; columns that none of them has a value for are left out.

    `notes` are said of steps that there is no more to say of.
    """
    columns = [
        Column("step", keep=True),
        Column("runs", optional=True),
        Column("state"),
        Column("items", right=True),
        Column("waited", right=True),
        Column("took", right=True),
        Column("parameters"),
        Column("why", keep=True),
    ]
    rows = [_step_cells(step, notes) for step in steps]
    empty = {at for at in (3, 6, 7) if not any(row[at] for row in rows)}
    kept = [at for at in range(len(columns)) if at not in empty]
    return TextTable([columns[at] for at in kept], [[row[at] for at in kept] for row in rows])


def _step_cells(step: ViewRow, notes: Mapping[str, str]) -> list[object]:
    several = step["items"] > 1 or len(step["ends"]) > 1
    waited = None if step["waited_s"] is None else duration(step["waited_s"])
    return [
        step["step"],
        step["what"],
        step["state"],
        f"{sum(step['ends'].values())}/{step['items']}" if several else None,
        waited,
        duration(step["took_s"]),
        short_values(step["parameters"]),
        why(step) or notes.get(step["step"], ""),
    ]


def why(step: ViewRow) -> str:
    """Returns why a step ended as it did, as far as its row says it."""
    if step["error"] is not None:
        return str(step["error"]["message"])
    unlike = step["end_kind"] if step["state"] in FAILURES and step["end_kind"] != step["state"] else ""
    return str(step["reason"] or unlike)


def gate_table(gates: Iterable[ViewRow]) -> TextTable:
    """Returns the table of gates that were opened."""
    columns = [
        Column("gate", keep=True),
        Column("is"),
        Column("by"),
        Column("opened", optional=True),
        Column("decided"),
        Column("due", optional=True),
        Column("form", keep=True),
        Column("message", keep=True),
    ]
    names = ("step", "state", "actor", "opened_at", "decided_at", "due_at")
    rows = [
        [
            *(gate[name] for name in names),
            gate["inputs"] if gate["decided_at"] else list(gate["form"]),
            gate["reason"] or gate["message"],
        ]
        for gate in gates
    ]
    return TextTable(columns, rows)
