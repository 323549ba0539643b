"""Decides the commands that drain and resume devices. Pure."""

from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.fleet.draining import DeviceDrained, DeviceResumed, DrainDevice, ResumeDevice
from trackside.domain.fleet.capabilities import Capabilities, device_problem
from trackside.domain.streams.stream import Stream

DrainCommand = DrainDevice | ResumeDevice


def decide(
    stream: Stream, command: DrainCommand, command_id: str, capabilities: Capabilities
) -> list[Event] | tuple[Problem, ...]:
    """Returns the event that drains or resumes a device, or why not: no worker that is there has it.

    A device that is drained can be resumed while its worker is away.
    """
    is_drained = command.device in stream.drained
    problem = device_problem(capabilities, f"{stream.stream_id}/{command.device}", "$.device")
    if problem is not None and not is_drained:
        return (problem,)
    if isinstance(command, DrainDevice):
        return [DeviceDrained(command_id=command_id, device_id=command.device, reason=command.reason)]
    return [DeviceResumed(command_id=command_id, device_id=command.device)] if is_drained else []
