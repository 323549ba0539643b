"""Tasks of the stack that alerts are tested on."""

from threading import Event
from typing import Any

from trackside.sdk import Task, trial

TOO_MANY_BYTES = 1 << 60


class Working(Task):
    """Works for `seconds`, and reports its value."""

    def train(self, device: str) -> dict[str, Any]:
        """Runs on any device."""
        asked = trial.parameters()
        Event().wait(asked["seconds"])
        trial.result(asked["seconds"])
        return {}


class Greedy(Task):
    """Takes more memory than any machine has."""

    def train(self, device: str) -> dict[str, Any]:
        """Runs on any device."""
        return {"bytes": len(bytearray(TOO_MANY_BYTES))}
