"""Jobs of incremental learning whose dataset, manifests and copied model are objects of S3."""

from pathlib import Path

from tests.e2e.leaks import Told
from tests.integration.artifacts.conftest import S3Server
from tests.polling import poll_until_sync

TYPES = """
  learn: {entry: 'stages:Learn', path: .}
  compare: {entry: 'stages:Compare', path: .}
  answer: {entry: 'stages:Answer', path: ., runner: service}
"""
STAGES = """
import json, os
from trackside.incremental import InferenceService
from trackside.sdk import Task, trial

class Learn(Task):
    def train(self, device):
        print(json.dumps(dict(os.environ)))
        model = trial.input("model").read_bytes() + trial.input("samples").read_bytes()
        trial.save("learned", model, kind="model")

class Compare(Task):
    def train(self, device):
        return {"trained": {"better": 1}, "deployed": {"better": 0}}

class Answer(InferenceService):
    def predict(self, model, inputs):
        return dict(os.environ)
"""
DATASET = """
kind: dataset
url: s3://models/jobs/{name}.txt
credential: {credential}
look_s: 0.2
"""
JOB = """
kind: rounds
dataset: {{name: samples, train_prob: 0.5}}
model: {name}-model
initial_model: begun@1
train:
  task_type: learn
  check_period_s: 0
  needs: {{resources: {{devices: 0}}}}
  trigger: {{type: condition, metric: num_of_new_samples, operator: ">=", threshold: 2}}
eval: {{task_type: compare, check_period_s: 0, needs: {{resources: {{devices: 0}}}}}}
deploy:
  copy_to: {{url: "s3://models/jobs/{name}-live", credential: {credential}}}
  services: [{{name: s, task_type: answer, needs: {{resources: {{devices: 0}}}}}}]
output: {{url: "s3://models/jobs/{name}", credential: {credential}}}
"""


def write_types(folder: Path) -> None:
    """Adds the task types of the jobs to the catalogue of a folder."""
    (folder / "stages.py").write_text(STAGES)
    with (folder / "catalogue.yaml").open("a") as catalogue:
        catalogue.write(TYPES)


def run_jobs(told: Told, s3: S3Server, model: str) -> None:
    """Runs a round on the credential `moto`, and one that is blocked by what the store of `other` answers.

    Both begin with an artifact, `STREAM/TASK/NAME`. The dataset of `other` can't be read.
    """
    content = b"".join(b"sample %d\n" % number for number in range(4))
    files = s3.store().blobs.files  # type: ignore[attr-defined]
    files.call_s3("put_object", Bucket="models", Key="jobs/samples.txt", Body=content)
    told.run("models", "register", "begun")
    told.run("models", "add", "begun", "--from", model, "--format", "file")
    told.submit("unreadable", DATASET.format(name="unreadable", credential="other"))
    told.submit("samples", DATASET.format(name="samples", credential="moto"))
    for name, credential in (("learning", "moto"), ("blocked", "other")):
        told.run("models", "register", f"{name}-model")
        told.submit(name, JOB.format(name=name, credential=credential))
    poll_until_sync(
        lambda: [row["deployed"] for row in told.home.json_output("rounds", "learning")] == [True]
    )
    poll_until_sync(lambda: bool(told.home.json_output("show", "blocked")["blocked"]))
    for name in ("learning", "blocked", "unreadable"):
        told.run("show", name)
        told.run("events", name)
    copied = files.cat_file("models/jobs/learning-live")
    assert copied.endswith(b"sample 1\nsample 3\n"), copied[-100:]
