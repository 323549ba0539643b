"""A task that is a program: the process that was forked for it starts it, listens to it and reaps it.

So the ending is written as that of a class is, by a process of the task itself: after a worker that was
killed it is on the disk or the attempt is lost, and never both. The program dies with this process
(PDEATHSIG, which stays over an exec), is in its process group, and has the device's lock file open.
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

from trackside.sdk import trial
from trackside.sdk.channel import Channel
from trackside.worker.child import orphans as leftovers
from trackside.worker.child.parent_death import die_with
from trackside.worker.child.program_lines import (
    FinalLine,
    LineSplitter,
    MetricLine,
    NextLine,
    ProgramLine,
    ReportLine,
    ResultLine,
    UnreadableLineError,
    read_line,
)
from trackside.worker.redaction import cut, printable, redact

PARAMETERS_FILE = "parameters.json"
LAST_LINES = 20
MAX_MESSAGE_BYTES = 4_096
KEPT_BYTES = 65_536
MAX_WARNINGS = 20
READ_BYTES = 65_536
DRAIN_BYTES = 16_777_216
"""How much is still read once a program has ended; what it has left behind may write for ever."""
POLL_S = 0.05
_PLACEHOLDER = re.compile(r"\{(parameters_file|workdir|device)\}")


class UnstartableError(Exception):
    """A program that can't be run at all; the message names it and what is wrong."""


class ProgramFailedError(RuntimeError):
    """A program that has ended with another exit code than 0; negative for a signal."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def ending_of(error: BaseException) -> dict[str, Any] | None:
    """Gives the ending for what went wrong with a program; None if it is another kind of error."""
    if isinstance(error, UnstartableError):
        return {"end": "failed", "error": _described("START", error)}
    if isinstance(error, ProgramFailedError):
        return {"end": "failed", "error": _described("TRAIN", error), "exit_code": error.exit_code}
    return None


def _described(stage: str, error: BaseException) -> dict[str, str]:
    return {"stage": stage, "type": type(error).__qualname__, "message": str(error), "traceback": ""}


class ProgramTask:
    """A program with the two phases of a task: there is nothing to load, and to train is to run it.

    `assignment` is what the task's process was told; the program keeps the descriptors in its `locks` open.
    Raises UnstartableError if there is no such program.
    """

    def __init__(self, assignment: Mapping[str, Any], channel: Channel) -> None:
        self._argv: list[str] = assignment["program"]
        self._path: str = assignment["path"]
        self._workdir = Path(assignment["workdir"])
        self._parameters = assignment["parameters"]
        self._channel = channel
        self._locks: list[int] = assignment["locks"]
        _check_runnable(self._argv[0], self._environment("", -1, -1))

    def load(self) -> None:
        """Writes the parameters to parameters.json in the working directory."""
        self._file.write_text(json.dumps(self._parameters), "utf-8")

    def train(self, device: str) -> dict[str, Any]:
        """Runs the program to its end; gives the last result that it told of, or an empty one.

        Raises UnstartableError and ProgramFailedError.
        """
        trial.connect(self._channel)  # a program that is run again counts its steps anew
        for name in leftovers.end_descendants():
            sys.stderr.write(f"trackside: killed what the run before had left: {name}\n")
        (listening, speaking), (hearing, answering) = os.pipe(), os.pipe()
        with _StopSignal() as stop:
            try:
                process = self._started(device, speaking, hearing)
            except UnstartableError:
                os.close(listening)
                os.close(answering)
                raise
            finally:
                os.close(speaking)
                os.close(hearing)
            stop.reaches(process)
            listener = _ProgramListener(listening, process, partial(self._answer, answering))
            try:
                code = listener.listen()
            finally:
                os.close(answering)
        if code != 0:
            raise ProgramFailedError(code, _manner(code) + listener.last_words())
        return listener.result

    def _answer(self, answering: int) -> None:
        """Asks for another trial's parameters, and tells the program; parameters.json holds them too."""
        try:
            found = trial.next_parameters()
            answer: dict[str, Any] = {"parameters": found}
        except ValueError as error:
            found, answer = None, {"problem": str(error)}
        if found is not None:
            self._parameters = found
            self.load()
        rest = json.dumps(answer).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):  # it has ended: its exit code says more
            while rest:
                rest = rest[os.write(answering, rest) :]

    def _started(self, device: str, speaking: int, hearing: int) -> "subprocess.Popen[bytes]":
        replaced = {"parameters_file": str(self._file), "workdir": str(self._workdir), "device": device}
        argv = [_filled(item, replaced) for item in self._argv]
        try:
            return subprocess.Popen(
                argv,
                env=self._environment(device, speaking, hearing),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=[speaking, hearing, *self._locks],
                # This process has one thread that forks: the program dies with it.
                preexec_fn=partial(die_with, os.getpid()),
            )
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise UnstartableError(f"{argv[0]} can't be run: {error}") from error

    def _environment(self, device: str, speaking: int, hearing: int) -> dict[str, str]:
        found = dict(os.environ)
        if self._path:
            found["PYTHONPATH"] = os.pathsep.join(filter(None, [self._path, found.get("PYTHONPATH", "")]))
        found.setdefault("PYTHONUNBUFFERED", "1")  # else its output would be seen only at its end
        found["TRACKSIDE_DEVICE"] = device
        found["TRACKSIDE_PARAMETERS_FILE"] = str(self._file)
        found["TRACKSIDE_METRICS_FD"] = str(speaking)
        found["TRACKSIDE_ANSWERS_FD"] = str(hearing)
        return found

    @property
    def _file(self) -> Path:
        return self._workdir / PARAMETERS_FILE


def _filled(item: str, replaced: Mapping[str, str]) -> str:
    """Replaces the placeholders, and nothing within what they were replaced by."""
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
            f"{name} can't be run: it is no executable file; chmod +x it, or name its interpreter first"
        )


class _StopSignal:
    """Keeps SIGTERM from this process while a program runs, so that it can say how the program took it.

    The signal is sent to the whole group; one that comes before the program is in it is passed on.
    """

    def __init__(self) -> None:
        self._seen = False

    def __enter__(self) -> "_StopSignal":
        signal.signal(signal.SIGTERM, self._see)  # a handler, unlike SIG_IGN, doesn't stay over an exec
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _see(self, *_: object) -> None:
        self._seen = True

    def reaches(self, process: "subprocess.Popen[bytes]") -> None:
        """Passes on a signal that came before the program ran."""
        if self._seen:
            process.terminate()


class _ProgramListener:
    """Takes what a program says: metrics to the trial, the standard error to our own."""

    def __init__(
        self, listening: int, process: "subprocess.Popen[bytes]", answer: Callable[[], None]
    ) -> None:
        assert process.stderr is not None
        self.result: dict[str, Any] = {}
        self._process = process
        self._answer = answer
        self._stderr = process.stderr
        self._listening = listening
        self._lines = LineSplitter()
        self._last = b""
        self._warnings = 0

    def listen(self) -> int:
        """Listens until the program has ended; gives its exit code, negative for a signal."""
        takers = {self._listening: self._hear, self._stderr.fileno(): self._copy}
        with selectors.DefaultSelector() as selector:
            for descriptor, take in takers.items():
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ, take)
            ending = _watch_end(selector, self._process.pid)
            while (code := self._process.poll()) is None:
                for key, _ in selector.select(None if ending is not None else POLL_S):
                    if key.fd != ending and not _took(key.fd, key.data):
                        selector.unregister(key.fd)
        for descriptor, take in takers.items():
            _drain(descriptor, take)
        self._take_lines(self._lines.end())
        os.close(self._listening)
        self._stderr.close()
        if ending is not None:
            os.close(ending)
        return code

    def last_words(self) -> str:
        """Gives the end of what the program wrote on its standard error, to follow a sentence."""
        text = self._last.decode("utf-8", "replace").rstrip()
        lines = [line.rpartition("\r")[2] for line in text.splitlines()[-LAST_LINES:]]
        words = redact(printable("\n".join(lines)))
        return f"; its last words:\n{cut(words, MAX_MESSAGE_BYTES - 200)}" if words else ""

    def _copy(self, octets: bytes) -> None:
        self._last = (self._last + octets)[-KEPT_BYTES:]
        while octets:
            octets = octets[os.write(2, octets) :]

    def _hear(self, octets: bytes) -> None:
        self._take_lines(self._lines.feed(octets))

    def _take_lines(self, lines: Iterable[tuple[int, bytes | None]]) -> None:
        for number, line in lines:
            try:
                self._say(read_line(line))
            except (UnreadableLineError, ValueError) as error:  # ValueError: a step that doesn't rise
                self._warn(f"line {number} of the metrics can't be read: {error}")

    def _say(self, word: ProgramLine | None) -> None:
        match word:
            case MetricLine(tag, value, step):
                trial.metric(tag, value, step)
            case ReportLine(value, step):
                trial.report(value, step)
            case FinalLine(value):
                trial.result(value)
            case ResultLine(result):
                self.result = result
            case NextLine():
                self._answer()

    def _warn(self, sentence: str) -> None:
        self._warnings += 1
        if self._warnings <= MAX_WARNINGS:
            sys.stderr.write(f"trackside: {printable(sentence)}\n")
        if self._warnings == MAX_WARNINGS:
            sys.stderr.write("trackside: what else can't be read is passed over\n")


def _watch_end(selector: selectors.BaseSelector, pid: int) -> int | None:
    """Has the selector wake up when a process ends; None where the kernel can't tell (before Linux 5.3)."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    selector.register(descriptor, selectors.EVENT_READ)
    return descriptor


def _took(descriptor: int, take: Callable[[bytes], None]) -> bool:
    """Hands on what can be read; False at the end of it."""
    try:
        octets = os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return True
    take(octets)
    return bool(octets)


def _drain(descriptor: int, take: Callable[[bytes], None]) -> None:
    """Hands on what is left in a pipe, but doesn't wait for what somebody else may still write."""
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
