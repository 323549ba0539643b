"""Tasks that note in their HOME what they have done, so that a test can compare that with the log."""

import hashlib
import os
from pathlib import Path
from threading import Event
from typing import Any

from trackside.sdk import Service, Task, trial

SIZE_BYTES = 300_000
MOMENTUM, RATE = 0.9, 0.02
DATA = [(x / 10, 3.0 * x / 10 - 1.0) for x in range(-10, 11)]


def note(*words: object) -> None:
    """Appends a line to the notes of this task, in one write."""
    with (Path.home() / f"{trial.task_id()}.notes").open("a") as notes:
        notes.write(" ".join(map(str, words)) + "\n")


def wait_for_release() -> None:
    """Waits until a test lets the task end, so that it can be killed until then."""
    while not (Path.home() / f"{trial.task_id()}.released").exists():
        Event().wait(0.01)  # never set: waiting is all the work there is


class Saving(Task):
    """Saves three artifacts of two names; the bytes of each are of no other one."""

    def train(self, device: str) -> dict[str, Any]:
        """Notes each digest before it is handed over and after."""
        for number, name in enumerate(("first", "second", "first")):
            content = f"{trial.task_id()} {os.getpid()} {number} ".encode() * (SIZE_BYTES // 30)
            sha256 = hashlib.sha256(content).hexdigest()
            note("begun", sha256)
            trial.save(name, content)
            note("saved", sha256)
        wait_for_release()
        return {"saved": 3}


def trained(weights: list[float], velocity: list[float], rate: float) -> float:
    """Makes one step of gradient descent with momentum on a line; changes both lists, returns the loss."""
    errors = [(weights[0] * x + weights[1] - y, x) for x, y in DATA]
    gradient = [sum(e * x for e, x in errors) / len(DATA), sum(e for e, _ in errors) / len(DATA)]
    for at in range(2):
        velocity[at] = MOMENTUM * velocity[at] - rate * gradient[at]
        weights[at] += velocity[at]
    return sum(e * e for e, _ in errors) / len(DATA)


def losses(rate: float, steps: int) -> list[float]:
    """Returns the losses of a training that nothing disturbs."""
    weights, velocity = [0.0, 0.0], [0.0, 0.0]
    return [trained(weights, velocity, rate) for _ in range(steps)]


class Training(Task):
    """Trains a line; its state is that of the optimizer too, so that each step counts for the loss.

    Parameters: `rate`, `steps`, `every` how many steps it saves a checkpoint, `seconds` of a step, `dies_at`
    which step its first attempt kills itself, and `waits`, whether it waits for its release at the end.
    """

    def train(self, device: str) -> dict[str, Any]:
        """Notes each step when it begins."""
        asked, work = trial.parameters(), Event()
        last = trial.last_checkpoint()
        begun: dict[str, Any] = {"weights": [0.0, 0.0], "velocity": [0.0, 0.0], "loss": 0.0}
        state = begun if last is None else last.state
        for step in range(0 if last is None else last.step, asked["steps"]):
            if step == asked.get("dies_at") and os.environ["TRACKSIDE_ATTEMPT"] == "1":
                os.kill(os.getpid(), 9)
            note(os.environ["TRACKSIDE_ATTEMPT"], step)
            work.wait(asked.get("seconds", 0))  # never set: waiting for it is all the work there is
            state["loss"] = trained(state["weights"], state["velocity"], asked["rate"])
            trial.report(state["loss"], step)
            if (step + 1) % asked["every"] == 0:
                trial.checkpoint(step + 1, state)
        if asked.get("waits"):
            wait_for_release()
        trial.result(state["loss"])
        return {"loss": state["loss"]}


def answer_until_told_to_end() -> None:
    """Carries out instructions: notes and acknowledges each, until one says that it is the end."""
    trial.save("state", trial.task_id().encode())
    while not trial.should_stop():
        found = trial.instruction(wait_s=0.2)
        if found is not None:
            note(found.number)
            found.acknowledge(body=found.body)
            if found.body.get("end"):
                return


class Instructed(Task):
    """Takes instructions, one of which ends it."""

    def train(self, device: str) -> None:
        """Runs on any device."""
        answer_until_told_to_end()


class Serving(Service):
    """Takes instructions until it is stopped."""

    def serve(self, device: str) -> None:
        """Runs on any device."""
        trial.ready(pid=os.getpid())
        answer_until_told_to_end()
