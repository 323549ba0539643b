"""The commands that a job sends to the stream of its model. Pure."""

from collections.abc import Iterator

from trackside.aggregates.rounds.messages import ModelVersionSummary
from trackside.aggregates.rounds.state import IncrementalJob, Round
from trackside.contracts.envelope.message import Json
from trackside.domain.streams.outgoing import OutgoingCommand

ADD_VERSION = "trackside.add-model-version.v1"
SET_STAGE = "trackside.set-model-stage.v1"
"""The wire types of commands of models, which this aggregate doesn't import."""


def outgoing(job: IncrementalJob) -> Iterator[OutgoingCommand]:
    """Yields the version that a round has trained, and that the deployed one is in production."""
    round_ = job.round
    if round_ is not None and round_.found is not None and round_.trained is None:
        body = _version(job, round_, round_.found)
        yield OutgoingCommand(round_.spec.model, round_.found_at, ADD_VERSION, body)
    if job.deployed_at >= 0 and job.live.model == job.spec.model:
        stage: Json = {"version": job.live.version, "stage": "production"}
        yield OutgoingCommand(job.live.model, job.deployed_at, SET_STAGE, stage)


def _version(job: IncrementalJob, round_: Round, found: ModelVersionSummary) -> Json:
    """Returns a version as the command that adds it has it."""
    number = round_.number
    inputs = {"samples": round_.manifests["train"].reference}
    if round_.base is not None:
        inputs["model"] = round_.base.artifact
    given: Json = {
        "artifact": found.artifact.model_dump(mode="json", exclude_none=True),
        "format": found.format or job.initial.format,
        "labels": {"job": job.job_id, "round": str(number)},
        "inputs": {name: each.model_dump(mode="json") for name, each in inputs.items()},
        "comment": f"trained by round {number} of {job.job_id}",
    }
    if found.task:
        given["task"] = {"stream": found.stream, "task": found.task, "attempt": found.attempt}
    if found.devices:
        given["devices"] = found.devices
    if found.metrics:
        given["metrics"] = found.metrics
    return given
