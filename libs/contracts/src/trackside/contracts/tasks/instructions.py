"""Instructions to running tasks, and services: tasks that run until they are stopped."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, WORKER, Command, Event, Json


class Instruction(BaseModel):
    """The newest instruction of a task; `number` counts those of the task from 1."""

    model_config = ConfigDict(frozen=True)
    number: int
    body: Json


class InstructTask(Command):
    """Asks for an instruction to be given to a task; it replaces the one before."""

    task: Identifier
    body: Json


class InstructionGiven(Event):
    """A task has a new instruction, which replaces the one before; a later attempt of it gets it too."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    task_id: str
    number: int
    body: Json


class InstructionAcknowledged(Event):
    """A task has acted on an instruction, or has not (`ok`), with what it says of that."""

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    number: int
    ok: bool
    detail: Json = Field(default={})


class TaskReady(Event):
    """A service serves; `detail` is what it says of that, such as its address.

    `number` counts how often a placement has said so, from 1.
    """

    written_by: ClassVar[frozenset[str]] = WORKER
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    number: int
    detail: Json = Field(default={})
