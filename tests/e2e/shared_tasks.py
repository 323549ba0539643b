"""The task types of the product stacks: one catalogue for all tests that use them."""

from pathlib import Path

GATES = "gates"
"""The folder whose files let gated tasks go on: each has the name of a stream, or of a folder of tests."""
EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
TASKS = '''
import json
import math
import random
import sys
import threading
from pathlib import Path

from trackside.incremental import InferenceService
from trackside.sdk import SummaryWriter, Task, trial

GATES = Path(__file__).parent / "gates"
EVIL = "<img src=x onerror=window.hacked=1>"


def wait_at_the_gate():
    stream = trial.task_id().partition(".")[0]
    gates = GATES / stream, GATES / stream.rpartition("-")[2]
    while not any(each.exists() for each in gates):
        threading.Event().wait(0.02)


class Parabola(Task):
    def train(self, device):
        value = -((trial.parameters()["x"] - 0.3) ** 2)
        for step in range(3):
            trial.report(value, step=step)
        return {"value": value}


class Endless(Task):
    def train(self, device):
        threading.Event().wait()


class Broken(Task):
    def load(self):
        raise FileNotFoundError("no such data")


class Chatty(Task):
    def train(self, device):
        stream = trial.task_id().partition(".")[0]
        print("begun")
        (GATES / f"{stream}.begun").write_text("")
        (GATES / f"{stream}.go-on").read_text()  # both are pipes: each end waits for the other
        print("almost", file=sys.stderr)
        print("done")


class Hungry(Task):
    def train(self, device):
        bytearray(300_000_000)


class Gated(Task):
    """Reports some values and ends once its gate is open."""

    def train(self, device):
        asked = trial.parameters()
        for step in range(5):
            trial.report(asked["x"] ** 2 + 1 / (step + 1), step=step)
        wait_at_the_gate()
        trial.result(asked["x"] ** 2)
        return {"x": asked["x"]}


class Evil(Task):
    """Writes markup wherever a task can, and fails with it."""

    def train(self, device):
        import numpy as np

        print(f"<b>printed</b> {EVIL}")
        trial.report({"default": 1.0, f"<b>{EVIL}": 2.0}, step=0)
        with SummaryWriter() as writer:
            writer.add_scalar(f"<b>scalar {EVIL}", 1.0, 0)
            writer.add_histogram(f"<b>histogram {EVIL}", np.arange(10), 0)
            writer.add_image(f"<b>image {EVIL}", np.full((8, 8), 0.5), 0, dataformats="HW")
            writer.add_text(f"<b>text {EVIL}", f"<b>{EVIL}", 0)
            writer.add_hparams({f"<b>{EVIL}": EVIL}, {f"<b>metric {EVIL}": 1.0})
        trial.save("saved", b"bytes", kind="file", metadata={f"<b>{EVIL}": EVIL})
        raise ValueError(f"<b>{EVIL}")


class Talking(Task):
    """Records summaries, and prints before and after its gate is open."""

    def train(self, device):
        import numpy as np

        with SummaryWriter() as writer:
            for step in range(3):
                writer.add_scalar("loss", 1 / (step + 1), step)
                writer.add_image("<b>picture", np.full((8, 8), step / 2), step, dataformats="HW")
                writer.add_histogram("weights", np.arange(10) * step, step)
        print(EVIL, flush=True)
        for number in range(3):
            print(f"before {number}", flush=True)
        wait_at_the_gate()
        print("after the wait", flush=True)


class Leaking(Task):
    """Returns a password, and reports a value that is called as a key is written."""

    def train(self, device):
        trial.report({"default": 1.0, "AKIA" + "Q" * 16: 2.0})
        return {"login": {"password": "2retnuh2retnuh"[::-1]}, "rows": 7}


class Treating(Task):
    def train(self, device):
        assert trial.parameters()["patient"] == "canary-given"
        print("canary-" + "printed")
        trial.log(heart_rate=71.0)
        trial.metric("canary-" + "shown", 1.0)
        trial.report(1.0)
        trial.save("scan", b"canary-" + b"returned")
        return {"diagnosis": "canary-" + "returned"}
'''
SHOWCASE = """

STEPS = 30


class Curve(Task):
    def train(self, device):
        asked = trial.parameters()
        rate, depth = float(asked.get("rate", 0.01)), int(asked.get("depth", 3))
        noise = random.Random(json.dumps(asked, sort_keys=True, default=str))
        floor = 0.04 + 0.06 * (math.log10(rate) + 2) ** 2 + 0.012 * abs(depth - 4)
        if asked.get("optimizer") == "sgd":
            floor += 0.03
        print(f"{depth} layers, learning rate {rate:.4g}", flush=True)
        for step in range(STEPS):
            loss = floor + math.exp(-step * (0.1 + 4 * rate)) + noise.uniform(0, 0.02)
            trial.report(loss, step=step)
            print(f"step {step}: loss {loss:.4f}", flush=True)
            threading.Event().wait(0.01)
        trial.save("weights", json.dumps(asked).encode(), kind="model", metadata={"format": "json"})
        trial.result(loss)
        return {"loss": loss}


class Record(Task):
    def train(self, device):
        import numpy as np
        import torch

        chance = np.random.default_rng(3)
        with SummaryWriter() as writer:
            for step in range(20):
                noise = chance.uniform(0, 0.03)
                writer.add_scalar("loss/train", math.exp(-step / 6) + noise, step)
                writer.add_scalar("loss/validation", math.exp(-step / 7) + 0.08 + noise, step)
                writer.add_histogram("weights", chance.normal(step / 20, 1 + step / 20, 1000), step)
            for step in range(0, 20, 5):
                y, x = np.mgrid[0:32, 0:32] / 31
                picture = np.sin(x * 3 + step / 5) * np.cos(y * 4) / 2 + 0.5
                writer.add_image("digit", picture, step, dataformats="HW")
                writer.add_text("notes", f"after {step} steps the loss is still falling", step)
            writer.add_hparams({"rate": 0.01, "depth": 4}, {"accuracy": 0.93})
            writer.add_graph(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()), torch.zeros(1, 4))
        return {"loss": 0.1}


class Prepare(Task):
    def train(self, device):
        threading.Event().wait(0.3)
        trial.save("samples", b"1 2 3", kind="data")
        return {"rows": 1797}


class Fail(Task):
    def train(self, device):
        print("reading the samples", flush=True)
        raise FileNotFoundError("samples/2026-11.csv: no such file")


class Learn(Task):
    def train(self, device):
        lines = trial.input("samples").read_bytes()
        model = trial.input("model").read_bytes() + lines
        trial.save("learned", model, kind="model", metadata={"format": "file"})
        return {"samples": lines.count(b"\\n")}


class Compare(Task):
    def train(self, device):
        def accuracy(name):
            return 1 - 0.5 * math.exp(-trial.input(name).read_bytes().count(b"\\n") / 12)

        return {name: {"accuracy": round(accuracy(name), 4)} for name in ("trained", "deployed")}


class Answer(InferenceService):
    def predict(self, model, inputs):
        return {"digit": 7}
"""
OF_ONE_LINE = (
    *("Parabola", "Endless", "Broken", "Chatty", "Gated", "Evil", "Talking", "Treating"),
    *("Leaking",),
    *("Curve", "Record", "Prepare", "Fail", "Learn", "Compare"),
)
TYPES = f"""tasks:
  hungry: {{entry: mine:Hungry, path: ., max_memory: 150MB}}
  answer: {{entry: mine:Answer, path: ., runner: service}}
  fit: {{entry: fit:Fit, path: "{EXAMPLES / "tasks"}"}}
  train: {{entry: train:Train, path: "{EXAMPLES / "serve"}"}}
  serve: {{entry: serve:Digits, path: "{EXAMPLES / "serve"}", runner: service}}
""" + "".join(f"  {name.lower()}: {{entry: mine:{name}, path: .}}\n" for name in OF_ONE_LINE)
SEARCH = """
kind: search
task_type: {task_type}
max_trials: {trials}
concurrency: {at_once}
space:
  x: {{type: uniform, low: 0, high: 1}}
"""


def search_spec(task_type: str, trials: int, at_once: int = 2) -> str:
    """Returns the spec of a search."""
    return SEARCH.format(task_type=task_type, trials=trials, at_once=at_once)


def write_tasks(home: Path) -> None:
    """Writes the task types into the folder of a stack, before it starts."""
    (home / GATES).mkdir(exist_ok=True)
    (home / "mine.py").write_text(TASKS + SHOWCASE)
    (home / "catalogue.yaml").write_text(TYPES)
