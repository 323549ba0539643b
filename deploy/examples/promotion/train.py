"""A training that goes up to its step limit, and continues from the checkpoint that it is given."""

from trackside.sdk import Task, trial

POINTS = [(x / 100, 3 * x / 100 - 1) for x in range(100)]


class Line(Task):
    """Fits a line to points by gradient descent."""

    def train(self, device: str) -> dict[str, float]:
        """Trains the epochs that this trial has."""
        rate = trial.parameters({"rate": 0.5})["rate"]
        limit = trial.step_limit() or 9
        last = trial.last_checkpoint()
        state = last.state if last else {"slope": 0.0, "height": 0.0}
        for epoch in range(last.step if last else 0, limit):
            error = train_one_epoch(state, rate)
            trial.report(error, epoch)
            trial.checkpoint(epoch + 1, state)
        return state


def train_one_epoch(state: dict[str, float], rate: float) -> float:
    """Moves the line by its gradient at every tenth point; returns its mean squared error at all."""
    for x, y in POINTS[::10]:
        residual = state["slope"] * x + state["height"] - y
        state["slope"] -= rate * residual * x
        state["height"] -= rate * residual
    return sum((state["slope"] * x + state["height"] - y) ** 2 for x, y in POINTS) / len(POINTS)
