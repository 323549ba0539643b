"""A short task that reports, and ends once the tide has reached its trial."""

import os
import time
from pathlib import Path
from typing import Any

from trackside.sdk import Task, trial

STEPS = 4
LOOK_EVERY_S = 0.01


class Short(Task):
    """Leaves a file that names its run, works for `seconds`, waits for the tide, ends with `value`."""

    def train(self, device: str) -> dict[str, Any]:
        """Runs on any device."""
        home, asked = Path.home(), trial.parameters()
        task, attempt = os.environ["TRACKSIDE_TASK_ID"], os.environ["TRACKSIDE_ATTEMPT"]
        (home / "runs" / f"{task}_{attempt}_{os.getpid()}").touch()
        for step in range(STEPS):
            trial.report({"default": asked["value"] * step, "half": asked["value"] / 2})
            time.sleep(asked["seconds"] / STEPS)
        number = int(task.rpartition(".")[2])
        while number >= int((home / "tide").read_text()):
            time.sleep(LOOK_EVERY_S)
        trial.result(asked["value"])
        return {"device": device}
