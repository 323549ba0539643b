"""Where a trial's values go: to its worker, to a descriptor, or to the screen when there is no worker."""

import json
import math
import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any, Protocol


class Channel(Protocol):
    """Takes what a trial says."""

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters of this trial."""
        ...

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        """Takes a value that decides, and the others that were said with it; their names may say which."""
        ...

    def final(self, value: float | None, others: Mapping[str, float]) -> None:
        """Takes the value that the trial is judged by in the end, and those said with it."""
        ...

    def points(self, step: int, values: Mapping[str, float]) -> None:
        """Takes values to look at."""
        ...

    def should_stop(self) -> bool:
        """Returns whether the trial was asked to end."""
        ...

    def next_parameters(self) -> dict[str, Any] | None:
        """Waits for the parameters of another trial; None if there is none."""
        ...


class ScreenChannel:
    """Prints what a trial says; parameters are the JSON object in TRACKSIDE_PARAMETERS, or none."""

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters of TRACKSIDE_PARAMETERS; raises ValueError if that is no JSON object."""
        given = os.environ.get("TRACKSIDE_PARAMETERS", "{}")
        found = json.loads(given)
        if not isinstance(found, dict):
            raise ValueError(f"TRACKSIDE_PARAMETERS: expected a JSON object, got {given[:80]!r}")
        return found

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        """Prints a value that decides."""
        sys.stdout.write(f"report step={step}{_shown(value, others)}\n")

    def final(self, value: float | None, others: Mapping[str, float]) -> None:
        """Prints the value at the end."""
        sys.stdout.write(f"result{_shown(value, others)}\n")

    def points(self, step: int, values: Mapping[str, float]) -> None:
        """Prints values to look at."""
        named = " ".join(f"{tag}={value:g}" for tag, value in values.items())
        sys.stdout.write(f"log step={step} {named}\n")

    def should_stop(self) -> bool:
        """Never: nobody is there to ask for it."""
        return False

    def next_parameters(self) -> None:
        """Returns None: there is no search."""


class StopRequest:
    """Notices SIGTERM. Who calls `seen` gets the grace time; who never does ends at once."""

    def __init__(self) -> None:
        self._seen: threading.Event | None = None

    def seen(self) -> bool:
        """Returns whether SIGTERM came; the first call must come from the main thread."""
        if self._seen is None:
            seen = self._seen = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: seen.set())
        return self._seen.is_set()


def wire(value: float) -> float | str:
    """Writes a number for JSON: itself if it is finite, else `nan`, `inf` or `-inf`."""
    return value if math.isfinite(value) else str(value)


def _shown(value: float | None, others: Mapping[str, float]) -> str:
    """Writes the numbers of a report for a person."""
    plain = "" if value is None else f" value={value:g}"
    return plain + "".join(f" {name}={other:g}" for name, other in others.items())
