"""Which decision a service was making when it ended itself, because that took too long.

The next process of the service would make the same decision. So what is decided is marked in a file of a
state folder, which outlives the process, and a process that ends for it leaves its stack traces there. One
that was killed, ran out of memory or was told to stop leaves none. Nor does one that waits for a processor:
a timer of the kernel counts processor time, and needs no thread, which one that holds the interpreter's lock
would block.
"""

import faulthandler
import json
import mmap
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import structlog

logger = structlog.get_logger("trackside.eventlog")

GIVEN_UP_AFTER = 2
"""How many times a service is ended for a decision before it is not made again."""
_MARK_BYTES = 1_024
_LENGTH_BYTES = 2


@dataclass(slots=True)
class StuckDecision:
    """How often a service was ended while it decided about a stream, and whether it is to stop doing so."""

    times: int = 0
    without_command: bool = False
    """Whether it was given up without a command that could be refused: its stream is left as it is."""


class StuckDecisions:
    """The streams that a service was ended for, by a file that the next process reads."""

    def __init__(self, folder: Path | None, service: str, release: str, limit_s: float) -> None:
        """Reads what the process before has left in a folder, which is made; without one nothing is limited.

        `limit_s` is the processor time of a decision. What was counted by another release is dropped, as
        that may have been mended.
        """
        self.by_stream: dict[str, StuckDecision] = {}
        self._release, self._limit_s = release, limit_s
        self.ended_for: str | None = None
        """The stream that the process before ended itself for, if it did; empty if it decided about none."""
        self._counts: Path | None = None
        self._mark: mmap.mmap | None = None
        self._traces: IO[bytes] | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._open(folder, service)

    def _open(self, folder: Path, service: str) -> None:
        self._counts = folder / f"{service}.stuck.json"
        self._traces = (folder / f"{service}.stuck.txt").open("a+b")
        with (folder / f"{service}.deciding").open("a+b") as file:
            file.truncate(_MARK_BYTES)
            self._mark = mmap.mmap(file.fileno(), _MARK_BYTES)
        self.by_stream = self._read()
        if self._traces.seek(0, 2):
            self._note_end(self._traces)
        self._set_mark(b"")
        faulthandler.register(signal.SIGPROF, file=self._traces, all_threads=True, chain=True)

    def close(self) -> None:
        """Closes the files."""
        if self._traces is not None:
            faulthandler.unregister(signal.SIGPROF)
            self._traces.close()
        if self._mark is not None:
            self._mark.close()

    def begin(self, stream_id: str) -> None:
        """Notes that a stream is decided about; the process ends if that takes too long."""
        if self._mark is not None:
            self._set_mark(stream_id.encode())
            signal.setitimer(signal.ITIMER_PROF, self._limit_s)

    def end(self, stream_id: str) -> None:
        """Notes that the decision is made: its stream has no count any more, unless it was given up."""
        if self._mark is not None:
            signal.setitimer(signal.ITIMER_PROF, 0)
            self._set_mark(b"")
        if stream_id in self.by_stream and not self.has_given_up(stream_id):
            self._drop(stream_id)

    def has_given_up(self, stream_id: str) -> bool:
        """Returns whether a stream is not to be decided about as usual."""
        found = self.by_stream.get(stream_id)
        return found is not None and found.times >= GIVEN_UP_AFTER

    def leave(self, stream_id: str) -> None:
        """Notes that a stream that was given up has no command to refuse: it is left until an upgrade."""
        if not self.by_stream[stream_id].without_command:
            self.by_stream[stream_id].without_command = True
            self._write()

    def refused(self, stream_id: str) -> None:
        """Notes that a command of a stream was refused: the stream may be decided about again."""
        if stream_id in self.by_stream and not self.by_stream[stream_id].without_command:
            self._drop(stream_id)

    def _drop(self, stream_id: str) -> None:
        del self.by_stream[stream_id]
        self._write()

    def _set_mark(self, stream_id: bytes) -> None:
        assert self._mark is not None
        self._mark[:_LENGTH_BYTES] = len(stream_id).to_bytes(_LENGTH_BYTES, "big")
        self._mark[_LENGTH_BYTES : _LENGTH_BYTES + len(stream_id)] = stream_id

    def _note_end(self, traces: IO[bytes]) -> None:
        assert self._mark is not None
        traces.seek(0)
        text = traces.read().decode(errors="replace")
        traces.truncate(0)
        end = _LENGTH_BYTES + int.from_bytes(self._mark[:_LENGTH_BYTES], "big")
        stream_id = self._mark[_LENGTH_BYTES:end].decode(errors="replace")
        self.ended_for = stream_id
        if stream_id:
            self.by_stream.setdefault(stream_id, StuckDecision()).times += 1
            self._write()
        times = self.by_stream[stream_id].times if stream_id else 0
        logger.error("a decision took too long", stream=stream_id, times=times, traces=text)

    def _read(self) -> dict[str, StuckDecision]:
        assert self._counts is not None
        try:
            kept: dict[str, Any] = json.loads(self._counts.read_bytes())
            if kept["release"] == self._release:
                return {name: StuckDecision(**each) for name, each in kept["streams"].items()}
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # none yet, or one that was cut off
            pass
        return {}

    def _write(self) -> None:
        if self._counts is None:
            return
        streams = {
            name: {"times": each.times, "without_command": each.without_command}
            for name, each in self.by_stream.items()
        }
        written = self._counts.with_suffix(".new")
        written.write_text(json.dumps({"release": self._release, "streams": streams}))
        written.replace(self._counts)
