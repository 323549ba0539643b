"""Instructions to a program, and what it says of them: a file that is replaced, and lines on its channel."""

import json
from pathlib import Path

from trackside.sdk.channel import Channel
from trackside.worker.child.control_channel import ControlChannel
from trackside.worker.child.program_lines import AcknowledgeLine, AliveLine, ReadyLine
from trackside.worker.durable_files import write_atomically

INSTRUCTION_FILE = "instruction.json"


class ProgramTalk:
    """Passes instructions from the worker to a program, and its answers to the worker."""

    def __init__(self, channel: Channel, control: ControlChannel, workdir: str) -> None:
        self.path = Path(workdir) / INSTRUCTION_FILE
        self._channel = channel
        self._control = control

    def fileno(self) -> int:
        """Returns the descriptor that can be read when an instruction may have come."""
        return self._control.fileno()

    def pass_on(self) -> bool:
        """Replaces the file by an instruction that has come; returns whether more can come."""
        found = self._control.instruction(0)
        if found is not None:
            write_atomically(self.path, json.dumps({"number": found.number, "body": found.body}).encode())
        return not self._control.gone

    def say(self, line: ReadyLine | AliveLine | AcknowledgeLine) -> None:
        """Passes on what the program says."""
        match line:
            case ReadyLine(detail):
                self._channel.ready(detail)
            case AcknowledgeLine(number, ok, detail):
                self._channel.acknowledge(number, ok, detail)
            case AliveLine():
                self._channel.alive()
