"""Commands of the scheduler to devices: what a worker does with a placement of a task."""

from operator import not_
from typing import Literal

from pydantic import Field

from trackside.contracts.envelope.message import Command, Json, is_absent
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.artifacts import ArtifactReference, CheckpointReference
from trackside.contracts.tasks.instructions import Instruction
from trackside.contracts.tasks.tasks import Reservation


class DeviceCommand(Command):
    """A command about one placement of a task.

    What is reported of it is encrypted with the `public_key` of its stream, if that has one.
    """

    stream: str
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    public_key: str = Field(default="", exclude_if=is_absent)


class RunTask(DeviceCommand):
    """Tells a worker to run one placement of a task, or to keep it until its device is free (`wait`).

    `interrupts` is how often the attempt may run out of memory in training before it ends, `interrupted` how
    often it has in earlier placements. After `lease_s` without a sign of life the worker is taken for lost:
    it ends an exclusive task before.

    The task gets `inputs` by their names, and the first of `checkpoints` that can be read. `saved` has the
    newest version of each artifact that it has saved in earlier placements, by name. `instruction` is its
    newest one. `part` is what of its aggregate the task is for.
    """

    task_type: str
    parameters: Json
    device_ids: list[str]
    reserved: Reservation = Reservation()
    whole_device: bool = False
    exclusive: bool = False
    interrupts: int = 0
    interrupted: int = 0
    wait: bool = False
    lease_s: float = 10.0
    inputs: dict[str, ArtifactReference] = Field(default={}, exclude_if=is_absent)
    checkpoints: list[CheckpointReference] = Field(default=[], exclude_if=is_absent)
    saved: dict[str, int] = Field(default={}, exclude_if=is_absent)
    service: bool = Field(default=False, exclude_if=not_)
    unresponsive_s: float | None = Field(default=None, exclude_if=is_absent)
    instruction: Instruction | None = Field(default=None, exclude_if=is_absent)
    step_limit: int | None = Field(default=None, exclude_if=is_absent)
    part: Part | None = Field(default=None, exclude_if=is_absent)


class RecallTask(DeviceCommand):
    """Asks a worker to give one placement back, if it hasn't begun."""


class StopTask(DeviceCommand):
    """Tells a worker to end one placement of a task, as cancelled, preempted or timed out (`end`).

    With `checkpoint_s` the task is asked for a checkpoint first, and has so many seconds to save it.
    """

    reason: str
    end: Literal["cancelled", "preempted", "timed_out_run"] = "cancelled"
    checkpoint_s: float = 0


class NextParameters(DeviceCommand):
    """Tells a worker the answer to a request of a task: another trial's parameters, or none."""

    request: int
    parameters: Json | None = None


class GiveInstruction(DeviceCommand):
    """Tells a worker the newest instruction of a task."""

    instruction: Instruction
