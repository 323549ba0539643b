"""A task that does nothing but say when it ran and in which process."""

import os
import time
from typing import Any

from trackside.sdk import Task


class Stamp(Task):
    """Returns its pid, and when its code began and ended: s of the clock that all processes share."""

    def load(self) -> None:
        """Notes the beginning."""
        self.began_s = time.monotonic()

    def train(self, device: str) -> dict[str, Any]:
        """Notes the end."""
        return {"pid": os.getpid(), "began_s": self.began_s, "ended_s": time.monotonic()}
