"""The channel of a trial that is a program run by a worker: lines of JSON on a file descriptor.

The worker sets TRACKSIDE_PARAMETERS_FILE and TRACKSIDE_METRICS_FD. Each line is an object:
`{"metric": tag, "value": v, "step": s}`, `{"report": v, "step": s}` or `{"final": v}`; a value that isn't
finite is `"nan"`, `"inf"` or `"-inf"`. A report of several numbers is an object of them, by name.
`{"next": true}` requests another trial's parameters; the answer is a line on TRACKSIDE_ANSWERS_FD:
`{"parameters": {...}}`, null if there are none, or `{"problem": text}`. `{"save": {...}}` saves an artifact;
with `answer` in it a line tells whether it was taken. `{"summary": {...}}` is a value that is no
number. `{"fetch": {...}}` has an artifact fetched; the answer is `{"path": text}`, or
`{"problem": text, "code": text}`; `{"release": {...}}` says that it is no longer used. The newest instruction
is in TRACKSIDE_INSTRUCTION_FILE: `{"number": n, "body": {...}}`.
"""

import errno
import fcntl
import json
import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from trackside.contracts.tasks.artifacts import CHECKPOINT
from trackside.sdk.in_task.channel import (
    Channel,
    FetchedCheckpoint,
    FetchError,
    ReportedSummary,
    ScreenChannel,
    StopRequest,
    json_number,
)
from trackside.sdk.in_task.forks import follow_forks
from trackside.sdk.in_task.saving import SaveError

DESCRIPTOR = "TRACKSIDE_METRICS_FD"
ANSWERS = "TRACKSIDE_ANSWERS_FD"
INSTRUCTIONS = "TRACKSIDE_INSTRUCTION_FILE"
READ_BYTES = 65_536
POLL_S = 0.02
ALIVE_EVERY_S = 0.25
PARAMETERS_FILE = "TRACKSIDE_PARAMETERS_FILE"
SUMMARY_FIELDS = ("kind", "tag", "step", "time_ms", "index", "body")


def channel_of(environment: Mapping[str, str]) -> Channel:
    """Returns the channel that the environment of a process names, else that of standard output."""
    descriptor = environment.get(DESCRIPTOR, "")
    path = environment.get(PARAMETERS_FILE, "")
    if path and descriptor.isdecimal() and _is_pipe(int(descriptor)):
        answers = environment.get(ANSWERS, "")
        answers_from = int(answers) if answers.isdecimal() and _is_pipe(int(answers)) else None
        return DescriptorChannel(int(descriptor), Path(path), answers_from)
    return ScreenChannel()


def _is_pipe(descriptor: int) -> bool:
    """Returns whether the descriptor is an open pipe: a subprocess of the program may not inherit it."""
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False


class DescriptorChannel:
    """Writes the reports of a trial to a descriptor, one line at a time, unbuffered.

    Processes that a program forks, such as those that load its data, share the descriptors. So each locks the
    folder of the parameters for a line, and their file for a question and its answer.
    """

    def __init__(self, descriptor: int, parameters: Path, answers: int | None = None) -> None:
        self._descriptor = descriptor
        self._answers = answers
        self._parameters = parameters
        self._stop = StopRequest()
        self._instruction = 0
        self._alive_at_s = float("-inf")
        self._asking, self._writing = threading.Lock(), threading.Lock()
        self._locks: dict[str, int] = {}
        self._is_forked = False
        follow_forks(self)

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters that the task was submitted with."""
        found: dict[str, Any] = json.loads(self._parameters.read_text("utf-8"))
        return found

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        """Writes an intermediate value, and those reported with it."""
        self._write({"report": _named(value, others), "step": step})

    def final(self, value: float | None, others: Mapping[str, float]) -> None:
        """Writes the final value; only the first one counts."""
        self._write({"final": _named(value, others)})

    def points(self, step: int, values: Mapping[str, float], time_ms: int | None = None) -> None:
        """Writes metrics."""
        measured = {} if time_ms is None else {"time_ms": time_ms}
        for tag, value in values.items():
            self._write({"metric": tag, "value": json_number(value), "step": step, **measured})

    def summary(self, reported: ReportedSummary) -> None:
        """Writes a value that is no number; its bytes to a file, which the worker's process takes away."""
        fields = {name: getattr(reported, name) for name in SUMMARY_FIELDS}
        if reported.data is None:
            self._write({"summary": fields})
            return
        try:
            path = _written(reported.data)
        except OSError as error:  # a full disk ends no training: the worker counts what is left out
            code = "spool_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "bad_summary"
            self._write({"summary": fields | {"problem": error.strerror or str(error), "code": code}})
            return
        fields |= {"path": path, "media_type": reported.media_type}
        if self._answers is None or self._is_forked:  # one that is killed while it waits leaves its answer
            self._write({"summary": fields})
            return
        # Waits until it was taken, so that the disk doesn't fill.
        self._ask({"summary": fields | {"answer": True}})

    def flush(self) -> None:
        """Does nothing: each line is written at once."""

    def save(
        self,
        name: str,
        source: Path | bytes,
        kind: str,
        metadata: Mapping[str, Any],
        step: int | None = None,
    ) -> None:
        """Makes the worker's process copy an artifact, and waits until it has; raises SaveError."""
        word = CHECKPOINT if kind == CHECKPOINT else "save"
        written = Path(os.environ.get("TRACKSIDE_WORKDIR", ".")) / f".{name}.{os.getpid()}.unsaved"
        if isinstance(source, bytes):
            written.write_bytes(source)
        path = written if isinstance(source, bytes) else source
        fields = {"name": name, "path": str(path.absolute()), "kind": kind, "metadata": dict(metadata)}
        answered = self._answers is not None
        line = {word: fields | {"answer": answered} | ({} if step is None else {"step": step})}
        if not answered:
            self._write(line)
            return
        answer = self._ask(line)
        if isinstance(source, bytes):
            written.unlink(missing_ok=True)
        if answer.get("problem"):
            raise SaveError(answer.get("code", ""), answer["problem"])

    def fetch(self, reference: Mapping[str, Any]) -> Path:
        """Makes the worker fetch an artifact; raises FetchError."""
        answer = {} if self._answers is None else self._ask({"fetch": dict(reference)})
        if not answer.get("path"):
            problem = answer.get("problem", "the worker's process is not there to answer")
            raise FetchError(answer.get("code", "store_unreachable"), problem)
        return Path(answer["path"])

    def release(self, reference: Mapping[str, Any]) -> None:
        """Writes that an artifact is no longer used."""
        self._write({"release": dict(reference)})

    def ready(self, detail: Mapping[str, Any]) -> None:
        """Writes that the service serves."""
        self._write({"ready": dict(detail)})

    def instruction(self, wait_s: float) -> tuple[int, dict[str, Any]] | None:
        """Returns an instruction that was not returned yet, if the file has one within `wait_s`."""
        due_s = time.monotonic() + wait_s
        while True:
            self.alive()
            found = _instruction_in(os.environ.get(INSTRUCTIONS, ""))
            if found is not None and found[0] > self._instruction:
                self._instruction = found[0]
                return found
            if time.monotonic() >= due_s:
                return None
            time.sleep(min(POLL_S, max(0.0, due_s - time.monotonic())))

    def acknowledge(self, number: int, ok: bool, detail: Mapping[str, Any]) -> None:
        """Writes what became of an instruction."""
        self._write({"acknowledge": {"number": number, "ok": ok, "detail": dict(detail)}})

    def alive(self) -> None:
        """Writes a sign of life, at most each ALIVE_EVERY_S."""
        now_s = time.monotonic()
        if now_s - self._alive_at_s >= ALIVE_EVERY_S:
            self._alive_at_s = now_s
            self._write({"alive": True})

    def last_checkpoint(self) -> FetchedCheckpoint | None:
        """Returns the checkpoint that the program was started with; None without one."""
        path, step = os.environ.get("TRACKSIDE_CHECKPOINT"), os.environ.get("TRACKSIDE_CHECKPOINT_STEP")
        return FetchedCheckpoint(int(step), Path(path)) if path and step else None

    def resumed(self) -> None:
        """Reports that the training continues from it."""
        self._write({"resumed": True})

    def should_stop(self) -> bool:
        """Returns whether SIGTERM was received; see StopRequest."""
        return self._stop.seen()

    def next_parameters(self) -> dict[str, Any] | None:
        """Requests another trial's parameters; raises ValueError if the task type doesn't accept them."""
        if self._answers is None:
            return None
        answer = self._ask({"next": True})
        if answer.get("problem"):
            raise ValueError(answer["problem"])
        return answer.get("parameters")

    def _ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Writes a line and waits for its answer; an empty one if the worker's process is gone."""
        assert self._answers is not None, "it is asked where there are answers"
        line = b""
        with self._asking, self._locked("questions", self._parameters):
            self._write(message)
            while not line.endswith(b"\n") and (octets := os.read(self._answers, READ_BYTES)):
                line += octets
        found: dict[str, Any] = json.loads(line or b"{}")
        return found

    def _write(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message, allow_nan=False).encode() + b"\n"
        with self._writing, self._locked("lines", self._parameters.parent):
            while line:
                line = line[os.write(self._descriptor, line) :]

    @contextmanager
    def _locked(self, name: str, path: Path) -> Iterator[None]:
        """Keeps other processes out that lock this path; none where it is not there."""
        if name not in self._locks:
            try:
                self._locks[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                yield
                return
        fcntl.flock(self._locks[name], fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._locks[name], fcntl.LOCK_UN)

    def begin_in_fork(self) -> None:
        """Takes new locks in a process that was forked: another thread may have held those of its parent."""
        self._is_forked = True
        self._asking, self._writing = threading.Lock(), threading.Lock()
        while self._locks:
            os.close(self._locks.popitem()[1])


def _written(data: bytes) -> str:
    """Returns the path of a new file with these bytes, in the working directory. Raises OSError."""
    folder = os.environ.get("TRACKSIDE_WORKDIR", ".")
    file = NamedTemporaryFile(dir=folder, prefix=".summary-", delete=False)  # noqa: SIM115
    try:
        with file:
            file.write(data)
    except OSError:
        Path(file.name).unlink()
        raise
    return file.name


def _instruction_in(path: str) -> tuple[int, dict[str, Any]] | None:
    """Returns number and body of the instruction in a file, which is replaced as a whole; None without."""
    try:
        found = json.loads(Path(path).read_text("utf-8")) if path else None
    except FileNotFoundError:
        return None
    return None if found is None else (found["number"], found["body"])


def _named(value: float | None, others: Mapping[str, float]) -> float | str | dict[str, float | str]:
    if value is not None and not others:
        return json_number(value)
    plain = {} if value is None else {"default": json_number(value)}
    return plain | {name: json_number(other) for name, other in others.items()}
