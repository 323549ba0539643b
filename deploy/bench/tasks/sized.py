"""A task that reports three values at each of its steps, and prints a line."""

import sys

from trackside.sdk import Task, trial


class Sized(Task):
    """Does `STEPS` steps, which take no time."""

    STEPS = 10

    def train(self, device: str) -> dict[str, str]:
        """Reports and prints."""
        x = trial.parameters()["x"]
        for step in range(self.STEPS):
            trial.report({"default": x / (step + 1), "loss": x * step, "accuracy": x}, step=step)
            sys.stdout.write(f"step {step}: loss={x * step:.6f} accuracy={x:.6f}\n")
        trial.result(x)
        return {"device": device}
