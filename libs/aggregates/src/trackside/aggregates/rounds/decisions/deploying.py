"""What the dispatcher decides about deployments: updates, their targets, and when a model is live. Pure."""

from collections.abc import Iterator

from trackside.aggregates.rounds.job.deploy_messages import (
    DeployRejected,
    ModelCopied,
    ModelDeployed,
    ModelUpdateConfirmed,
    ModelUpdateFailed,
    ModelUpdatePublished,
    ModelUpdateTimedOut,
    RoundModel,
)
from trackside.aggregates.rounds.messages import ModelVersionSummary, RoundEnded, StageEnded, StageState
from trackside.aggregates.rounds.stages.evaluation import not_deployed
from trackside.aggregates.rounds.stages.stages import failed
from trackside.aggregates.rounds.stages.task_ids import (
    CONFIG,
    file_targets,
    file_task_needs,
    service_task,
    targets_of,
    update_task,
)
from trackside.aggregates.rounds.state import IncrementalJob, ModelUpdate, Round, TaskOutcome
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.fleet.fleet import COPY_MODEL
from trackside.contracts.tasks.instructions import InstructionGiven
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted
from trackside.domain.proposal import Proposal
from trackside.domain.streams.outgoing import OutgoingCommand
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task
from trackside.domain.tasks.task_instructions import is_ready


def lacking(stream: Stream[IncrementalJob]) -> Iterator[Proposal]:
    """Yields what the current deployment lacks now, one decision for each target."""
    job, traceparent = stream.root, stream.traceparent
    published = _publication(job)
    if published:
        yield Proposal("publish model", published, job.changed_at, traceparent)
        return
    update = job.update
    if update is None:
        return
    if not update.open:
        yield Proposal("deploy model", _deployed(job, update), job.changed_at, traceparent)
        return
    if update.failed:
        return
    waiting = [target for target in file_targets(job.spec.deploy) if target in update.open]
    for target in waiting:
        yield from _file(stream, update, target)
    if not waiting:
        for target in update.open:
            yield from _service(stream, update, target)


def _publication(job: IncrementalJob) -> list[Event]:
    """Returns the update that is to begin: of a round, after a failed one, or of a rollback."""
    round_ = job.round
    if job.failed_update is not None:
        events = [] if round_ is None else _given_up(job)
        return [*events, _update(job, "withdrawal", job.failed_update)]
    if job.rollback_to is not None:
        return [_update(job, "rollback", job.rollback_to)]
    if round_ is None or job.stage != "deploy" or round_.decided is None or job.deploying:
        return []
    if not round_.decided and not round_.waits_for_approval:
        return not_deployed(round_, "rejected")
    if job.stage_state is StageState.READY and round_.trained is not None:
        return [_update(job, "round", round_.trained, round_.number)]
    return []


def _given_up(job: IncrementalJob) -> list[Event]:
    """Returns the failure of the round whose update was given up, with the targets that lack its model."""
    update, round_ = job.update, job.round
    assert update is not None
    assert round_ is not None
    what = "have not confirmed it in time" if update.timed_out else "could not take it"
    return failed(job, round_, "not_confirmed", f"{', '.join(update.open)} {what}")


def _update(
    job: IncrementalJob, cause: str, model: RoundModel, number: int | None = None
) -> ModelUpdatePublished:
    return ModelUpdatePublished.model_validate(
        {
            "update": job.updates + 1,
            "cause": cause,
            "round": number,
            "model": model,
            "targets": targets_of(job.spec.deploy),
        }
    )


def _deployed(job: IncrementalJob, update: ModelUpdate) -> list[Event]:
    """Returns that a model is live, and the end of the round that it is of."""
    model = update.model
    events: list[Event] = [
        ModelDeployed(
            update=update.number, model=model.model, version=model.version, sha256=model.artifact.sha256
        )
    ]
    if update.cause == "round" and job.round is not None:
        number = job.round.number
        events += [
            StageEnded(stage="deploy", round=number, status=StageState.COMPLETED),
            RoundEnded(number=number, status="completed", stage="deploy", deployed=True),
        ]
    return events


def _file(stream: Stream[IncrementalJob], update: ModelUpdate, target: str) -> Iterator[Proposal]:
    """Yields what a target lacks that is a file: its copy, and what has become of that."""
    job = stream.root
    outcome = update.outcomes.get(target)
    if target in job.open_tasks:
        return
    if outcome is not None:
        copied = _copied(update, target, outcome)
        yield Proposal("copy model", [copied], outcome.ended_at, stream.traceparent)
    elif target not in update.again_ms:
        yield Proposal("copy model", [submit_copy(job, update, target)], job.changed_at, stream.traceparent)


def _copied(update: ModelUpdate, target: str, outcome: TaskOutcome) -> Event:
    sha256, url = str(outcome.result.get("sha256", "")), str(outcome.result.get("url", ""))
    wanted = update.model.artifact.sha256
    if outcome.succeeded and sha256 == wanted:
        return ModelCopied(update=update.number, target=target, url=url, sha256=sha256)
    message = outcome.message or f"the copy has the digest {sha256 or 'unknown'}, expected {wanted}"
    return _failure(update, target, message)


def _failure(update: ModelUpdate, target: str, message: str, instruction: int = 0) -> ModelUpdateFailed:
    return ModelUpdateFailed(
        update=update.number,
        target=target,
        failure=update.failures.get(target, 0) + 1,
        instruction=instruction,
        message=message[:1_000],
    )


def submit_copy(job: IncrementalJob, update: ModelUpdate, target: str) -> TaskSubmitted:
    """Returns the task that copies a model over a file, or next to `model_config.json`."""
    deploy = job.spec.deploy
    place = deploy.config if target == CONFIG else deploy.copy_to
    assert place is not None
    task_id, part = update_task(job, target)
    model = update.model
    credential: Json = {} if place.credential is None else {"credential": place.credential}
    parameters: Json = {
        "target": target,
        "url": place.url,
        "job": job.job_id,
        "update": update.number,
        "model": {
            "model": model.model,
            "version": model.version,
            "format": model.format,
            "sha256": model.artifact.sha256,
        },
        "time_ms": update.published_ms,
        **credential,
    }
    return TaskSubmitted(
        task_id=task_id,
        task_type=COPY_MODEL,
        parameters=parameters,
        part=part,
        needs=file_task_needs(job.spec.train.needs.queue, place.credential),
        inputs={"model": model.artifact},
    )


def _service(stream: Stream[IncrementalJob], update: ModelUpdate, target: str) -> Iterator[Proposal]:
    """Yields what a service lacks: the instruction to take the model, and what it has said of that."""
    job, task = stream.root, _serving(stream, target)
    if task is None:
        return
    service = job.services[target]
    said = _said(update, target, task, service.refused)
    if said is not None:
        yield Proposal("confirm model", [said], task.changed_at, stream.traceparent)
    elif service.told[0] != update.number:
        given = instruction(update.number, update.model, task)
        yield Proposal("instruct service", [given], job.changed_at, stream.traceparent)


def _said(update: ModelUpdate, target: str, task: Task, refused: int) -> Event | None:
    """Returns what a service has said of an update; None before that, or if that is known."""
    ready, wanted = task.attempts[-1].ready, update.model.artifact.sha256
    if ready.get("update") == update.number and ready.get("sha256") == wanted:
        return ModelUpdateConfirmed(update=update.number, target=target, sha256=wanted)
    given = task.instruction
    if given is None or given.body.get("update") != update.number or task.acknowledged != given.number:
        return None
    assert task.acknowledgement is not None
    done, detail = task.acknowledgement
    sha256 = str(detail.get("sha256", ""))
    if done and sha256 == wanted:
        return ModelUpdateConfirmed(update=update.number, target=target, sha256=wanted)
    if given.number <= refused:
        return None
    message = str(detail.get("message") or "it could not load the model")
    if done:
        message = f"it has loaded bytes with the digest {sha256 or 'unknown'}, expected {wanted}"
    return _failure(update, target, message, given.number)


def instruction(update: int, model: RoundModel, task: Task) -> InstructionGiven:
    """Returns the next instruction of a service: to take the model of an update."""
    number = 1 if task.instruction is None else task.instruction.number + 1
    body: Json = {"update": update, "model": model.model_dump(mode="json")}
    return InstructionGiven(command_id="", task_id=task.task_id, number=number, body=body)


def next_due_ms(stream: Stream[IncrementalJob]) -> int | None:
    """Returns when a time limit of the deployment is reached: a try, a confirmation, an approval."""
    job = stream.root
    found: list[int] = []
    update, round_ = job.update, job.round
    if update is not None and update.open and not update.failed:
        found += [at_ms for target, at_ms in update.again_ms.items() if _again(stream, update, target)]
        late_ms = _late_ms(stream, update)
        if not update.timed_out and late_ms is not None:
            found.append(late_ms)
    found += [service.again_ms for target, service in job.services.items() if _reload(stream, target)]
    if round_ is not None and round_.approval_due_ms is not None:
        found.append(round_.approval_due_ms)
    return min(found, default=None)


def due(stream: Stream[IncrementalJob], now_ms: int) -> Iterator[Proposal]:
    """Yields what follows from the time limits of the deployment that are reached."""
    job, traceparent = stream.root, stream.traceparent
    update, round_ = job.update, job.round
    if update is not None and update.open and not update.failed:
        late_ms = _late_ms(stream, update)
        if not update.timed_out and late_ms is not None and now_ms >= late_ms:
            targets = list(update.open)
            late = ModelUpdateTimedOut(update=update.number, targets=targets, due_ms=update.due_ms)
            yield Proposal("time limit of update", [late], job.changed_at, traceparent)
        for target, again_ms in update.again_ms.items():
            again = _again(stream, update, target) if now_ms >= again_ms else None
            if again is not None:
                yield again
    for target, service in job.services.items():
        reload = _reload(stream, target) if now_ms >= service.again_ms else None
        if reload is not None:
            yield reload
    due_ms = None if round_ is None else round_.approval_due_ms
    if round_ is not None and due_ms is not None and now_ms >= due_ms:
        rejected = DeployRejected(round=round_.number, reason="no one has decided in time", due_ms=due_ms)
        yield Proposal("time limit of approval", [rejected], job.changed_at, traceparent)


def _late_ms(stream: Stream[IncrementalJob], update: ModelUpdate) -> int | None:
    """Returns when the targets of an update have had their time; None while one waits for a worker.

    A service whose worker was lost is not at fault: its time begins anew once it is ready again.
    """
    late_ms = update.due_ms
    for target in update.open:
        task = _newest_task(stream, target)
        if task is None or len(task.attempts) < 2 or task.attempts[-2].end is not AttemptEnd.LOST:
            continue
        ready_ms = task.attempts[-1].ready_ms
        if not ready_ms:
            return None
        late_ms = max(late_ms, ready_ms + update.due_ms - update.published_ms)
    return late_ms


def _again(stream: Stream[IncrementalJob], update: ModelUpdate, target: str) -> Proposal | None:
    """Returns another try of a target that has failed; None if it can't be tried now."""
    job = stream.root
    if target not in update.open:
        return None
    if target in file_targets(job.spec.deploy):
        if target in job.open_tasks:
            return None
        submitted = submit_copy(job, update, target)
        return Proposal("copy model", [submitted], job.changed_at, stream.traceparent)
    return _instruct(stream, target, update.number, update.model)


def _reload(stream: Stream[IncrementalJob], target: str) -> Proposal | None:
    """Returns another try of a service that has restarted, and could not load what it had confirmed.

    It serves an older model then. Nothing to do during an update: that one asks, or the next one.
    """
    job = stream.root
    if job.update is not None or not job.services[target].again_ms:
        return None
    return _instruct(stream, target, job.live_update, job.live)


def _instruct(stream: Stream[IncrementalJob], target: str, update: int, model: RoundModel) -> Proposal | None:
    """Returns the instruction of a service to take a model; None if it can't be instructed now."""
    task = _serving(stream, target)
    if task is None:
        return None
    given = instruction(update, model, task)
    return Proposal("instruct service", [given], stream.root.changed_at, stream.traceparent)


def _serving(stream: Stream[IncrementalJob], target: str) -> Task | None:
    """Returns the task of a service that can be instructed now, or None."""
    task = _newest_task(stream, target)
    return None if task is None or task.stop_reason or not is_ready(task) else task


def _newest_task(stream: Stream[IncrementalJob], target: str) -> Task | None:
    """Returns the task of a service that is to run; None without one, and for a target that is a file."""
    job, service = stream.root, stream.root.services.get(target)
    if service is None or not service.running or service.retired:
        return None
    return stream.tasks.get(service_task(job, target, service.tasks)[0])


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
