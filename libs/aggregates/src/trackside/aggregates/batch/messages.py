"""Batches: tasks that are submitted on their own, and children, in groups that run one after another."""

from collections import Counter
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.memory import Memory
from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json, is_absent
from trackside.contracts.tasks.artifacts import ArtifactReference, Inputs
from trackside.contracts.tasks.resources import Needs, Priority, Resources, RetryPolicy, ServiceRule, Timeout

GROUP = "group"
"""The kind of part that the tasks of a batch are for; its number counts from 0."""
MAX_TASKS = 10_000
MAX_CHILDREN = 100
"""How many children a group may have."""


class BatchStatus(StrEnum):
    """The states of a batch; a batch is DONE however its tasks ended."""

    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    DONE = "DONE"
    STOPPED = "STOPPED"


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


# Left out where there is nothing to say: thousands of tasks have to fit one record.
_Absent = Field(default=None, exclude_if=is_absent)


class TaskSpec(_Spec):
    """One task of a group; what it leaves out comes from its group, then from its batch.

    `name` is unique in its group; a task without one is called by its number, from 1. Its `inputs` are added
    to those of the batch, and replace those of the same name.
    """

    name: Identifier | None = _Absent
    task_type: str = Field(min_length=1, max_length=200)
    parameters: Json = Field(default={}, exclude_if=is_absent)
    resources: Resources | None = _Absent
    retry: RetryPolicy | None = _Absent
    priority: Priority | None = _Absent
    preempt: bool | None = _Absent
    exclusive: bool | None = _Absent
    queue_timeout_s: Timeout | None = _Absent
    run_timeout_s: Timeout | None = _Absent
    inputs: Inputs = Field(default={}, exclude_if=is_absent)
    service: ServiceRule = _Absent
    preemptible: bool | None = _Absent


class ChildSpec(_Spec):
    """A stream of its own that a group begins and waits for, such as a search.

    `name` differs from those of the other children and the tasks of its group; `spec` is the body of the
    command that begins it. It stands alone: nothing of the batch counts for it.
    """

    name: Identifier
    kind: str = Field(min_length=1, max_length=200)
    spec: Json


class GroupSpec(_Spec):
    """Tasks and children that may run at once; a group begins when the one before it is over.

    Device and estimates count for tasks that don't give their own. Without a name it is `group-N`, from 1.
    """

    name: Identifier | None = _Absent
    children: Annotated[list[ChildSpec], Field(max_length=MAX_CHILDREN, exclude_if=is_absent)] = []
    tasks: Annotated[list[TaskSpec], Field(max_length=MAX_TASKS, validate_default=True)] = []
    device: str = Field(default="", max_length=260, exclude_if=is_absent)
    estimate_memory: Memory | None = _Absent
    estimate_cuda_memory: Memory | None = _Absent

    @model_validator(mode="after")
    def _names_differ(self) -> "GroupSpec":
        names = Counter(task_name(task, number) for number, task in enumerate(self.tasks))
        names.update(child.name for child in self.children)
        shared = [name for name, count in names.items() if count > 1]
        if shared:
            listed = " and two ".join(shared)
            what = "tasks or children" if self.children else "tasks"
            raise PydanticCustomError(
                "duplicate_task", "two {what} are called {names}", {"what": what, "names": listed}
            )
        return self

    @field_validator("tasks")
    @classmethod
    def _is_not_empty(cls, tasks: list[TaskSpec], known: ValidationInfo) -> list[TaskSpec]:
        if not tasks and known.data.get("children") == []:
            raise PydanticCustomError("bad_length", "a group has at least one task or child")
        return tasks


class BatchSpec(Needs):
    """Everything that defines a batch; its id is the stream's.

    At most `concurrency` tasks and children are open. Its tasks get `inputs`, by the names that they know
    them by.
    """

    name: str = Field(default="", max_length=200)
    groups: Annotated[list[GroupSpec], Field(min_length=1, max_length=1_000)]
    concurrency: int = Field(default=10_000, ge=1, le=10_000)
    inputs: Inputs = Field(default={}, exclude_if=is_absent)


class SubmitTasks(Command, BatchSpec):
    """Asks for tasks to be run, under the stream id of the command."""


class StopTasks(Command):
    """Asks a batch to start nothing more and to end its running tasks; or, with `task`, to end that one."""

    task: Identifier | None = None
    reason: str = Field(default="", max_length=1_000)


class BatchStarted(Event):
    """A batch has begun, with its first group."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    batch: BatchSpec


class GroupEnded(Event):
    """All tasks and children of a group are over; `ends` counts them by the way they ended.

    A child counts by its status, in lower case: `done`, `stopped`, `error`, `refused`.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    group: int
    ends: dict[str, int]


class BatchStopRequested(Event):
    """A batch takes up no new tasks and ends those that run."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    reason: str


class BatchEnded(Event):
    """A batch is over: nothing of it runs any more."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    status: BatchStatus


def task_name(task: TaskSpec, number: int) -> str:
    """Returns a task's name within its group; `number` counts from 0."""
    return task.name or str(number + 1)


def group_name(group: GroupSpec, number: int) -> str:
    """Returns a group's name; `number` counts from 0."""
    return group.name or f"group-{number + 1}"


_OF_TASK = (
    "retry",
    "priority",
    "preempt",
    "exclusive",
    "queue_timeout_s",
    "run_timeout_s",
    "service",
    "preemptible",
)
"""What of its needs a task may say itself; its resources are merged with those of its group."""


def needs_of(batch: BatchSpec, group: GroupSpec, task: TaskSpec) -> Needs:
    """Returns what a task asks for: its own word first, then its group's, then its batch's."""
    own = {name: value for name in _OF_TASK if (value := getattr(task, name)) is not None}
    return Needs(
        **{name: getattr(batch, name) for name in Needs.model_fields}
        | own
        | {"resources": _resources(batch.resources, group, task.resources)}
    )


def inputs_of(batch: BatchSpec, task: TaskSpec) -> dict[str, ArtifactReference]:
    """Returns the artifacts that a task is given: those of its batch, and its own."""
    return batch.inputs | task.inputs


def estimated_by(needs: Needs, task: TaskSpec) -> Literal["task", "group"]:
    """Returns whose word the estimates of a task are: not its own if it gave none and yet has one."""
    own, whole = task.resources or Resources(), needs.resources
    gave = (own.estimate_memory, own.estimate_cuda_memory) != (None, None)
    has = (whole.estimate_memory, whole.estimate_cuda_memory) != (None, None)
    return "group" if has and not gave else "task"


def _resources(of_batch: Resources, group: GroupSpec, own: Resources | None) -> Resources:
    """Fills in device and estimates of group and batch, where they make sense for what is wanted."""
    wanted = own or of_batch
    given = {name: getattr(wanted, name) for name in Resources.model_fields}
    sources = (own, group, of_batch)
    if wanted.devices == 1:
        given["device"] = next((found.device for found in sources if found and found.device), "")
    for name in ("estimate_memory", "estimate_cuda_memory"):
        if name == "estimate_memory" or wanted.kind != "cpu":
            said = (getattr(found, name) for found in sources if found)
            given[name] = next((amount for amount in said if amount is not None), None)
    return Resources(**given)
