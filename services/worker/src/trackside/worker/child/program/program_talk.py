"""What a program is given and says: instructions in a file, its checkpoint, lines on its channel."""

import json
from pathlib import Path
from typing import Any

from trackside.eventlog.clock import now_ms
from trackside.sdk import trial
from trackside.sdk.in_task.channel import FetchedCheckpoint, FetchError, ReportedSummary
from trackside.worker.child.channel.control_channel import ControlChannel
from trackside.worker.child.channel.worker_channel import WorkerChannel
from trackside.worker.child.program.program_lines import (
    AcknowledgeLine,
    AliveLine,
    FetchLine,
    ReadyLine,
    ReleaseLine,
    ResumedLine,
    SummaryLine,
    TalkLine,
)
from trackside.worker.durable_files import write_atomically

INSTRUCTION_FILE = "instruction.json"


class ProgramTalk:
    """Passes instructions and the last checkpoint from the worker to a program, its answers to the worker."""

    def __init__(self, channel: WorkerChannel, control: ControlChannel, workdir: str) -> None:
        self.path = Path(workdir) / INSTRUCTION_FILE
        self._channel = channel
        self._control = control
        self._checkpoint: FetchedCheckpoint | None = None

    def begin(self) -> None:
        """Makes the worker fetch the last checkpoint, for the program to begin with."""
        self._checkpoint = self._channel.fetch_checkpoint(by_task=False)

    def environment(self) -> dict[str, str]:
        """Returns the variables that name the file of instructions, and the checkpoint if there is one."""
        found = {"TRACKSIDE_INSTRUCTION_FILE": str(self.path)}
        if self._checkpoint is not None:
            found["TRACKSIDE_CHECKPOINT"] = str(self._checkpoint.path)
            found["TRACKSIDE_CHECKPOINT_STEP"] = str(self._checkpoint.step)
        return found

    def fileno(self) -> int:
        """Returns the descriptor that can be read when an instruction may have come."""
        return self._control.fileno()

    def pass_on(self) -> bool:
        """Replaces the file by an instruction that has come; returns whether more can come."""
        found = self._control.instruction(0)
        if found is not None:
            write_atomically(self.path, json.dumps({"number": found.number, "body": found.body}).encode())
        return not self._control.gone

    def fetch(self, line: FetchLine) -> dict[str, Any]:
        """Makes the worker fetch an artifact; returns the answer for the program."""
        try:
            answer = {"path": str(self._channel.fetch(line.reference))}
        except FetchError as error:
            answer = {"problem": str(error), "code": error.code}
        self.pass_on()  # an instruction that has come meanwhile was read from the channel
        return answer

    def summary(self, line: SummaryLine) -> None:
        """Passes on a value that is no number. A file below the working directory is moved, not copied."""
        if line.problem:
            self._channel.summaries.leave_out(line.tag, line.code, line.problem)
            return
        time_ms = now_ms() if line.time_ms is None else line.time_ms
        reported = ReportedSummary(
            line.kind, line.tag, line.step, time_ms, line.item, line.body, None, line.media_type
        )
        self._channel.summary(reported, self.path.parent / line.path if line.path else None)
        self.pass_on()  # an instruction may have come while it waited

    def say(self, line: TalkLine) -> None:
        """Passes on what the program says; raises ValueError if it resumes without a checkpoint."""
        match line:
            case ReadyLine(detail):
                self._channel.ready(detail)
            case AcknowledgeLine(number, ok, detail):
                self._channel.acknowledge(number, ok, detail)
            case AliveLine():
                self._channel.alive()
            case ReleaseLine(reference):
                self._channel.release(reference)
            case ResumedLine():
                if self._checkpoint is None:
                    raise ValueError("resumed: there is no checkpoint; see $TRACKSIDE_CHECKPOINT")
                trial.resume_at(self._checkpoint.step)
