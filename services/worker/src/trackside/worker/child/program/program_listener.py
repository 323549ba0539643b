"""Reads what a program writes: its lines for the trial, and its standard error."""

import contextlib
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from trackside.eventlog.clock import monotonic_s
from trackside.sdk import trial
from trackside.worker.child.process.masking import redact
from trackside.worker.child.program.program_lines import (
    AcknowledgeLine,
    AliveLine,
    FetchLine,
    FinalLine,
    LineSplitter,
    MetricLine,
    NextLine,
    ProgramLine,
    ReadyLine,
    RefusedLine,
    ReleaseLine,
    ReportLine,
    RequestLine,
    ResultLine,
    ResumedLine,
    SaveLine,
    SummaryLine,
    UnreadableLineError,
    read_line,
)
from trackside.worker.child.program.program_talk import ProgramTalk
from trackside.worker.durable_files import write_all
from trackside.worker.output_text import keep_end, printable
from trackside.worker.own_memory import own_memory

LAST_LINES = 20
MAX_MESSAGE_BYTES = 4_096
KEPT_BYTES = 65_536
MAX_WARNINGS = 20
READ_BYTES = 65_536
POLL_S = 0.05
DRAIN_BYTES = 16_777_216
"""How much is read after a program has ended; processes that it has left may continue to write."""
FIRST_MEASURE_S, LAST_MEASURE_S = 0.01, 2.0
"""The age at which the memory of a program is measured first, and after which only the worker does."""
GROWTH = 1.25
"""How much older a program is each time it is measured: under 30 times, 5 ms for each GiB that it has."""


class ProgramListener:
    """Reads what a program writes: passes metrics to the trial, copies its standard error."""

    def __init__(
        self,
        metrics_read: int,
        process: "subprocess.Popen[bytes]",
        carry_out: Callable[[RequestLine], None],
        talk: ProgramTalk,
    ) -> None:
        assert process.stderr is not None
        self.result: dict[str, Any] = {}
        self._process = process
        self._carry_out = carry_out
        self._talk = talk
        self._stderr = process.stderr
        self._metrics_fd = metrics_read
        self._lines = LineSplitter()
        self._last = b""
        self._warnings = 0
        self.peak_bytes = 0
        self._began_s = monotonic_s()
        self._due_age_s = FIRST_MEASURE_S

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

        Its memory is gone once it has ended, so it is measured each time its age has grown by a quarter: what
        it took before its last fifth is seen. After two seconds the worker does so.
        """
        age_s = monotonic_s() - self._began_s
        if age_s >= self._due_age_s:
            found = own_memory(Path(f"/proc/{self._process.pid}"), 0)
            self.peak_bytes = max(self.peak_bytes, found.peak_bytes if found is not None else 0)
            self._due_age_s = GROWTH * age_s
        return self._due_age_s - age_s if self._due_age_s < LAST_MEASURE_S else None

    def last_lines(self) -> str:
        """Returns the last lines of the program's standard error, to follow a sentence."""
        text = self._last.decode("utf-8", "replace").rstrip()
        lines = [line.rpartition("\r")[2] for line in text.splitlines()[-LAST_LINES:]]
        last = redact(printable("\n".join(lines)))
        return f"; its last words:\n{keep_end(last, MAX_MESSAGE_BYTES - 200)}" if last else ""

    def _copy_stderr(self, octets: bytes) -> None:
        self._last = (self._last + octets)[-KEPT_BYTES:]
        write_all(2, octets)

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
                if isinstance(error, UnreadableLineError) and error.waits:
                    self._carry_out(RefusedLine(str(error)))
                self._warn(f"line {number} of the metrics can't be read: {error}")

    def _report(self, line: ProgramLine | None) -> None:
        match line:
            case MetricLine(tag, value, step, time_ms):
                trial.metric(tag, value, step, time_ms)
            case ReportLine(value, step):
                trial.report(value, step)
            case FinalLine(value):
                trial.result(value)
            case ResultLine(result):
                self.result = result
            case SaveLine() | NextLine() | FetchLine() | SummaryLine() | RefusedLine():
                self._carry_out(line)
            case ReadyLine() | AcknowledgeLine() | AliveLine() | ResumedLine() | ReleaseLine():
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
