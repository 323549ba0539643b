"""Which commands users may publish for a stream from its page, by kind and status."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trackside.aggregates.batch.messages import StopTasks
from trackside.aggregates.dataset.messages import DeleteDataset, PauseDataset, ResumeDataset
from trackside.aggregates.rounds.messages import DeleteIncrementalJob
from trackside.aggregates.search.messages import (
    AddTrial,
    PauseSearch,
    ResumeSearch,
    StopSearch,
    UpdateSearch,
    UpdateSearchSpace,
)
from trackside.aggregates.summary.messages import AnnotateSummaryJob, DeleteSummaryJob, RestoreSummaryJob
from trackside.console.commands.forms import CHOICE, JSON, LIST, NUMBER, TEXT, Form, Input
from trackside.console.commands.model_actions import model_actions
from trackside.console.commands.pipeline_actions import change_actions
from trackside.console.commands.round_actions import job_actions
from trackside.console.commands.run_actions import run_actions
from trackside.console.commands.schema_inputs import inputs_of
from trackside.contracts.fleet.draining import DrainDevice, ResumeDevice
from trackside.contracts.streams.labels import AnnotateStream
from trackside.contracts.tasks.artifacts import ForgetArtifacts
from trackside.domain.rows.table import ViewRow

DELETIONS = frozenset(
    kind.wire_type() for kind in (DeleteDataset, DeleteIncrementalJob, DeleteSummaryJob, ForgetArtifacts)
)
"""The types of commands that only an admin may publish here."""
STOP, ARCHIVE = "Stop", "Leave out of lists"
"""Labels of the forms that a selection of experiments has too."""
Actions = Callable[[str, ViewRow], list[Form]]


def actions_of(kind: str, stream_id: str, row: ViewRow) -> list[Form]:
    """Returns the commands that make sense for a stream now; the dispatcher checks them in any case."""
    made = _ACTIONS.get(kind)
    return [*([] if made is None else made(stream_id, row)), *_label_actions(stream_id, row)]


def _label_actions(stream_id: str, row: ViewRow) -> list[Form]:
    """Returns the forms of what users note about any stream."""
    labels = row.get("stream_labels") or {"tags": [], "note": "", "archived": False}
    inputs = [
        Input("add_tags", LIST, "add tags", "", "separated by commas"),
        Input("remove_tags", LIST, "remove tags", "", ", ".join(labels["tags"])),
        Input("note", TEXT, "note", labels["note"] or ""),
    ]
    archived = bool(labels["archived"])
    return [
        Form("Tags and note", stream_id, AnnotateStream, inputs),
        Form(
            "List again" if archived else ARCHIVE,
            stream_id,
            AnnotateStream,
            fixed={"archived": not archived},
        ),
    ]


def _status(row: ViewRow) -> str:
    return str(row["status"]).lower()


def _search(stream_id: str, row: ViewRow) -> list[Form]:
    if row["ended_at"] is not None:
        return []
    pause = Form("Pause", stream_id, PauseSearch, inputs_of(PauseSearch, ("running", "reason")))
    resume = Form("Resume", stream_id, ResumeSearch)
    spec: Mapping[str, Any] = row["spec"]
    limits = ("concurrency", "max_trials", "max_duration_s", "max_trial_duration_s", "goal")
    return [
        resume if _status(row) in ("paused", "pausing") else pause,
        Form("Add trial", stream_id, AddTrial, trial_inputs(spec["space"])),
        Form("Change limits", stream_id, UpdateSearch, inputs_of(UpdateSearch, limits, spec)),
        Form(
            "Change space",
            stream_id,
            UpdateSearchSpace,
            [Input("space", JSON, "space", spec["space"], "as JSON", required=True)],
        ),
        Form(
            "Stop",
            stream_id,
            StopSearch,
            inputs_of(StopSearch, ("reason",)),
            confirm="Stop this search? Its running trials are ended.",
            is_danger=True,
        ),
    ]


def trial_inputs(space: Mapping[str, Any]) -> list[Input]:
    """Returns an input for each parameter of a space; the tuner draws those that are left empty."""
    made = [_parameter_input(name, definition) for name, definition in space.items()]
    return [*made, *inputs_of(AddTrial, ("tell_tuner", "outside"))]


def _parameter_input(name: str, definition: Mapping[str, Any]) -> Input:
    path, kind = f"parameters.{name}", str(definition["type"])
    if "." in name:  # a path has dots between its names
        return Input("parameters", JSON, name, "", f'as JSON: {{"{name}": ...}}')
    if kind == "choice":
        values = definition["values"]
        if all(isinstance(value, str) for value in values):
            return Input(path, CHOICE, name, choices=["", *values])
        shown = ", ".join(str(value) for value in values[:8])
        return Input(path, JSON, name, "", f"as JSON, one of {shown}")
    if "low" in definition and "high" in definition:
        low, high = definition["low"], definition["high"]
        return Input(path, NUMBER, name, "", f"{kind}, {low} to {high}")
    return Input(path, NUMBER, name, "", kind)


def _batch(stream_id: str, row: ViewRow) -> list[Form]:
    if row["ended_at"] is not None:
        return []
    reason = inputs_of(StopTasks, ("reason",))
    confirm = "Stop these tasks? Those that run are ended."
    return [Form("Stop", stream_id, StopTasks, reason, confirm=confirm, is_danger=True)]


def _dataset(stream_id: str, row: ViewRow) -> list[Form]:
    if _status(row) == "deleted":
        return []
    pause = Form("Pause", stream_id, PauseDataset, inputs_of(PauseDataset, ("reason",)))
    confirm = "Delete this dataset? Its file stays as it is."
    return [
        Form("Resume", stream_id, ResumeDataset) if _status(row) != "active" else pause,
        Form(
            "Delete",
            stream_id,
            DeleteDataset,
            inputs_of(DeleteDataset, ("reason",)),
            confirm=confirm,
            is_danger=True,
        ),
    ]


def _summary(stream_id: str, row: ViewRow) -> list[Form]:
    if _status(row) == "deleted":
        return [Form("Restore", stream_id, RestoreSummaryJob)]
    return [
        Form(
            "Tag and remark",
            stream_id,
            AnnotateSummaryJob,
            inputs_of(AnnotateSummaryJob, ("tag", "remark")),
        ),
        Form(
            "Delete",
            stream_id,
            DeleteSummaryJob,
            inputs_of(DeleteSummaryJob, ("reason",)),
            confirm="Delete this job? It can be restored.",
            is_danger=True,
        ),
    ]


_ACTIONS: Mapping[str, Actions] = {
    "search": _search,
    "batch": _batch,
    "run": run_actions,
    "pipeline": change_actions,
    "model": model_actions,
    "rounds": job_actions,
    "dataset": _dataset,
    "summary": _summary,
}


def worker_actions(worker_id: str, devices: Sequence[ViewRow]) -> list[Form]:
    """Returns the forms that take all devices of a worker out of use, and into use again."""
    drained = [str(each["device_id"]) for each in devices if each["draining"]]
    others = [str(each["device_id"]) for each in devices if not each["draining"]]
    confirm = "Tasks that run on its devices end normally; no new ones begin."
    reason = inputs_of(DrainDevice, ("reason",))
    drain = Form("Drain all devices", worker_id, DrainDevice, reason, confirm=confirm, devices=others)
    resume = Form("Resume all devices", worker_id, ResumeDevice, devices=drained)
    return [form for form in (drain, resume) if form.devices]


def device_action(device: ViewRow) -> Form:
    """Returns the form that takes a device out of use, or into use again, in the stream of its worker."""
    worker, fixed = str(device["worker_id"]), {"device": device["device_id"]}
    if device["draining"]:
        return Form("Resume", worker, ResumeDevice, fixed=fixed)
    confirm = "Tasks that run on it end normally; no new ones begin."
    return Form(
        "Drain", worker, DrainDevice, inputs_of(DrainDevice, ("reason",)), fixed=fixed, confirm=confirm
    )
