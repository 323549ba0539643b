"""Experiments of each kind, which end within a minute, and the addresses of all views of them.

Tests of all pages use it, and the pictures of the documentation are made with it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.harness import UserFolder
from tests.polling import poll_until_sync
from trackside.console.pages.catalogue import SITE

TASKS = '''
import json
import math
import random
import time

from trackside.incremental import InferenceService
from trackside.sdk import SummaryWriter, Task, trial

STEPS = 30


class Fit(Task):
    """Follows a learning curve, which depends on its parameters."""

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
            time.sleep(0.01)
        trial.save("weights", json.dumps(asked).encode(), kind="model", metadata={"format": "json"})
        trial.result(loss)
        return {"loss": loss}


class Record(Task):
    """Records summaries of each kind."""

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
    """Saves samples for the next step."""

    def train(self, device):
        time.sleep(0.3)
        trial.save("samples", b"1 2 3", kind="data")
        return {"rows": 1797}


class Fail(Task):
    """Fails, as tasks do."""

    def train(self, device):
        print("reading the samples", flush=True)
        raise FileNotFoundError("samples/2026-11.csv: no such file")


class Learn(Task):
    """Trains the model of a round."""

    def train(self, device):
        lines = trial.input("samples").read_bytes()
        model = trial.input("model").read_bytes() + lines
        trial.save("learned", model, kind="model", metadata={"format": "file"})
        return {"samples": lines.count(b"\\n")}


class Compare(Task):
    """Compares the model of a round with the live one: each sample helps."""

    def train(self, device):
        def accuracy(name):
            return 1 - 0.5 * math.exp(-trial.input(name).read_bytes().count(b"\\n") / 12)

        return {name: {"accuracy": round(accuracy(name), 4)} for name in ("trained", "deployed")}


class Answer(InferenceService):
    """Serves a model."""

    def predict(self, model, inputs):
        return {"digit": 7}
'''
TYPES = """
  fit: {entry: showcase_tasks:Fit, path: .}
  record: {entry: showcase_tasks:Record, path: .}
  prepare: {entry: showcase_tasks:Prepare, path: .}
  fail: {entry: showcase_tasks:Fail, path: .}
  learn: {entry: showcase_tasks:Learn, path: .}
  compare: {entry: showcase_tasks:Compare, path: .}
  answer: {entry: showcase_tasks:Answer, path: ., runner: service}
"""
SEARCH = """
kind: search
name: {name}
task_type: fit
direction: minimize
max_trials: {trials}
concurrency: 2
seed: 7
tuner: {{name: tpe}}
assessor: {{name: median}}
space:
  rate: {{type: loguniform, low: 0.0001, high: 0.3}}
  depth: {{type: randint, low: 1, high: 9}}
  optimizer: {{type: choice, values: [adam, sgd]}}
"""
BATCH = """
kind: tasks
name: baselines
groups:
  - name: rates
    tasks:
      - {name: slow, task_type: fit, parameters: {rate: 0.001}}
      - {name: fast, task_type: fit, parameters: {rate: 0.1}}
  - name: records
    tasks:
      - {name: recorded, task_type: record}
"""
PIPELINE = """
kind: pipeline
name: nightly
parameters:
  rate: {type: number, default: 0.02, exclusiveMinimum: 0}
steps:
  - {name: data, task_type: prepare}
  - name: training
    task_type: fit
    parameters: {rate: "${pipeline.rate}", depth: 4}
    inputs: {samples: "${data.artifacts.samples}"}
  - name: baseline
    task_type: fit
    parameters: {rate: 0.001}
    inputs: {samples: "${data.artifacts.samples}"}
  - name: approval
    needs: [training, baseline]
    gate:
      message: Is the new model good enough?
      form:
        grade: {type: integer, minimum: 0, maximum: 10}
  - {name: report, task_type: prepare, needs: [approval]}
outputs:
  loss: ${training.result.loss}
"""
FAILING = """
kind: pipeline
name: weekly
steps:
  - {name: data, task_type: fail}
  - {name: training, task_type: fit, needs: [data]}
"""
DATASET = """
kind: dataset
url: {folder}/samples.txt
look_s: 0.2
"""
JOB = """
kind: rounds
name: digits
dataset: {{name: camera, train_prob: 0.8}}
model: digits
initial_model: digits@1
train:
  task_type: learn
  check_period_s: 0
  needs: {{resources: {{devices: 0}}}}
  trigger: {{type: condition, metric: num_of_new_samples, operator: ">=", threshold: 8}}
eval: {{task_type: compare, check_period_s: 0, needs: {{resources: {{devices: 0}}}}}}
deploy:
  trigger: {{type: condition, metric: accuracy_delta, operator: ">", threshold: 0.05}}
  services: [{{name: reader, task_type: answer, needs: {{resources: {{devices: 0}}}}}}]
output: {{url: {folder}/output}}
"""
ROUNDS = 5
SAMPLES = 10
"""Samples that come before each round."""


@dataclass(frozen=True)
class Showcase:
    """Ids of the experiments."""

    search: str = "digits-tpe"
    other_search: str = "digits-short"
    batch: str = "baselines-1"
    run: str = "nightly-1"
    failed_run: str = "weekly-1"
    job: str = "digits-rounds"
    model: str = "digits"
    dataset: str = "camera"
    pipeline: str = "nightly"

    def views(self) -> dict[str, str]:
        """Returns the addresses of all views, by name; the state of a view may be in its address."""
        search, batch, run = (f"/experiments/{each}" for each in (self.search, self.batch, self.run))
        task, recorded = (
            f"/tasks/{self.search}/{self.search}.3",
            f"/tasks/{self.batch}/{self.batch}.2.recorded",
        )
        job, model = f"/experiments/{self.job}", f"/experiments/{self.model}"
        return {
            "home": "/",
            "experiments": "/experiments",
            "search": search,
            "trials": f"{search}/trials",
            "trials-sorted": f"{search}/trials?sort=value&order=asc&status=SUCCEEDED",
            "parameters": f"{search}/parameters",
            "trial": task,
            "output": f"{task}/output",
            "recorded-task": recorded,
            "events": f"{batch}/events",
            "past": f"{search}/past?at=60",
            "past-now": f"{search}/past",
            "whatif": f"{search}/whatif",
            "compare": f"/compare?id={self.search}&id={self.other_search}",
            "batch": batch,
            "search-events": f"{search}/events",
            "summaries": f"{batch}/summaries",
            **{
                f"summaries-{kind}": f"{batch}/summaries?kind={kind}"
                for kind in ("image", "histogram", "text", "graph", "hparams")
            },
            "all-summaries": "/summaries",
            "selected": f"/selected?id={self.search}&id={self.run}",
            "run": run,
            "step": f"{run}/steps/training",
            "gate": f"{run}/steps/approval",
            "failed-run": f"/experiments/{self.failed_run}",
            "failed-step": f"/experiments/{self.failed_run}/steps/data",
            "pipeline": f"/experiments/{self.pipeline}",
            "pipeline-version": f"/experiments/{self.pipeline}/versions/1",
            "rounds": job,
            "rounds-past": f"{job}/past?at=now",
            "round": f"{job}/rounds/1",
            "bill": f"{job}/bill",
            "model": model,
            "model-version": f"{model}/versions/2",
            "dataset": f"/experiments/{self.dataset}",
            "fleet": "/fleet",
            "fleet-day": "/fleet?hours=24",
            "task-types": "/fleet/task-types",
            "log": "/log",
        }


SHOWCASE = Showcase()


def write_tasks(folder: Path) -> None:
    """Adds the task types to the catalogue of a folder; before its stack starts."""
    (folder / "showcase_tasks.py").write_text(TASKS)
    with (folder / "catalogue.yaml").open("a") as catalogue:
        catalogue.write(TYPES)


def fill(home: UserFolder) -> Showcase:
    """Runs experiments of each kind on the stack of a folder; the run waits at its gate, the job goes on."""

    def submit(name: str, spec: str) -> None:
        (home.path / f"{name}.yaml").write_text(spec)
        home.run_ok("submit", f"{name}.yaml", "--id", name)

    found = SHOWCASE
    submit(found.search, SEARCH.format(name="digits", trials=24))
    submit(found.other_search, SEARCH.format(name="digits, short", trials=8))
    submit(found.batch, BATCH)
    submit(found.run, PIPELINE)
    submit(found.failed_run, FAILING)
    (home.path / "defined.yaml").write_text(PIPELINE)
    home.run_ok("pipelines", "define", found.pipeline, "defined.yaml")
    home.run("watch", found.search)
    home.run("watch", found.batch)
    home.run_ok("annotate", found.search, "--tag", "baseline", "--tag", "paper", "--note", "For table 2")
    home.run_ok("models", "register", found.model)
    home.run_ok(
        "models",
        "add",
        found.model,
        "--from",
        f"{found.batch}/{found.batch}.1.slow/weights",
        "--format",
        "file",
    )
    samples = home.path / "samples.txt"
    samples.touch()
    submit(found.dataset, DATASET.format(folder=home.path))
    submit(found.job, JOB.format(folder=home.path))
    for number in range(ROUNDS):
        with samples.open("a") as file:
            file.writelines(f"sample {number}.{each}\n" for each in range(SAMPLES))
        poll_until_sync(lambda ended=number + 1: len(_ended_rounds(home, found.job)) >= ended)  # type: ignore[misc]
    poll_until_sync(
        lambda: [each["state"] for each in home.json_output("show", found.run)["gates"]] == ["open"]
    )
    return found


def _ended_rounds(home: UserFolder, job: str) -> list[object]:
    return [row for row in home.json_output("rounds", job) if row["status"] == "completed"]


def unvisited(addresses: list[str]) -> list[str]:
    """Returns the pages of the console that none of the addresses opens."""
    paths = [address.partition("?")[0] for address in addresses]
    patterns = {page.path: re.sub(r"\{\w+\}", "[^/]+", page.path) for page in SITE.pages}
    return [each for each, pattern in patterns.items() if not any(re.fullmatch(pattern, p) for p in paths)]
