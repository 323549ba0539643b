"""The span of a command to a device: from here its trace goes on in the worker."""

from trackside.contracts.envelope.ids import new_id
from trackside.eventlog.reactor.task_spans import part_attributes, placement_attributes
from trackside.scheduler.sending.device_commands import DeviceMessage
from trackside.telemetry import context, messaging
from trackside.telemetry.context import Span


class CommandSpan:
    """A span of kind producer that begins now; its `traceparent` goes with the command."""

    def __init__(
        self, parent: str, command: DeviceMessage, worker_id: str, device_id: str, topic: str
    ) -> None:
        self.traceparent = context.child_of(parent)
        self.message_id = new_id()
        self._parent = parent or None
        self._command = command
        self._place = worker_id, device_id, topic
        self._start_ns = context.now_ns()

    def end(self, offset: int | None, error: Exception | None = None) -> None:
        """Exports the span: the command is in the log at `offset`, or could not be sent."""
        if not context.is_recording(self.traceparent):
            return
        command, (worker_id, device_id, topic) = self._command, self._place
        devices = getattr(command, "device_ids", [device_id])
        attributes = {
            **messaging.sent(topic, 0, key=command.task_id, message_id=self.message_id, offset=offset),
            **part_attributes(command.stream, getattr(command, "part", None)),
            **placement_attributes(command.attempt, command.placement, worker_id, devices),
            "trackside.task": command.task_id,
            "trackside.command_type": command.wire_type(),
        }
        context.record(
            Span(
                name="command device",
                traceparent=self.traceparent,
                parent=self._parent,
                start_ns=self._start_ns,
                end_ns=context.now_ns(),
                kind="producer",
                attributes=attributes,
                failure=None if error is None else context.failure_of(error),
            )
        )
