"""A task that runs out of memory, or waits, as its parameters say. For tests of the worker.

Parameters, all optional: `notes`, a file that gets a line for each phase that begins; `load` and `train`,
lists of what each load or train does in its turn: "ok", "wait" (for a line from the pipe `gate`), or the name
of one of RAISES, or "wait_" and such a name; `keep` bytes that train holds when it raises, or a list of them
for each train; `report` before that, and `tell_pid` as the first; `linger` at the gate once the end has been
said.
"""

import io
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

from trackside.sdk import Task, trial


class OutOfMemoryError(RuntimeError):
    """Is named as torch's."""


class OwnError(RuntimeError):
    """A subclass whose text is that of CUDA."""


def exhaust_host() -> None:
    """Allocates a pebibyte, which fails on any host."""
    bytearray(2**50)


def exhaust_device() -> None:
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def exhaust_device_by_text() -> None:
    raise OwnError("CUDA out of memory. Tried to allocate 2.00 GiB")


def exhaust_host_and_hide_it() -> None:
    try:
        exhaust_host()
    except MemoryError as error:
        raise ValueError("the batch failed") from error


def fill_disk() -> None:
    with open("/dev/full", "w") as file:  # noqa: PTH123
        file.write("checkpoint")


def take_half_a_gib() -> None:
    sys.stdout.write(f"{len(bytes(1) * 2**29)}\n")


def start_helpers() -> None:
    """Forks two processes that wait until the task ends, as those of a DataLoader do."""
    for _ in range(2):
        forked = multiprocessing.get_context("fork").Process(target=signal.pause, daemon=True)
        forked.start()


def say_much() -> None:
    sys.stdout.write("".join(f"line {number}\n" for number in range(2_000)))


def kill_itself() -> None:
    os.kill(os.getpid(), 9)


RAISES = {
    "much": take_half_a_gib,
    "host": exhaust_host,
    "device": exhaust_device,
    "text": exhaust_device_by_text,
    "chained": exhaust_host_and_hide_it,
    "disk": fill_disk,
    "killed": kill_itself,
    "say": say_much,
    "helpers": start_helpers,
}


class OutputThatWaits(io.StringIO):
    """An output that is flushed when a gate opens: what holds a process that has said its end."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self._gate = gate

    def flush(self) -> None:
        """Waits at the gate."""
        Path(self._gate).read_text()


class Scripted(Task):
    """Does as its parameters say."""

    def __init__(self) -> None:
        self.requested = trial.parameters()
        self.loaded: bytearray | None = None

    def load(self) -> None:
        self._turn("load")
        self.loaded = bytearray(1_000)

    def train(self, device: str) -> dict[str, Any]:
        assert self.loaded is not None
        before = resident_bytes()
        keep = self.requested.get("keep", 0)
        scratch = bytearray(keep.pop(0) if isinstance(keep, list) else keep)
        scratch[::4096] = b"x" * len(scratch[::4096])
        pid = [os.getpid()] if self.requested.get("tell_pid") else []
        for value in pid + self.requested.get("report", []):
            trial.report(value)
        self._turn("train")
        if self.requested.get("linger"):
            sys.stdout = OutputThatWaits(self.requested["gate"])
        return {
            "device": device,
            "pid": os.getpid(),
            "before": before,
            "cuda": os.environ["CUDA_VISIBLE_DEVICES"],
        }

    def _turn(self, phase: str) -> None:
        if "notes" in self.requested:
            with Path(self.requested["notes"]).open("a") as notes:
                notes.write(f"{phase} {os.getpid()}\n")
        turns = self.requested.get(phase, [])
        turn = turns.pop(0) if turns else "ok"
        for step in turn.split("_"):
            if step == "wait":
                sys.stdout.write(f"waits in {phase}\n")
                with Path(self.requested["gate"]).open() as gate:
                    gate.readline()
            elif step != "ok":
                RAISES[step]()


def resident_bytes() -> int:
    """Returns the resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
