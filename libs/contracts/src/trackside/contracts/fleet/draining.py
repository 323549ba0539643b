"""Draining: a device gets no new tasks until it is resumed. Commands go to the stream of its worker's id."""

from typing import ClassVar

from pydantic import Field

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, Command, Event


class DrainDevice(Command):
    """Asks that nothing new is placed on a device of the worker that the stream is named after.

    Tasks that are placed on it already end as they would.
    """

    device: Identifier
    reason: str = Field(default="", max_length=1_000)


class ResumeDevice(Command):
    """Asks that a device that is drained gets tasks again."""

    device: Identifier


class DeviceDrained(Event):
    """A device gets no new tasks, also after a restart of its worker, until it is resumed."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    device_id: str
    reason: str = ""


class DeviceResumed(Event):
    """A device that was drained gets tasks again."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    device_id: str
