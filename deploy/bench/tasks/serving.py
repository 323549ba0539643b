"""A service that answers at once, one that serves a model, and a task that continues from its checkpoint."""

import os
import time
from typing import Any

from trackside.incremental import InferenceService
from trackside.sdk import Service, Task, trial

FIRST = 1
"""The step of the checkpoint."""


class Echo(Service):
    """Acknowledges each instruction, with the time at which it came: s of the host's monotonic clock."""

    def serve(self, device: str) -> None:
        """Waits for instructions until it is stopped."""
        trial.ready()
        while not trial.should_stop():
            found = trial.instruction(wait_s=1.0)
            if found is not None:
                found.acknowledge(at_s=time.monotonic())


class Linear(InferenceService):
    """Serves a matrix, `weights` of an .npz file; its outputs are the product with the inputs."""

    def predict(self, model: Any, inputs: Any) -> Any:
        """Returns the product."""
        return model["weights"] @ inputs


class Resumed(Task):
    """Reports the pid of its process, for ever; continued from its checkpoint, it reports once and ends."""

    def train(self, device: str) -> None:
        """Saves the checkpoint after its first report."""
        pid = float(os.getpid())
        found = trial.last_checkpoint()
        trial.report(pid, step=0 if found is None else found.step)
        if found is None:
            trial.checkpoint(FIRST, {"step": FIRST})
            step = FIRST
            while not trial.should_stop():
                time.sleep(0.1)
                step += 1
                trial.report(pid, step=step)
