"""What a round has trained becomes a version of the job's model, also if a search or a run has trained it."""

from tests.unit.aggregates.rounds.given import APPLIED, CREATE, JOB, MODEL, JobLog, digest, job_body
from trackside.aggregates.model.messages import AddModelVersion, ModelVersionAdded, TrainedBy
from trackside.aggregates.rounds.messages import RoundEnded, StageEnded
from trackside.aggregates.search.messages import TRIAL, TrialSuggested
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.parts import Part
from trackside.contracts.streams.children import ChildRequested
from trackside.contracts.streams.commands import CommandReceived
from trackside.contracts.tasks import tasks
from trackside.contracts.tasks.artifacts import ArtifactSaved

METADATA: Json = {"format": "safetensors", "devices": ["cpu"], "metrics": {"accuracy": 0.75}}
SPACE: Json = {"lr": {"type": "uniform", "low": 0.0, "high": 1.0}}


def commands(log: JobLog) -> list[CommandReceived]:
    return [event for event in log.of(CommandReceived) if event.publisher == f"trackside/stream/{JOB}"]


def version_added(log: JobLog) -> ModelVersionAdded:
    """Returns the version that a round has added; the first one is that which the job began with."""
    (_, added) = log.of(ModelVersionAdded)
    return added


def train(log: JobLog, child: str, task_id: str) -> None:
    token: Json = {"task_id": task_id, "attempt": 1, "placement": 1}
    ours: Json = {**token, "incarnation": "i-1"}
    model: Json = {"number": 1, "name": "model", "version": 1, "kind": "model", "size_bytes": 8}
    bytes_ = {"uri": f"store:sha256/{digest(task_id)}", "sha256": digest(task_id)}
    for event in (
        tasks.TaskAssigned.model_validate({**ours, "worker_id": "w1", "device_ids": [], "seen": 0}),
        tasks.TaskAccepted.model_validate(ours),
        ArtifactSaved.model_validate({**ours, **model, **bytes_, "metadata": METADATA}),
        tasks.MetricReported.model_validate({**token, "kind": "FINAL", "step": 0, "value": 0.5}),
        tasks.AttemptEnded.model_validate({**ours, "end": tasks.AttemptEnd.FINISHED}),
    ):
        assert log.tell(event, stream=child) == APPLIED
    log.settle()


def trained_version(log: JobLog, child: str, task_id: str) -> ModelVersionAdded:
    """Returns the version that the round adds once the task has saved its model."""
    train(log, child, task_id)
    log.work()
    version = version_added(log)
    assert version.model.task == TrainedBy(stream=child, task=task_id, attempt=1)
    assert version.model.artifact.source == f"{child}/{task_id}/model@1"
    return version


def test_a_model_that_a_task_has_trained_is_a_version_that_names_its_attempt(log: JobLog) -> None:
    log.first_round()
    (added, *_) = commands(log)
    assert added.command_type == AddModelVersion.wire_type()
    task = f"{JOB}.r1.train.1"
    version = version_added(log)
    assert (version.version, version.command_id) == (2, added.command_id)
    assert version.model.task == TrainedBy(stream=JOB, task=task, attempt=1)
    assert version.model.artifact.source == f"{JOB}/{task}/model@1"
    assert (version.model.artifact.sha256, version.model.format) == (digest("round 1"), "safetensors")
    assert set(version.model.inputs) == {"samples", "model"}
    assert version.model.inputs["model"].sha256 == digest("initial")
    assert version.model.labels == {"job": JOB, "round": "1"}


def test_bytes_that_the_model_has_already_are_the_version_that_has_them(log: JobLog) -> None:
    log.create()
    log.append(10)
    task = log.stage_task("train")
    log.save(task, "initial", format="safetensors")
    log.end(task)
    log.work()
    (ended,) = [event for event in log.of(StageEnded) if event.stage == "train"]
    assert ended.model is not None and (ended.status, ended.model.version) == ("Completed", 1)
    assert len(log.of(ModelVersionAdded)) == 1


def test_the_model_of_the_best_trial_of_a_search_is_the_version(log: JobLog) -> None:
    spec = {"task_type": "train", "space": SPACE, "max_trials": 1}
    log.first_round(train={"kind": "search", "spec": spec, "check_period_s": 0})
    (requested,) = log.of(ChildRequested)
    child, task_id = requested.child_id, f"{requested.child_id}.0"
    search = log.streams.by_id[child].root
    assert set(search.spec.inputs) == {"samples", "model"}
    suggested = TrialSuggested(trial=0, parameters={"lr": 0.5}, seen=search.opened[0], space_version=1)
    part = Part(kind=TRIAL, number=0)
    task = tasks.TaskSubmitted(task_id=task_id, task_type="train", parameters={}, part=part)
    log.tell(suggested, task, role="dispatcher", stream=child)
    version = trained_version(log, child, task_id)
    assert (version.model.metrics, version.model.devices) == ({"accuracy": 0.75}, ["cpu"])
    assert [event.status for event in log.of(RoundEnded)] == ["completed"]


def test_the_output_model_of_a_pipeline_is_the_version(log: JobLog) -> None:
    step = {"name": "fit", "task_type": "train", "inputs": {"samples": "${pipeline.samples}"}}
    schemas = {name: {"type": "object"} for name in ("samples", "round")}
    pipeline = {"steps": [step], "parameters": schemas, "outputs": {"model": "${fit.artifacts.model}"}}
    log.first_round(train={"kind": "run", "spec": {"pipeline": pipeline}, "check_period_s": 0})
    (requested,) = log.of(ChildRequested)
    child, task_id = requested.child_id, f"{requested.child_id}.fit"
    assert log.streams.by_id[child].root.parameters["round"]["number"] == 1
    version = trained_version(log, child, task_id)
    assert version.model.metrics == {"accuracy": 0.75}
    assert log.streams.by_id[MODEL].root.with_digest(digest(task_id)) == version.version


def test_a_pipeline_without_the_parameters_it_needs_is_refused_when_the_job_is_defined(log: JobLog) -> None:
    pipeline = {"steps": [{"name": "fit", "task_type": "train"}], "parameters": {"epochs": {}, "samples": {}}}
    body = job_body(train={"kind": "run", "spec": {"pipeline": pipeline}})
    assert [(problem.code, problem.path) for problem in log.refusals(CREATE, body)] == [
        ("missing_parameter", "$.train.spec.parameters.epochs")
    ]
