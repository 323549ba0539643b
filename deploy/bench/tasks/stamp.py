"""Tasks that do nothing but return when they ran and in which process."""

import os
import time
from typing import Any

from trackside.sdk import Task


class Stamp(Task):
    """Returns its pid, and when its code began, trained and ended: s of the monotonic clock of the host."""

    pause_s = 0.0

    def load(self) -> None:
        """Notes the beginning."""
        self.began_s = time.monotonic()

    def train(self, device: str) -> dict[str, Any]:
        """Notes when it is called, waits, and notes the end."""
        trains_s = time.monotonic()
        time.sleep(self.pause_s)
        return {
            "pid": os.getpid(),
            "began_s": self.began_s,
            "trains_s": trains_s,
            "ended_s": time.monotonic(),
        }


class Paced(Stamp):
    """Takes a quarter of a second and no processor time, so that the cores are not what limits."""

    pause_s = 0.25
