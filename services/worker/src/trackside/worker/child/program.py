"""A task that is a program: its task process starts it, reads its output and reaps it.

So the ending is written by the task process, as for a class: after a worker that was killed it is on the disk
or the attempt is lost, and never both. The program dies with the task process (PDEATHSIG, which is kept by
exec), is in its process group, and has the device's lock file open.
"""

import contextlib
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from trackside.contracts.redaction import redact
from trackside.eventlog.clock import monotonic_s
from trackside.sdk import trial
from trackside.sdk.saving import SaveError
from trackside.worker.child import orphans
from trackside.worker.child.control_channel import ControlChannel
from trackside.worker.child.parent_death import die_with
from trackside.worker.child.process_memory import ProcessMemory
from trackside.worker.child.program_lines import (
    AcknowledgeLine,
    AliveLine,
    FinalLine,
    LineSplitter,
    MetricLine,
    NextLine,
    ProgramLine,
    ReadyLine,
    ReportLine,
    ResultLine,
    ResumedLine,
    SaveLine,
    UnreadableLineError,
    read_line,
)
from trackside.worker.child.program_talk import ProgramTalk
from trackside.worker.child.stop_signal import StopSignal
from trackside.worker.child.worker_channel import WorkerChannel
from trackside.worker.output_text import keep_end, printable
from trackside.worker.own_memory import own_memory
from trackside.worker.process_messages import Assignment

PARAMETERS_FILE = "parameters.json"
LAST_LINES = 20
MAX_MESSAGE_BYTES = 4_096
KEPT_BYTES = 65_536
MAX_WARNINGS = 20
READ_BYTES = 65_536
DRAIN_BYTES = 16_777_216
"""How much is read after a program has ended; processes that it has left may continue to write."""
POLL_S = 0.05
FIRST_MEASURE_S, LAST_MEASURE_S = 0.01, 2.0
"""The age at which the memory of a program is measured first, and after which only the worker does."""
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
        self._channel = channel
        self._locks = control.locks
        self._talk = ProgramTalk(channel, control, assignment.workdir)
        self._memory = memory
        self._unsaved: SaveError | None = None
        _check_runnable(self._argv[0], self._environment("", -1, -1))

    def load(self) -> None:
        """Writes the parameters to parameters.json in the working directory."""
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
            listener = _ProgramListener(
                metrics_read,
                process,
                partial(self._answer, answers_write),
                partial(self._save, answers_write),
                self._talk,
            )
            try:
                code = listener.run_to_end()
            finally:
                os.close(answers_write)
                self._memory.record_program(listener.peak_bytes)
        if code != 0:
            raise ProgramFailedError(code, _manner(code) + listener.last_lines())
        if self._unsaved is not None:
            raise self._unsaved
        return listener.result

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
        rest = json.dumps(answer).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):  # it has ended: its exit code is reported
            while rest:
                rest = rest[os.write(answers_write, rest) :]

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


class _ProgramListener:
    """Reads what a program writes: passes metrics to the trial, copies its standard error."""

    def __init__(
        self,
        metrics_read: int,
        process: "subprocess.Popen[bytes]",
        answer: Callable[[], None],
        save: Callable[[SaveLine], None],
        talk: ProgramTalk,
    ) -> None:
        assert process.stderr is not None
        self.result: dict[str, Any] = {}
        self._process = process
        self._answer = answer
        self._save = save
        self._talk = talk
        self._stderr = process.stderr
        self._metrics_fd = metrics_read
        self._lines = LineSplitter()
        self._last = b""
        self._warnings = 0
        self.peak_bytes = 0
        self._began_s = self._measured_s = monotonic_s()

    def run_to_end(self) -> int:
        """Reads until the program has ended; returns its exit code, negative for a signal."""
        handlers = {self._metrics_fd: self._read_metrics, self._stderr.fileno(): self._copy_stderr}
        with selectors.DefaultSelector() as selector:
            for descriptor, take in handlers.items():
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ, take)
            ending = _watch_end(selector, self._process.pid)
            selector.register(self._talk, selectors.EVENT_READ)
            if not self._talk.pass_on():
                selector.unregister(self._talk)
            while (code := self._process.poll()) is None:
                for key, _ in selector.select(self._measure_due_s() if ending is not None else POLL_S):
                    of_worker = key.fileobj is self._talk
                    open_ = (
                        self._talk.pass_on() if of_worker else key.fd == ending or _pass_on(key.fd, key.data)
                    )
                    if not open_:
                        selector.unregister(key.fileobj)
        for descriptor, take in handlers.items():
            _drain(descriptor, take)
        self._take_lines(self._lines.end())
        os.close(self._metrics_fd)
        self._stderr.close()
        if ending is not None:
            os.close(ending)
        return code

    def _measure_due_s(self) -> float | None:
        """Measures the program when that is due; returns the seconds until it is again, None for never.

        Its memory is gone once it has ended, so it is measured each time its age has doubled; after a second
        the worker does so.
        """
        now_s = monotonic_s()
        age_s, before_s = now_s - self._began_s, self._measured_s - self._began_s
        due_s = max(FIRST_MEASURE_S, 2 * before_s)
        if age_s >= due_s:
            found = own_memory(Path(f"/proc/{self._process.pid}"), 0)
            self.peak_bytes = max(self.peak_bytes, found.peak_bytes if found is not None else 0)
            self._measured_s, due_s = now_s, 2 * age_s
        return due_s - age_s if due_s < LAST_MEASURE_S else None

    def last_lines(self) -> str:
        """Returns the last lines of the program's standard error, to follow a sentence."""
        text = self._last.decode("utf-8", "replace").rstrip()
        lines = [line.rpartition("\r")[2] for line in text.splitlines()[-LAST_LINES:]]
        last = redact(printable("\n".join(lines)))
        return f"; its last words:\n{keep_end(last, MAX_MESSAGE_BYTES - 200)}" if last else ""

    def _copy_stderr(self, octets: bytes) -> None:
        self._last = (self._last + octets)[-KEPT_BYTES:]
        while octets:
            octets = octets[os.write(2, octets) :]

    def _read_metrics(self, octets: bytes) -> None:
        self._take_lines(self._lines.feed(octets))

    def _take_lines(self, lines: Iterable[tuple[int, bytes | None]]) -> None:
        for number, line in lines:
            try:
                self._report(read_line(line))
            except (
                UnreadableLineError,
                ValueError,
            ) as error:  # ValueError: the step is not above the last one
                self._warn(f"line {number} of the metrics can't be read: {error}")

    def _report(self, line: ProgramLine | None) -> None:
        match line:
            case MetricLine(tag, value, step):
                trial.metric(tag, value, step)
            case ReportLine(value, step):
                trial.report(value, step)
            case FinalLine(value):
                trial.result(value)
            case ResultLine(result):
                self.result = result
            case SaveLine():
                self._save(line)
            case NextLine():
                self._answer()
            case ReadyLine() | AcknowledgeLine() | AliveLine() | ResumedLine():
                self._talk.say(line)

    def _warn(self, sentence: str) -> None:
        self._warnings += 1
        if self._warnings <= MAX_WARNINGS:
            sys.stderr.write(f"trackside: {printable(sentence)}\n")
        if self._warnings == MAX_WARNINGS:
            sys.stderr.write("trackside: further lines that can't be read are ignored\n")


def _watch_end(selector: selectors.BaseSelector, pid: int) -> int | None:
    """Registers the end of a process with a selector; None where the kernel can't (before Linux 5.3)."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    selector.register(descriptor, selectors.EVENT_READ)
    return descriptor


def _pass_on(descriptor: int, take: Callable[[bytes], None]) -> bool:
    """Passes on what can be read; returns False at the end of the file."""
    try:
        octets = os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return True
    take(octets)
    return bool(octets)


def _drain(descriptor: int, take: Callable[[bytes], None]) -> None:
    """Passes on what is left in a pipe, without waiting for other processes that may write to it."""
    room = DRAIN_BYTES
    with contextlib.suppress(BlockingIOError):
        while room > 0 and (octets := os.read(descriptor, READ_BYTES)):
            take(octets)
            room -= len(octets)


def _manner(code: int) -> str:
    if code >= 0:
        return f"the program ended with exit code {code}"
    try:
        return f"the program was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"the program was killed by signal {-code}"
