"""What a trial says when it is a program of its own that a worker runs: lines of JSON on a descriptor.

The worker gives TRACKSIDE_PARAMETERS_FILE and TRACKSIDE_METRICS_FD. Each line is an object:
`{"metric": tag, "value": v, "step": s}`, `{"report": v, "step": s}` or `{"final": v}`; a value that isn't
finite is `"nan"`, `"inf"` or `"-inf"`. A report of several numbers is an object of them, by name.
`{"next": true}` asks for another trial's parameters; the answer is a line on TRACKSIDE_ANSWERS_FD:
`{"parameters": {...}}`, null if there are none, or `{"problem": text}`.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trackside.sdk.channel import Channel, ScreenChannel, StopRequest, wire

DESCRIPTOR = "TRACKSIDE_METRICS_FD"
ANSWERS = "TRACKSIDE_ANSWERS_FD"
READ_BYTES = 65_536
PARAMETERS_FILE = "TRACKSIDE_PARAMETERS_FILE"


def channel_of(environment: Mapping[str, str]) -> Channel:
    """Returns the channel that a process's environment names, or the screen."""
    descriptor = environment.get(DESCRIPTOR, "")
    path = environment.get(PARAMETERS_FILE, "")
    if path and descriptor.isdecimal() and _is_pipe(int(descriptor)):
        answers = environment.get(ANSWERS, "")
        hears = int(answers) if answers.isdecimal() and _is_pipe(int(answers)) else None
        return DescriptorChannel(int(descriptor), Path(path), hears)
    return ScreenChannel()


def _is_pipe(descriptor: int) -> bool:
    """Returns whether the descriptor is there: a program's own subprocess may not have been given it."""
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False


class DescriptorChannel:
    """Writes what a trial says on a descriptor, a line at a time and at once."""

    def __init__(self, descriptor: int, parameters: Path, answers: int | None = None) -> None:
        self._descriptor = descriptor
        self._answers = answers
        self._parameters = parameters
        self._stop = StopRequest()

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters that the task was submitted with."""
        found: dict[str, Any] = json.loads(self._parameters.read_text("utf-8"))
        return found

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        """Writes a value that decides, and those said with it."""
        self._write({"report": _named(value, others), "step": step})

    def final(self, value: float | None, others: Mapping[str, float]) -> None:
        """Writes the value at the end; only the first one counts."""
        self._write({"final": _named(value, others)})

    def points(self, step: int, values: Mapping[str, float]) -> None:
        """Writes values to look at."""
        for tag, value in values.items():
            self._write({"metric": tag, "value": wire(value), "step": step})

    def should_stop(self) -> bool:
        """Returns whether SIGTERM came; see StopRequest."""
        return self._stop.seen()

    def next_parameters(self) -> dict[str, Any] | None:
        """Asks for another trial's parameters; raises ValueError for such as the task's type won't take."""
        if self._answers is None:
            return None
        self._write({"next": True})
        line = b""
        while not line.endswith(b"\n") and (octets := os.read(self._answers, READ_BYTES)):
            line += octets
        answer: dict[str, Any] = json.loads(line or b"{}")
        if answer.get("problem"):
            raise ValueError(answer["problem"])
        return answer.get("parameters")

    def _write(self, said: Mapping[str, Any]) -> None:
        line = json.dumps(said, allow_nan=False).encode() + b"\n"
        while line:  # up to 4 KiB go at once, so that lines of several processes don't mix
            line = line[os.write(self._descriptor, line) :]


def _named(value: float | None, others: Mapping[str, float]) -> float | str | dict[str, float | str]:
    if value is not None and not others:
        return wire(value)
    plain = {} if value is None else {"default": wire(value)}
    return plain | {name: wire(other) for name, other in others.items()}
