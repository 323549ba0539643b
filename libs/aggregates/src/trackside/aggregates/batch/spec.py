"""The spec files of batches: tasks in groups, or one task, whose fields are at the top level."""

from trackside.aggregates.batch.messages import GroupSpec, StopTasks, SubmitTasks, TaskSpec
from trackside.contracts.envelope.message import Command, Json
from trackside.domain.folding.spec_kind import SpecKind

_OF_GROUP = ("device", "estimate_memory", "estimate_cuda_memory")
_OF_BATCH = ("queue",)


def stop_command(task: str, reason: str) -> Command:
    """Returns what stops a batch, or one task of it."""
    return StopTasks(task=task or None, reason=reason)


def _title(command: SubmitTasks) -> str:
    first = command.groups[0]
    return command.name or (first.tasks[0].task_type if first.tasks else first.children[0].name)


def _batch_of_one_task(body: Json) -> Json:
    """Moves the fields of one task to where they are in a batch: the only task of the only group."""
    task = {name: value for name, value in body.items() if name in TaskSpec.model_fields}
    group = {name: value for name, value in body.items() if name in _OF_GROUP}
    batch = {name: value for name, value in body.items() if name in (*_OF_BATCH, "name")}
    return batch | {"groups": [group | {"tasks": [task]}]}


SPECS = (
    SpecKind("tasks", SubmitTasks, SubmitTasks.model_fields, _title),
    SpecKind(
        "task",
        SubmitTasks,
        TaskSpec.model_fields
        | {name: GroupSpec.model_fields[name] for name in _OF_GROUP}
        | {name: SubmitTasks.model_fields[name] for name in _OF_BATCH},
        _title,
        command_body=_batch_of_one_task,
        moved=(("$.groups[0].tasks[0]", "$"), ("$.groups[0].tasks", "$"), ("$.groups[0]", "$")),
    ),
)
