"""A task that is a program: its task process starts it, reads its output and reaps it.

So the ending is written by the task process, as for a class: after a worker that was killed it is on the disk
or the attempt is lost, and never both. The program dies with the task process (PDEATHSIG, which is kept by
exec), is in its process group, and has the device's lock file open.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from trackside.sdk import trial
from trackside.sdk.in_task.saving import SaveError
from trackside.telemetry.process_start import describe_exit
from trackside.worker.child.channel.control_channel import ControlChannel
from trackside.worker.child.channel.worker_channel import WorkerChannel
from trackside.worker.child.process import orphans
from trackside.worker.child.process.parent_death import die_with
from trackside.worker.child.process.process_memory import ProcessMemory
from trackside.worker.child.program.program_lines import (
    FetchLine,
    NextLine,
    RefusedLine,
    RequestLine,
    SaveLine,
    SummaryLine,
)
from trackside.worker.child.program.program_listener import ProgramListener
from trackside.worker.child.program.program_talk import ProgramTalk
from trackside.worker.durable_files import write_all
from trackside.worker.messages.assignment import Assignment
from trackside.worker.output_text import printable

PARAMETERS_FILE = "parameters.json"
_PLACEHOLDER = re.compile(r"\{(parameters_file|workdir|device)\}")


class UnstartableError(Exception):
    """A program that can't be started; the message has its name and the reason."""


class ProgramFailedError(RuntimeError):
    """A program that has ended with an exit code other than 0; negative for a signal."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def program_failure(error: BaseException) -> tuple[dict[str, str], int | None] | None:
    """Returns an error of a program as the fields of a TaskError, and its exit code; else None."""
    if isinstance(error, UnstartableError):
        return _error_fields("START", error), None
    if isinstance(error, ProgramFailedError):
        return _error_fields("TRAIN", error), error.exit_code
    return None


def _error_fields(stage: str, error: BaseException) -> dict[str, str]:
    return {"stage": stage, "type": type(error).__qualname__, "message": str(error), "traceback": ""}


class ProgramTask:
    """A program as a task: to load is to write its parameters, to train is to run it.

    The program inherits the lock files that came over `control`. `memory` gets its peak. Raises
    UnstartableError if there is no such program.
    """

    def __init__(
        self, assignment: Assignment, channel: WorkerChannel, control: ControlChannel, memory: ProcessMemory
    ) -> None:
        self._argv = assignment.program
        self._path = assignment.path
        self._workdir = Path(assignment.workdir)
        self._parameters = assignment.parameters
        self._has_secrets = bool(assignment.secrets)
        self._channel = channel
        self._locks = control.locks
        self._talk = ProgramTalk(channel, control, assignment.workdir)
        self._memory = memory
        self._unsaved: SaveError | None = None
        _check_runnable(self._argv[0], self._environment("", -1, -1))

    def load(self) -> None:
        """Writes the parameters to parameters.json in the working directory."""
        if self._has_secrets:
            self._file.touch(0o600)
        self._file.write_text(json.dumps(self._parameters), "utf-8")

    def train(self, device: str) -> dict[str, Any]:
        """Runs the program to its end; returns its last result, or an empty one.

        Raises UnstartableError and ProgramFailedError; SaveError if what it saved was not taken, and it
        didn't ask for the answer.
        """
        self._unsaved = None
        trial.connect(self._channel)  # a program that is run again counts its steps from 0
        self._talk.begin()
        for name in orphans.end_descendants():
            sys.stderr.write(f"trackside: killed what the previous run had left: {name}\n")
        (metrics_read, metrics_write), (answers_read, answers_write) = os.pipe(), os.pipe()
        with StopSignal() as stop:
            try:
                process = self._start(device, metrics_write, answers_read)
            except UnstartableError:
                os.close(metrics_read)
                os.close(answers_write)
                raise
            finally:
                os.close(metrics_write)
                os.close(answers_read)
            stop.forward_to(process)
            listener = ProgramListener(
                metrics_read,
                process,
                partial(self._carry_out, answers_write),
                self._talk,
            )
            try:
                code = listener.run_to_end()
            finally:
                os.close(answers_write)
                self._memory.record_program(listener.peak_bytes)
        if code != 0:
            raise ProgramFailedError(code, f"the program {describe_exit(code)}" + listener.last_lines())
        if self._unsaved is not None:
            raise self._unsaved
        return listener.result

    def _carry_out(self, answers_write: int, line: RequestLine) -> None:
        match line:
            case SaveLine():
                self._save(answers_write, line)
            case NextLine():
                self._answer(answers_write)
            case FetchLine():
                self._tell(answers_write, self._talk.fetch(line))
            case SummaryLine():
                self._talk.summary(line)
                if line.answer:
                    self._tell(answers_write, {})
            case RefusedLine(problem):
                self._tell(answers_write, {"problem": problem})

    def _answer(self, answers_write: int) -> None:
        """Requests another trial's parameters and passes them to the program, also in parameters.json."""
        try:
            found = trial.next_parameters()
            answer: dict[str, Any] = {"parameters": found}
        except ValueError as error:
            found, answer = None, {"problem": str(error)}
        if found is not None:
            self._parameters = found
            self.load()
        self._tell(answers_write, answer)

    def _save(self, answers_write: int, line: SaveLine) -> None:
        """Saves an artifact, and tells the program whether it was taken if it waits for that."""
        answer: dict[str, Any] = {}
        try:
            if line.step is not None:
                trial.checkpoint(line.step, self._workdir / line.path)
            else:
                trial.save(line.name, self._workdir / line.path, line.kind, line.metadata)
        except SaveError as error:
            answer = {"problem": str(error), "code": error.code}
            if not line.answer:
                sys.stderr.write(f"trackside: {printable(str(error))}\n")
                self._unsaved = self._unsaved or error
        if line.answer:
            self._tell(answers_write, answer)

    def _tell(self, answers_write: int, answer: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended: its exit code is reported
            write_all(answers_write, json.dumps(answer).encode() + b"\n")

    def _start(self, device: str, metrics_write: int, answers_read: int) -> "subprocess.Popen[bytes]":
        replaced = {"parameters_file": str(self._file), "workdir": str(self._workdir), "device": device}
        argv = [_fill_in(item, replaced) for item in self._argv]
        try:
            return subprocess.Popen(
                argv,
                env=self._environment(device, metrics_write, answers_read),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=[metrics_write, answers_read, *self._locks],
                # PDEATHSIG is of the forking thread, which is the only one that forks.
                preexec_fn=partial(die_with, os.getpid()),
            )
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise UnstartableError(f"{argv[0]} can't be run: {error}") from error

    def _environment(self, device: str, metrics_write: int, answers_read: int) -> dict[str, str]:
        found = dict(os.environ)
        if self._path:
            found["PYTHONPATH"] = os.pathsep.join(filter(None, [self._path, found.get("PYTHONPATH", "")]))
        found.setdefault("PYTHONUNBUFFERED", "1")  # else its output would come only at its end
        found["TRACKSIDE_DEVICE"] = device
        found["TRACKSIDE_PARAMETERS_FILE"] = str(self._file)
        found["TRACKSIDE_METRICS_FD"] = str(metrics_write)
        found["TRACKSIDE_ANSWERS_FD"] = str(answers_read)
        found |= self._talk.environment()
        return found

    @property
    def _file(self) -> Path:
        return self._workdir / PARAMETERS_FILE


def _fill_in(item: str, replaced: Mapping[str, str]) -> str:
    """Replaces placeholders, but not within replaced text."""
    return _PLACEHOLDER.sub(lambda found: replaced[found[1]], item)


def _check_runnable(name: str, environment: Mapping[str, str]) -> None:
    if "/" not in name:
        if shutil.which(name, path=environment.get("PATH", os.defpath)) is None:
            raise UnstartableError(f"{name} can't be run: no such program in the folders of PATH")
        return
    path = Path(name)
    if not path.exists():
        raise UnstartableError(f"{name} can't be run: there is no such file")
    if not path.is_file() or not os.access(path, os.X_OK):
        raise UnstartableError(
            f"{name} can't be run: it is not an executable file; chmod +x it, or name its interpreter first"
        )


class StopSignal:
    """Survives SIGTERM while a program runs, so that this process can report how the program ended.

    The signal is sent to the whole group; one that comes before the program is in it is forwarded.
    """

    def __init__(self) -> None:
        self._seen = False

    def __enter__(self) -> "StopSignal":
        """Begins to survive it."""
        signal.signal(signal.SIGTERM, self._on_signal)  # a handler, unlike SIG_IGN, isn't kept by exec
        return self

    def __exit__(self, *_: object) -> None:
        """Lets it end the process again."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_signal(self, *_: object) -> None:
        self._seen = True

    def forward_to(self, process: "subprocess.Popen[bytes]") -> None:
        """Forwards a signal that came before the program ran."""
        if self._seen:
            process.terminate()
