"""What the events of deployments do to a job: the decision, its update, and what services have counted."""

from trackside.aggregates.rounds.job.deploy_messages import (
    DeployApproved,
    DeployDecided,
    DeployRejected,
    HardExamplesReported,
    ModelCopied,
    ModelDeployed,
    ModelRolledBack,
    ModelUpdateConfirmed,
    ModelUpdateFailed,
    ModelUpdatePublished,
    ModelUpdateTimedOut,
    RoundModel,
)
from trackside.aggregates.rounds.job.service_counts import ServiceCounts
from trackside.aggregates.rounds.job.version_bitset import has_number, with_number
from trackside.aggregates.rounds.messages import JobStatus, StageState
from trackside.aggregates.rounds.stages.task_ids import file_targets, targets_of
from trackside.aggregates.rounds.state import IncrementalJob, ModelUpdate, Round, TriggerState
from trackside.contracts.envelope.message import Record
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.retries import backoff_ms

MAX_FOREIGN = 100
"""How many services outside of Trackside may report to a job."""


def deploy_decided(job: IncrementalJob, event: DeployDecided, record: Record) -> Outcome:
    """Folds whether the model of a round is deployed, once for a round."""
    round_ = _deployable(job, event.round)
    if round_ is None:
        return Outcome.DUPLICATE if event.round <= job.ended_rounds else Outcome.OVERTAKEN
    if round_.decided is not None:
        return Outcome.DUPLICATE
    if job.status is not JobStatus.ACTIVE or job.stage_state is not StageState.WAITING:
        return Outcome.OVERTAKEN
    round_.decided = event.deploy
    if event.deploy:
        job.triggers.setdefault("deploy", TriggerState()).fired_ms = record.append_time_ms
    gate = round_.spec.deploy.gate
    round_.waits_for_approval = event.deploy and event.approval
    if round_.waits_for_approval and gate is not None and gate.timeout_s is not None:
        round_.approval_due_ms = record.append_time_ms + int(gate.timeout_s * 1000)
    if event.deploy and not round_.waits_for_approval:
        job.stage_state = StageState.READY
    return Outcome.APPLIED


def _deployable(job: IncrementalJob, number: int) -> Round | None:
    round_ = job.round
    return round_ if round_ is not None and round_.number == number and job.stage == "deploy" else None


def deploy_approved(job: IncrementalJob, event: DeployApproved, record: Record) -> Outcome:
    """Folds that a person has approved a deployment."""
    round_ = _deployable(job, event.round)
    if round_ is None or not round_.waits_for_approval:
        return Outcome.OVERTAKEN
    round_.waits_for_approval, round_.approval_due_ms = False, None
    job.stage_state = StageState.READY
    return Outcome.APPLIED


def deploy_rejected(job: IncrementalJob, event: DeployRejected, record: Record) -> Outcome:
    """Folds that a person has rejected a deployment, or that the time for that is over."""
    round_ = _deployable(job, event.round)
    if round_ is None or not round_.waits_for_approval:
        return Outcome.OVERTAKEN
    if event.due_ms is not None and (
        event.due_ms != round_.approval_due_ms or record.append_time_ms < event.due_ms
    ):
        return Outcome.OVERTAKEN
    round_.waits_for_approval, round_.approval_due_ms = False, None
    round_.decided = False
    return Outcome.APPLIED


def update_published(job: IncrementalJob, event: ModelUpdatePublished, record: Record) -> Outcome:
    """Folds an update, which replaces the one before."""
    if event.update <= job.updates:
        return Outcome.DUPLICATE
    if event.update != job.updates + 1 or job.status is JobStatus.DELETED:
        return Outcome.OVERTAKEN
    if event.model != _wanted(job, event) or event.targets != targets_of(job.spec.deploy):
        return Outcome.OVERTAKEN
    job.updates = event.update
    job.update = ModelUpdate(
        event.update,
        event.cause,
        event.model,
        open=dict.fromkeys(event.targets),
        due_ms=record.append_time_ms + int(job.spec.deploy.confirm_s * 1000),
        published_ms=record.append_time_ms,
    )
    if event.cause == "round":
        job.stage_state = StageState.STARTING
    job.rollback_to = job.failed_update = None
    return Outcome.APPLIED


def _wanted(job: IncrementalJob, event: ModelUpdatePublished) -> RoundModel | None:
    """Returns the model that an update for this cause has now; None if there can be none."""
    if event.cause != "round":
        return job.rollback_to if event.cause == "rollback" else job.failed_update
    round_ = _deployable(job, event.round or 0)
    ready = job.stage_state is StageState.READY and round_ is not None and round_.decided
    return round_.trained if round_ is not None and ready else None


def _open(job: IncrementalJob, number: int, target: str) -> ModelUpdate | None:
    update = job.update
    return update if update is not None and update.number == number and target in update.open else None


def model_copied(job: IncrementalJob, event: ModelCopied, record: Record) -> Outcome:
    """Folds that a target that is a file has the model, as its task has said."""
    update = _open(job, event.update, event.target)
    if update is None:
        return Outcome.OVERTAKEN
    outcome = update.outcomes.get(event.target)
    if outcome is None or not outcome.succeeded or outcome.result.get("sha256") != event.sha256:
        return Outcome.OVERTAKEN
    if event.sha256 != update.model.artifact.sha256:
        return Outcome.OVERTAKEN
    del update.open[event.target], update.outcomes[event.target]
    _begun(job, update)
    return Outcome.APPLIED


def _begun(job: IncrementalJob, update: ModelUpdate) -> None:
    if update.cause == "round" and job.stage_state is StageState.STARTING:
        job.stage_state = StageState.RUNNING


def update_confirmed(job: IncrementalJob, event: ModelUpdateConfirmed, record: Record) -> Outcome:
    """Folds that a service has the model: only one that was asked, and only with its digest."""
    update, service = _open(job, event.update, event.target), job.services.get(event.target)
    if update is None or service is None or event.sha256 != update.model.artifact.sha256:
        return Outcome.OVERTAKEN
    if any(target in update.open for target in file_targets(job.spec.deploy)):
        return Outcome.OVERTAKEN
    del update.open[event.target]
    service.serves, service.sha256 = event.update, event.sha256
    service.failures = service.again_ms = 0
    _begun(job, update)
    return Outcome.APPLIED


def update_failed(job: IncrementalJob, event: ModelUpdateFailed, record: Record) -> Outcome:
    """Folds that a target could not take the model; after `tries` times the update of a round is given up."""
    update = _open(job, event.update, event.target)
    if update is None:
        return Outcome.OVERTAKEN
    failures = update.failures.get(event.target, 0)
    if event.failure != failures + 1:
        return Outcome.DUPLICATE if event.failure <= failures else Outcome.OVERTAKEN
    update.failures[event.target] = event.failure
    update.again_ms[event.target] = record.append_time_ms + backoff_ms(event.failure)
    update.outcomes.pop(event.target, None)
    if (service := job.services.get(event.target)) is not None:
        service.refused = event.instruction
    _begun(job, update)
    if event.failure >= job.spec.deploy.tries:
        _give_up(job, update)
    return Outcome.APPLIED


def update_timed_out(job: IncrementalJob, event: ModelUpdateTimedOut, record: Record) -> Outcome:
    """Folds that targets have not confirmed an update in time; that of a round is given up."""
    update = job.update
    if update is None or event.update != update.number or not update.open:
        return Outcome.OVERTAKEN
    if update.timed_out:
        return Outcome.DUPLICATE
    if event.due_ms != update.due_ms or record.append_time_ms < event.due_ms:
        return Outcome.OVERTAKEN
    update.timed_out = True
    _begun(job, update)
    _give_up(job, update)
    return Outcome.APPLIED


def _give_up(job: IncrementalJob, update: ModelUpdate) -> None:
    """Ends an update of a round; others last until each target has what is to be live."""
    if update.cause == "round":
        job.failed_update = job.live
        update.failed = True


def model_deployed(job: IncrementalJob, event: ModelDeployed, record: Record) -> Outcome:
    """Folds that a model is live: every target of its update has confirmed it."""
    update = job.update
    if update is None or event.update != update.number:
        return Outcome.DUPLICATE if event.update <= job.updates else Outcome.OVERTAKEN
    model = update.model
    same = (event.model, event.version, event.sha256) == (model.model, model.version, model.artifact.sha256)
    if update.open or update.failed or not same:
        return Outcome.OVERTAKEN
    if update.cause != "withdrawal":
        job.deployed_at = record.offset
    if update.cause == "round" and job.round is not None:
        job.round.deployed = True
    job.live, job.live_update, job.update = model, update.number, None
    job.was_live[model.model] = with_number(job.was_live.get(model.model, ""), model.version)
    return Outcome.APPLIED


def rolled_back(job: IncrementalJob, event: ModelRolledBack, record: Record) -> Outcome:
    """Folds that a model that was live before is to be live again."""
    if event.change <= job.changes:
        return Outcome.DUPLICATE
    if event.change != job.changes + 1 or job.status is JobStatus.DELETED or job.deploying:
        return Outcome.OVERTAKEN
    if event.before != job.live or not was_live(job, event.model):
        return Outcome.OVERTAKEN
    job.changes, job.rollback_to = event.change, event.model
    return Outcome.APPLIED


def was_live(job: IncrementalJob, model: RoundModel) -> bool:
    """Returns whether a model has been live in a job."""
    if model in (job.initial, job.live):
        return True
    return has_number(job.was_live.get(model.model, ""), model.version)


def hard_examples_reported(job: IncrementalJob, event: HardExamplesReported, record: Record) -> Outcome:
    """Folds what a service has counted in a window: one of the job, or one outside of Trackside."""
    service = job.services.get(event.service)
    counts = service.counts if service is not None else job.foreign.get(event.service, ServiceCounts())
    if event.window != counts.windows + 1:
        return Outcome.DUPLICATE if event.window <= counts.windows else Outcome.OVERTAKEN
    if not 0 <= event.hard <= event.inferences:
        return Outcome.OVERTAKEN
    if service is None:
        if event.service not in job.foreign and len(job.foreign) >= MAX_FOREIGN:
            return Outcome.OVERTAKEN
        job.foreign[event.service] = counts
    counts.windows = event.window
    counts.inferences += event.inferences
    counts.hard += event.hard
    job.hard_examples += event.hard
    if service is not None and event.placement:
        by = (event.attempt, event.placement)
        inferences, hard = service.counted if by == service.counted_by else (0, 0)
        service.counted_by, service.counted = by, (inferences + event.inferences, hard + event.hard)
        service.left = None
    return Outcome.APPLIED
