"""Experiments of each kind, which end within a minute, and the addresses of all views of them.

Tests of all pages use it, and the pictures of the documentation are made with it. Its task types are in
`tests.e2e.shared_tasks`.
"""

import re
from dataclasses import dataclass, fields
from functools import partial

from tests.e2e.harness import UserFolder
from tests.polling import poll_until_sync
from trackside.console.pages.catalogue import SITE

SEARCH = """
kind: search
name: {name}
task_type: curve
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
      - {name: slow, task_type: curve, parameters: {rate: 0.001}}
      - {name: fast, task_type: curve, parameters: {rate: 0.1}}
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
    task_type: curve
    parameters: {rate: "${pipeline.rate}", depth: 4}
    inputs: {samples: "${data.artifacts.samples}"}
  - name: baseline
    task_type: curve
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
  - {name: training, task_type: curve, needs: [data]}
"""
DATASET = """
kind: dataset
url: {folder}/samples.txt
look_s: 0.2
"""
JOB = """
kind: rounds
name: digits
dataset: {{name: {dataset}, train_prob: 0.8}}
model: {model}
initial_model: {model}@1
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
SAMPLES = 10
"""Samples that come before each round."""


@dataclass(frozen=True)
class Showcase:
    """Ids of the experiments."""

    search: str = "digits-tpe"
    other_search: str = "digits-short"
    batch: str = "baselines-1"
    failed_run: str = "weekly-1"
    job: str = "digits-rounds"
    model: str = "digits"
    dataset: str = "camera"
    pipeline: str = "nightly"

    @classmethod
    def ending(cls, ends: str) -> "Showcase":
        """Returns ids with these ends, so that a stack may have several showcases."""
        return cls(*(f"{each.default}{ends}" for each in fields(cls)))

    @property
    def run(self) -> str:
        """The run that waits at its gate."""
        return f"{self.pipeline}-1"

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


def fill(home: UserFolder, ends: str = "", rounds: int = 5) -> Showcase:
    """Runs experiments of each kind from a folder; the run waits at its gate, the job goes on."""
    found = Showcase.ending(ends)

    def submit(name: str, spec: str) -> None:
        (home.path / f"{name}.yaml").write_text(spec)
        home.run_ok("submit", f"{name}.yaml", "--id", name)

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
    weights = f"{found.batch}/{found.batch}.1.slow/weights"
    home.run_ok("models", "add", found.model, "--from", weights, "--format", "file")
    samples = home.path / "samples.txt"
    samples.touch()
    submit(found.dataset, DATASET.format(folder=home.path))
    submit(found.job, JOB.format(folder=home.path, dataset=found.dataset, model=found.model))
    for number in range(1, rounds + 1):
        with samples.open("a") as file:
            file.writelines(f"sample {number}.{each}\n" for each in range(SAMPLES))
        poll_until_sync(partial(_has_ended, home, found.job, number))
    poll_until_sync(
        lambda: [each["state"] for each in home.json_output("show", found.run)["gates"]] == ["open"]
    )
    return found


def _has_ended(home: UserFolder, job: str, rounds: int) -> bool:
    return [row["status"] for row in home.json_output("rounds", job)].count("completed") >= rounds


def unvisited(addresses: list[str]) -> list[str]:
    """Returns the pages of the console that none of the addresses opens."""
    paths = [address.partition("?")[0] for address in addresses]
    patterns = {page.path: re.sub(r"\{\w+\}", "[^/]+", page.path) for page in SITE.pages}
    return [each for each, pattern in patterns.items() if not any(re.fullmatch(pattern, p) for p in paths)]
