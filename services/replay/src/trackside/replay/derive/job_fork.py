"""Forks a recorded incremental job: a new one that begins with its samples and its live model. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.rounds.messages import CreateIncrementalJob
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.wire.codec import command_of
from trackside.replay.history.errors import BadScenarioError


@dataclass(frozen=True, slots=True)
class JobFork:
    """The command of a fork, the name of the model that it begins with, and its first sample.

    `not_copied_to` is the URL of the recorded job that the fork does not replace; empty if there is none.
    """

    command: CreateIncrementalJob
    model: str
    first_sample: int
    not_copied_to: str = ""


def fork_job(job: IncrementalJob, changes: Mapping[str, Any], new_id: str) -> JobFork:
    """Returns a job as this one, from the first sample that no round has used, with the live model.

    Samples of a round that has not ended are used again. Fields are changed by their dotted names, such as
    deploy.trigger.threshold. Unless these are changed, it writes to a folder `new_id` below the output of
    the recorded job, and leaves the file that this one copies its models to alone. Raises BadScenarioError
    for a bad change.
    """
    spec: Json = job.spec.model_dump(mode="json")
    first = job.pool.first if job.round is None else job.round.train[0]
    spec["dataset"]["begin"] = first
    spec["initial_model"] = {"model": job.live.model, "version": job.live.version}
    spec["eval"].pop("initial_model", None)
    not_copied_to = ""
    if job.spec.deploy.copy_to is not None and not _is_changed("deploy.copy_to", changes):
        not_copied_to = job.spec.deploy.copy_to.url
        del spec["deploy"]["copy_to"]
    if not _is_changed("output.url", changes):
        spec["output"]["url"] = f"{spec['output']['url'].rstrip('/')}/{new_id}"
    for name, value in changes.items():
        _set(spec, name, value)
    found = command_of(CreateIncrementalJob.wire_type(), spec, [CreateIncrementalJob])
    if isinstance(found, Problem):
        raise BadScenarioError(f"{found.path}: {found.message}")
    assert isinstance(found, CreateIncrementalJob)
    return JobFork(found, f"{job.live.model}@{job.live.version}", found.dataset.begin, not_copied_to)


def _is_changed(field: str, changes: Mapping[str, Any]) -> bool:
    """Returns whether a field is changed, or one within it, or one that it is within."""
    return any(f"{name}.".startswith(f"{field}.") or field.startswith(f"{name}.") for name in changes)


def _set(spec: Json, name: str, value: Any) -> None:
    *before, last = name.split(".")
    within: Any = spec
    for part in before:
        if not isinstance(within.get(part), dict):
            raise BadScenarioError(
                f"{name}: the job has no {part!r} with fields to set{nearest(part, within)}"
            )
        within = within[part]
    within[last] = value
