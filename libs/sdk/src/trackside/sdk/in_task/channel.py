"""Channels of a trial: to its worker, to a file descriptor, or to standard output when there is no worker."""

import json
import math
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from trackside.contracts.tasks.artifacts import CHECKPOINT

CHECKPOINT_ASKED = "TRACKSIDE_CHECKPOINT_ASKED"
"""The variable with the path of a file that is there while the task is asked for a checkpoint."""


class CodedError(Exception):
    """Something of an artifact could not be done; `code` says why, such as `artifact_missing`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class FetchError(CodedError):
    """An artifact can't be had; `code` says why, such as `artifact_missing` or `store_unreachable`."""


class FetchedCheckpoint(NamedTuple):
    """A checkpoint as a file or folder, and the step that training continues with."""

    step: int
    path: Path


@dataclass(frozen=True, slots=True)
class ReportedSummary:
    """A value that is no number, such as an image, as its SummaryKind has packed it.

    `index` counts those of one tag and step from 0. `body` is the whole value, or describes it where `data`
    are its bytes.
    """

    kind: str
    tag: str
    step: int
    time_ms: int
    index: int
    body: Mapping[str, Any]
    data: bytes | None = None
    media_type: str = ""


class Channel(Protocol):
    """Receives the reports of a trial, and provides its parameters."""

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters of this trial."""
        ...

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        """Receives an intermediate value of the objective, and others reported with it, by name."""
        ...

    def final(self, value: float | None, others: Mapping[str, float]) -> None:
        """Receives the final value of the trial, and others reported with it."""
        ...

    def points(self, step: int, values: Mapping[str, float], time_ms: int | None = None) -> None:
        """Receives metrics that don't decide anything, measured at `time_ms` since 1970, or now."""
        ...

    def summary(self, reported: ReportedSummary) -> None:
        """Receives a value that is no number; waits where more come than can be taken away."""
        ...

    def flush(self) -> None:
        """Sends what waits to be sent together with more."""
        ...

    def save(
        self,
        name: str,
        source: Path | bytes,
        kind: str,
        metadata: Mapping[str, Any],
        step: int | None = None,
    ) -> None:
        """Takes an artifact: a file, a folder or bytes, which may be changed afterwards. Raises SaveError."""
        ...

    def fetch(self, reference: Mapping[str, Any]) -> Path:
        """Returns the path of an artifact, once it is here. Raises FetchError."""
        ...

    def release(self, reference: Mapping[str, Any]) -> None:
        """Receives that an artifact which was fetched is no longer used."""
        ...

    def ready(self, detail: Mapping[str, Any]) -> None:
        """Receives that a service serves, and what it says of that."""
        ...

    def instruction(self, wait_s: float) -> tuple[int, dict[str, Any]] | None:
        """Returns number and body of an instruction that was not returned yet; waits `wait_s` at most."""
        ...

    def acknowledge(self, number: int, ok: bool, detail: Mapping[str, Any]) -> None:
        """Receives that an instruction was carried out, or was not."""
        ...

    def alive(self) -> None:
        """Receives a sign of life of a service."""

    def last_checkpoint(self) -> FetchedCheckpoint | None:
        """Returns the last checkpoint of the task; None without one. Raises CheckpointError."""
        ...

    def resumed(self) -> None:
        """Takes the word that the training continues from that checkpoint."""
        ...

    def should_stop(self) -> bool:
        """Returns whether the trial was requested to stop."""
        ...

    def next_parameters(self) -> dict[str, Any] | None:
        """Waits for the parameters of another trial; None if there is none."""
        ...


class ScreenChannel:
    """Prints the reports of a trial; its parameters are the JSON object in TRACKSIDE_PARAMETERS, or none."""

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters of TRACKSIDE_PARAMETERS; raises ValueError if that is no JSON object."""
        given = os.environ.get("TRACKSIDE_PARAMETERS", "{}")
        found = json.loads(given)
        if not isinstance(found, dict):
            raise ValueError(f"TRACKSIDE_PARAMETERS: expected a JSON object, got {given[:80]!r}")
        return found

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        """Prints an intermediate value."""
        sys.stdout.write(f"report step={step}{_shown(value, others)}\n")

    def final(self, value: float | None, others: Mapping[str, float]) -> None:
        """Prints the final value."""
        sys.stdout.write(f"result{_shown(value, others)}\n")

    def points(self, step: int, values: Mapping[str, float], time_ms: int | None = None) -> None:
        """Prints metrics."""
        named = " ".join(f"{tag}={value:g}" for tag, value in values.items())
        sys.stdout.write(f"log step={step} {named}\n")

    def summary(self, reported: ReportedSummary) -> None:
        """Prints what was reported."""
        sys.stdout.write(f"summary step={reported.step} {reported.kind} {reported.tag}\n")

    def flush(self) -> None:
        """Does nothing: nothing waits."""

    def save(
        self,
        name: str,
        source: Path | bytes,
        kind: str,
        metadata: Mapping[str, Any],
        step: int | None = None,
    ) -> None:
        """Copies an artifact to the folder `outputs` of the current directory, and prints that.

        Of a checkpoint only the step is printed: there is no later attempt.
        """
        if kind == CHECKPOINT:
            sys.stdout.write(f"checkpoint step={step}\n")
            return
        target = Path("outputs") / name
        target.parent.mkdir(exist_ok=True)
        if isinstance(source, bytes):
            target.write_bytes(source)
        elif source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif not (target.exists() and source.samefile(target)):
            shutil.copyfile(source, target)
        sys.stdout.write(f"save {kind} {name} to {target}\n")

    def fetch(self, reference: Mapping[str, Any]) -> Path:
        """Returns the path that a file:// URL names. Raises FetchError: there is no worker for others."""
        uri = urlsplit(str(reference.get("uri")))
        if uri.scheme != "file":
            raise FetchError("store_missing", "without a worker only a file:// URL can be fetched")
        return Path(unquote(uri.path))

    def release(self, reference: Mapping[str, Any]) -> None:
        """Does nothing: no cache holds it."""

    def last_checkpoint(self) -> None:
        """Returns None: there was no earlier attempt."""

    def resumed(self) -> None:
        """Does nothing: there was no earlier attempt."""

    def ready(self, detail: Mapping[str, Any]) -> None:
        """Prints that the service serves."""
        sys.stdout.write(f"ready {json.dumps(dict(detail))}\n")

    def instruction(self, wait_s: float) -> None:
        """Returns None after the wait: there is no worker to give one."""
        time.sleep(wait_s)

    def acknowledge(self, number: int, ok: bool, detail: Mapping[str, Any]) -> None:
        """Prints what became of an instruction."""
        sys.stdout.write(f"acknowledge number={number} ok={ok} {json.dumps(dict(detail))}\n")

    def alive(self) -> None:
        """Does nothing: nobody waits for it."""

    def should_stop(self) -> bool:
        """Returns False: there is no worker to request it."""
        return False

    def next_parameters(self) -> None:
        """Returns None: there is no search."""


def checkpoint_is_asked() -> bool:
    """Returns whether the worker asks this process for a checkpoint."""
    asked = os.environ.get(CHECKPOINT_ASKED)
    return asked is not None and Path(asked).exists()


class StopRequest:
    """Handles SIGTERM from the first call of `seen` on: a task that calls it gets the grace time to end."""

    def __init__(self) -> None:
        self._seen: threading.Event | None = None

    def seen(self) -> bool:
        """Returns whether SIGTERM was received; the first call must be made in the main thread."""
        if self._seen is None:
            seen = self._seen = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: seen.set())
        return self._seen.is_set()


def json_number(value: float) -> float | str:
    """Returns a number for JSON: itself if it is finite, else `nan`, `inf` or `-inf`."""
    return value if math.isfinite(value) else str(value)


def _shown(value: float | None, others: Mapping[str, float]) -> str:
    """Returns the numbers of a report as text."""
    plain = "" if value is None else f" value={value:g}"
    return plain + "".join(f" {name}={other:g}" for name, other in others.items())
