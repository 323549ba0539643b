"""Which commands users may publish for a run, its steps and its gates."""

import re
from collections.abc import Sequence

from trackside.aggregates.run.messages import (
    AbortPipelineRun,
    AbortStep,
    ApproveGate,
    ArchiveRun,
    PausePipelineRun,
    RejectGate,
    RestartFromStep,
    ResumePipelineRun,
    RetryFailedSteps,
    RunStatus,
    SkipStep,
    UpdatePipelineRun,
)
from trackside.aggregates.run.step_messages import ENDED, FAILURES, StepState
from trackside.console.commands.forms import JSON, Form, Input
from trackside.console.commands.schema_inputs import inputs_of, schema_inputs
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.rows.table import ViewRow

_ENDED = frozenset(state.value for state in ENDED)
_FAILURES = frozenset(state.value for state in FAILURES)
DECISIONS = frozenset(each.wire_type() for each in (ApproveGate, RejectGate))
"""The types of the commands that say who has decided."""
_ITEM = re.compile(r"(\d{1,9})(?:\.|$)")
"""What the id of the task of an item has after the name of its step: its index, then its revival."""
_PATCH = "values that replace those of the definition, as JSON"


def run_actions(run_id: str, row: ViewRow) -> list[Form]:
    """Returns the commands that make sense for a run as its row has it."""
    if row["archived"]:
        return []
    if row["ended_at"] is not None:
        return _ended(run_id, row)
    pause = Form("Pause", run_id, PausePipelineRun, inputs_of(PausePipelineRun, ("running", "reason")))
    resume = Form("Resume", run_id, ResumePipelineRun)
    limits = inputs_of(UpdatePipelineRun, ("timeout_s", "concurrency", "priority"))
    abort = Form(
        "Stop",
        run_id,
        AbortPipelineRun,
        inputs_of(AbortPipelineRun, ("reason",)),
        confirm="Stop this run? Steps that run are ended.",
        is_danger=True,
    )
    is_paused = row["status"] == RunStatus.PAUSED.value
    return [resume if is_paused else pause, Form("Change limits", run_id, UpdatePipelineRun, limits), abort]


def _ended(run_id: str, row: ViewRow) -> list[Form]:
    failed = row["failed_steps"]
    steps = f"{failed} step{'' if failed == 1 else 's'} that failed"
    retry = Form("Retry failed steps", run_id, RetryFailedSteps, confirm=f"Begin {steps} again?")
    archive = Form(
        "Archive",
        run_id,
        ArchiveRun,
        confirm="Archive this run? It can't be continued after that.",
        is_danger=True,
    )
    return [retry, archive] if failed else [archive]


def step_actions(run_id: str, run: ViewRow, step: ViewRow) -> list[Form]:
    """Returns the commands that make sense for a step of a run: which depends on whether the run is over."""
    if run["archived"]:
        return []
    name, state = step["step"], step["state"]
    if run["ended_at"] is not None:
        return _begin_again(run_id, name, state)
    if state in _ENDED:
        return []
    reason = inputs_of(SkipStep, ("reason",))
    if state == StepState.PENDING.value:
        confirm = "Skip this step? Those that need it are omitted."
        return [Form("Skip", run_id, SkipStep, reason, {"step": name}, confirm)]
    inputs = inputs_of(AbortStep, ("index", "reason") if step["items"] > 1 else ("reason",))
    confirm = "Stop this step? What of it runs is ended."
    return [Form("Stop step", run_id, AbortStep, inputs, {"step": name}, confirm, is_danger=True)]


def _begin_again(run_id: str, name: str, state: str) -> list[Form]:
    if "." in name:  # a path has dots between its names
        patches: list[Input] = []
    else:
        patches = [
            Input(f"patch.{name}.parameters", JSON, "parameters", "", _PATCH),
            Input(f"patch.{name}.run_timeout_s", JSON, "run timeout s", "", "a number of seconds"),
        ]
    restart = Form(
        "Restart from here",
        run_id,
        RestartFromStep,
        patches,
        {"steps": [name]},
        "Begin this step and all that come after it again?",
    )
    retry = Form("Retry", run_id, RetryFailedSteps, patches, {"steps": [name]}, "Begin this step again?")
    return [retry, restart] if state in _FAILURES else [restart]


def item_actions(run_id: str, run: ViewRow, step: ViewRow, tasks: Sequence[ViewRow]) -> dict[str, list[Form]]:
    """Returns the forms that end single items of a step, or begin them again, by the id of the item's task.

    `step` is its row with its definition; `tasks` are in the order in which the newest of an item is first.
    """
    name, spec = str(step["step"]), step["spec"] or {}
    if run["archived"] or spec.get("each") is None or "." in name:
        return {}
    found: dict[str, list[Form]] = {}
    seen = set[int]()
    for task in tasks:
        item = _ITEM.match(task["task_id"].removeprefix(f"{run_id}.{name}."))
        if item is None or int(item[1]) in seen:
            continue
        seen.add(int(item[1]))
        made = _item_action(run_id, run["ended_at"] is not None, name, int(item[1]), task)
        if made is not None:
            found[task["task_id"]] = [made]
    return found


def _item_action(run_id: str, is_over: bool, step: str, index: int, task: ViewRow) -> Form | None:
    if not is_over and task["ending"] is None:
        fixed = {"step": step, "index": index}
        return Form("Stop", run_id, AbortStep, fixed=fixed, confirm=f"Stop item {index}?", is_danger=True)
    if is_over and task["ending"] not in (None, AttemptEnd.FINISHED.value):
        fixed = {f"indexes.{step}": [index]}
        return Form("Retry", run_id, RetryFailedSteps, fixed=fixed, confirm=f"Begin item {index} again?")
    return None


def gate_actions(run_id: str, gate: ViewRow) -> list[Form]:
    """Returns the forms that approve and reject an open gate: an input for each field of the gate's form."""
    if gate["state"] != "open":
        return []
    fixed = {"step": gate["step"]}
    reason = inputs_of(RejectGate, ("reason",))
    return [
        Form("Approve", run_id, ApproveGate, schema_inputs("inputs", gate["form"]), fixed),
        Form("Reject", run_id, RejectGate, reason, fixed, "Reject this gate?", is_danger=True),
    ]
