"""INV-5 of commands to devices: each names a placement that was assigned, and exactly as it was assigned."""

from collections.abc import Container
from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.tasks.device_commands import GiveInstruction, RunTask
from trackside.contracts.tasks.instructions import InstructionGiven
from trackside.contracts.tasks.tasks import TaskAssigned, TaskSubmitted
from trackside.domain.checks.findings import Findings, RecordPosition
from trackside.verify.checks.tasks.task_history import TaskHistory

PlacementId = tuple[str, str, int, int]


@dataclass(slots=True)
class DeviceCommandChecks:
    """Keeps the commands to devices until their assignment is read."""

    findings: Findings
    _instructions: dict[tuple[str, str, int], Json] = field(default_factory=dict)
    _pending: dict[PlacementId, list[tuple[RunTask, RecordPosition]]] = field(default_factory=dict)

    def note(self, command: RunTask, position: RecordPosition) -> None:
        """Adds one command."""
        self.findings.checked["INV-5"] += 1
        placement_id = (command.stream, command.task_id, command.attempt, command.placement)
        commands = self._pending.setdefault(placement_id, [])
        if all(other != command for other, _ in commands):
            commands.append((command, position))

    def instructs(self, command: GiveInstruction) -> None:
        """Takes in an instruction that was sent to a worker."""
        key = (command.stream, command.task_id, command.instruction.number)
        self._instructions[key] = command.instruction.body

    def instructed(self, event: InstructionGiven, record: Record) -> None:
        """Compares an instruction with what was sent to the worker of its task."""
        key = (record.envelope.stream, event.task_id, event.number)
        self.findings.compare(record, "the body", event.body, self._instructions.pop(key, event.body))

    def assigned(self, stream: str, event: TaskAssigned, task: TaskHistory | None) -> None:
        """Checks the commands of an assignment that was applied, of a task."""
        placement_id = (stream, event.task_id, event.attempt, event.placement)
        for command, position in self._pending.pop(placement_id, ()):
            sent = (command.incarnation, command.device_ids, command.reserved, command.wait)
            if sent != (event.incarnation, event.device_ids, event.reserved, event.behind):
                message = f"{_describe(command)} was assigned otherwise than it is sent"
                self.findings.add("INV-5", position, message)
            if task is not None and task.submitted is not None and task.part == task.submitted.part:
                self._compare(command, task.submitted, position)

    def _compare(self, command: RunTask, task: TaskSubmitted, position: RecordPosition) -> None:
        """Compares what a worker is told with what was submitted."""
        self.findings.checked["INV-26"] += 1
        said = {
            "task_type": (command.task_type, task.task_type),
            "parameters": (command.parameters, task.parameters),
            "inputs": (command.inputs, task.inputs),
            "step_limit": (command.step_limit, task.step_limit),
            "exclusive": (command.exclusive, task.needs.exclusive),
            "service": (command.service, task.needs.service is not None),
            "whole_device": (command.whole_device, task.needs.resources.whole_device),
        }
        for name, (sent, submitted) in said.items():
            if sent != submitted:
                message = f"{_describe(command)} is sent with {name} {sent!r:.80}, and has {submitted!r:.80}"
                self.findings.add("INV-26", position, message)

    def finish(self, unreadable: Container[str] = ()) -> None:
        """Adds the commands without an assignment, but for those of streams that can't be read."""
        for commands in self._pending.values():
            for command, position in commands:
                if command.stream in unreadable:
                    continue
                self.findings.add("INV-5", position, f"{_describe(command)} was sent, and never assigned")


def _describe(command: RunTask) -> str:
    return f"attempt {command.attempt} placement {command.placement} of task {command.task_id}"
