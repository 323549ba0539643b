"""The trials of a search in its folded state, as plain values and as a table. Pure."""

from collections.abc import Mapping
from typing import Any

from trackside.aggregates.search.messages import TRIAL
from trackside.aggregates.search.state import Trial, trial_status
from trackside.domain.display import task_state
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import Column, TextTable
from trackside.domain.tasks.task import Task


def trial_fields(trial: Trial, task: Task | None) -> Fields:
    """Returns the state of a trial as plain values."""
    reports = trial.reports if trial.ended_at >= 0 or task is None else task.reports
    step, value = reports[-1] if reports else (None, None)
    return {
        "status": trial_status(trial, task).value,
        "source": trial.source,
        "space_version": trial.space_version,
        "outside": list(trial.outside),
        "value": trial.value,
        "non_finite": trial.non_finite or None,
        "values": list(trial.values),
        "missing": list(trial.missing),
        "parameters": trial.parameters,
        "from_trial": trial.from_trial,
        "from_step": None if trial.from_checkpoint is None else trial.from_checkpoint.step,
        "step_limit": trial.step_limit,
        "reports": len(reports),
        "last_step": step,
        "last_value": value,
        "suggested_at": trial.suggested_at,
        "ended_at": trial.ended_at if trial.ended_at >= 0 else None,
        "suggested_ms": trial.suggested_ms,
        "ended_ms": trial.ended_ms or None,
    }


def state_table(trials: Mapping[Any, Fields], tasks: Mapping[str, Fields]) -> TextTable:
    """Returns the table of trials with their tasks."""
    columns = [
        Column("trial", right=True),
        Column("status"),
        Column("value", right=True),
        Column("reports", right=True),
        Column("task", optional=True),
        Column("tries", right=True, optional=True),
        Column("where", optional=True),
        Column("parameters", keep=True),
    ]
    of_trial = {task[TRIAL]: task for task in tasks.values()}
    rows = []
    for name, trial in trials.items():
        task = of_trial.get(name)
        about = ["", "", ""] if task is None else task_state.summary_of(task)
        value = trial["value"] if trial["value"] is not None else trial["last_value"]
        rows.append([name, trial["status"], value, trial["reports"], *about, trial["parameters"]])
    return TextTable(columns, rows)
