"""INV-5 of commands to devices: each names a placement that was assigned, and exactly as it was assigned."""

from collections.abc import Container
from dataclasses import dataclass, field

from trackside.contracts.device_commands import RunTask
from trackside.contracts.tasks import TaskAssigned
from trackside.domain.findings import Findings, RecordPosition

PlacementId = tuple[str, str, int, int]


@dataclass(slots=True)
class DeviceCommandChecks:
    """Keeps the commands to devices until their assignment is read."""

    findings: Findings
    _pending: dict[PlacementId, list[tuple[RunTask, RecordPosition]]] = field(default_factory=dict)

    def note(self, command: RunTask, position: RecordPosition) -> None:
        """Adds one command."""
        self.findings.checked["INV-5"] += 1
        placement_id = (command.stream, command.task_id, command.attempt, command.placement)
        commands = self._pending.setdefault(placement_id, [])
        if all(other != command for other, _ in commands):
            commands.append((command, position))

    def assigned(self, stream: str, event: TaskAssigned) -> None:
        """Checks the commands of an assignment that was applied."""
        placement_id = (stream, event.task_id, event.attempt, event.placement)
        for command, position in self._pending.pop(placement_id, ()):
            sent = (command.incarnation, command.device_ids, command.reserved, command.wait)
            if sent != (event.incarnation, event.device_ids, event.reserved, event.behind):
                message = f"{_describe(command)} was assigned otherwise than it is sent"
                self.findings.add("INV-5", position, message)

    def finish(self, unreadable: Container[str] = ()) -> None:
        """Adds the commands without an assignment, but for those of streams that can't be read."""
        for commands in self._pending.values():
            for command, position in commands:
                if command.stream in unreadable:
                    continue
                self.findings.add("INV-5", position, f"{_describe(command)} was sent, and never assigned")


def _describe(command: RunTask) -> str:
    return f"attempt {command.attempt} placement {command.placement} of task {command.task_id}"
