"""Short tasks with reports and checkpoints."""

from threading import Event
from typing import Any

from trackside.sdk import Task, trial

STEPS = 4


class Curve(Task):
    """Works for `seconds`, reports at each step, ends with `value`; continues from its last checkpoint."""

    def train(self, device: str) -> dict[str, Any]:
        """Runs on any device."""
        asked = {"seconds": 1.0, **trial.parameters()}
        last = trial.last_checkpoint()
        first = last.step if last else 0
        if last and last.state != {"steps": first}:
            raise ValueError(f"the checkpoint of step {first} is {last.state}")
        work = Event()  # never set: waiting for it is all the work there is
        for step in range(first, STEPS):
            work.wait(asked["seconds"] / STEPS)
            trial.report(asked["value"] * (step + 1) / STEPS, step)
            trial.checkpoint(step + 1, {"steps": step + 1})
        trial.result(asked["value"])
        return {"value": asked["value"]}
