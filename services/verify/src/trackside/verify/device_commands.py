"""INV-5 of commands to devices: whatever a device was told to run had been assigned, just so."""

from dataclasses import dataclass, field

from trackside.contracts.tasks import RunTask, TaskAssigned
from trackside.verify.findings import Findings, Where

Token = tuple[str, str, int, int]


@dataclass(slots=True)
class Sent:
    """The commands to devices that are kept, until their assignment is read."""

    findings: Findings
    _waiting: dict[Token, list[tuple[RunTask, Where]]] = field(default_factory=dict)

    def note(self, command: RunTask, place: Where) -> None:
        """Takes in one command."""
        self.findings.checked["INV-5"] += 1
        token = (command.stream, command.task_id, command.attempt, command.placement)
        known = self._waiting.setdefault(token, [])
        if all(other != command for other, _ in known):
            known.append((command, place))

    def assigned(self, stream: str, event: TaskAssigned) -> None:
        """Judges the commands of an assignment that counts."""
        for command, place in self._waiting.pop((stream, event.task_id, event.attempt, event.placement), ()):
            told = (command.incarnation, command.device_ids, command.reserved)
            if told != (event.incarnation, event.device_ids, event.reserved):
                self.findings.add("INV-5", place, f"{_name(command)} was assigned otherwise than it is sent")

    def finish(self) -> None:
        """Finds the commands whose assignment is not there."""
        for commands in self._waiting.values():
            for command, place in commands:
                self.findings.add("INV-5", place, f"{_name(command)} was sent, and never assigned")


def _name(command: RunTask) -> str:
    return f"attempt {command.attempt} placement {command.placement} of task {command.task_id}"
