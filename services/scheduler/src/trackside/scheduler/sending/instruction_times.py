"""How long tasks take to acknowledge instructions. Pure."""

from collections.abc import Container

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven
from trackside.scheduler.sending.device_commands import CommandKey, instruction_key


class InstructionTimes:
    """The newest instruction of each task that has not acknowledged it, and when the log got it."""

    def __init__(self) -> None:
        self._given: dict[str, tuple[int, int]] = {}

    def fold(self, record: Record, sent: Container[CommandKey]) -> float | None:
        """Notes an instruction; returns how long its first acknowledgement took, s by the log's times.

        Only for one of the commands `sent`: what another scheduler has sent is counted there, or was before.
        """
        message = record.message
        if isinstance(message, InstructionGiven):
            self._given[message.task_id] = (message.number, record.append_time_ms)
        elif isinstance(message, InstructionAcknowledged):
            number, given_ms = self._given.get(message.task_id, (0, 0))
            if number == message.number:
                del self._given[message.task_id]
                if instruction_key(message.task_id, message.attempt, message.placement, number) in sent:
                    return max(0, record.append_time_ms - given_ms) / 1000
        return None

    def forget(self, task_id: str) -> None:
        """Forgets a task that has ended."""
        self._given.pop(task_id, None)
