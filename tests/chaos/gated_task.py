"""A short task that reports, and ends once a test has released its trial."""

import os
from pathlib import Path
from threading import Event
from typing import Any

from trackside.sdk import Task, trial

STEPS = 4
POLL_S = 0.01


class GatedTask(Task):
    """Creates a file that names its run, works for `seconds`, waits for its release, ends with `value`."""

    def train(self, device: str) -> dict[str, Any]:
        """Runs on any device."""
        home, asked = Path.home(), trial.parameters()
        task, attempt = os.environ["TRACKSIDE_TASK_ID"], os.environ["TRACKSIDE_ATTEMPT"]
        (home / "runs" / f"{task}_{attempt}_{os.getpid()}").touch()
        work = Event()  # never set: waiting for it is all the work there is
        for step in range(STEPS):
            trial.report({"default": asked["value"] * step, "half": asked["value"] / 2})
            work.wait(asked["seconds"] / STEPS)
        number = int(task.rpartition(".")[2])
        while number >= int((home / "released").read_text()):
            work.wait(POLL_S)
        trial.result(asked["value"])
        return {"device": device}
