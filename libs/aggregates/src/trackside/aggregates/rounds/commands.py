"""Answers to the commands of jobs of incremental learning: the events of their effect, or why not. Pure."""

from trackside.aggregates.rounds import checks
from trackside.aggregates.rounds.deploy_events import MAX_FOREIGN, was_live
from trackside.aggregates.rounds.deploy_messages import (
    DeployApproved,
    DeployRejected,
    HardExamplesReported,
    ModelRolledBack,
)
from trackside.aggregates.rounds.evaluation import decide_deploy, known_of, trigger_event, trigger_of
from trackside.aggregates.rounds.job_spec import JobSpec, StageName
from trackside.aggregates.rounds.messages import (
    ApproveDeploy,
    CreateIncrementalJob,
    DeleteIncrementalJob,
    FireDeploy,
    FireEval,
    FireTrain,
    IncrementalJobCreated,
    IncrementalJobDeleted,
    IncrementalJobPaused,
    IncrementalJobResumed,
    IncrementalJobUpdated,
    JobStatus,
    PauseIncrementalJob,
    RejectDeploy,
    ReportHardExamples,
    ResumeIncrementalJob,
    RollbackModel,
    StageState,
    UpdateIncrementalJob,
)
from trackside.aggregates.rounds.others import round_model
from trackside.aggregates.rounds.stage_events import has_samples
from trackside.aggregates.rounds.state import IncrementalJob, Round, job_of
from trackside.aggregates.rounds.triggers import holds
from trackside.contracts.envelope.refusals import Problem
from trackside.domain.folding.aggregate import Decided
from trackside.domain.folding.lookup import Lookup
from trackside.domain.streams.stream import Stream, check_not_begun


def create(stream: Stream, wanted: CreateIncrementalJob, command_id: str, lookup: Lookup) -> Decided:
    """Begins a job, unless its stream is taken or it asks for what there is not; returns all problems."""
    job = JobSpec(**{name: getattr(wanted, name) for name in JobSpec.model_fields})
    taken = check_not_begun(stream)
    found = (*([] if taken is None else [taken]), *checks.problems(job, stream.stream_id, lookup))
    if found:
        return found
    initial = checks.model_of(job.initial_model, lookup)
    compared = job.eval.initial_model
    return [
        IncrementalJobCreated(
            command_id=command_id,
            job=job,
            dataset=checks.place_of(job, lookup),
            initial=initial,
            initial_eval=initial if compared is None else checks.model_of(compared, lookup),
        )
    ]


def update(stream: Stream, wanted: UpdateIncrementalJob, command_id: str, lookup: Lookup) -> Decided:
    """Replaces the definition of a job, from its next round on."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    found = tuple(checks.problems(wanted.job, job.job_id, lookup, "$.job"))
    if found:
        return found
    if wanted.job == job.spec:
        return []
    place = checks.place_of(wanted.job, lookup)
    return [
        IncrementalJobUpdated(command_id=command_id, change=job.changes + 1, job=wanted.job, dataset=place)
    ]


def pause(stream: Stream, wanted: PauseIncrementalJob, command_id: str, lookup: Lookup) -> Decided:
    """Pauses a job; one that is paused stays so."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    if job.status is JobStatus.PAUSED:
        return []
    return [IncrementalJobPaused(command_id=command_id, change=job.changes + 1, reason=wanted.reason)]


def resume(stream: Stream, wanted: ResumeIncrementalJob, command_id: str, lookup: Lookup) -> Decided:
    """Continues a job; one that is not paused stays as it is."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    if job.status is JobStatus.ACTIVE:
        return []
    return [IncrementalJobResumed(command_id=command_id, change=job.changes + 1)]


def delete(stream: Stream, wanted: DeleteIncrementalJob, command_id: str, lookup: Lookup) -> Decided:
    """Ends a job; one that was deleted stays so."""
    job = job_of(stream)
    if job is None:
        return _no_job(stream)
    if job.status is JobStatus.DELETED:
        return []
    return [IncrementalJobDeleted(command_id=command_id, change=job.changes + 1, reason=wanted.reason)]


def fire_train(stream: Stream, wanted: FireTrain, command_id: str, lookup: Lookup) -> Decided:
    """Begins a round, whatever the trigger says."""
    return _fire(stream, "train", command_id)


def fire_eval(stream: Stream, wanted: FireEval, command_id: str, lookup: Lookup) -> Decided:
    """Begins the evaluation of the round, whatever the trigger says."""
    return _fire(stream, "eval", command_id)


def _fire(stream: Stream, stage: StageName, command_id: str) -> Decided:
    job = _waiting(stream, stage)
    if isinstance(job, Problem):
        return job
    if not has_samples(job):
        what = "training" if stage == "train" else "evaluation"
        message = f"job {job.job_id} has no sample for {what}; append some to dataset {job.spec.dataset.name}"
        return Problem(code="no_samples", path="$partitionkey", message=message)
    now_ms = job.clock_ms
    return [
        trigger_event(
            job,
            now_ms,
            result=holds(trigger_of(job), known_of(job), now_ms),
            fired=True,
            due_ms=None,
            command_id=command_id,
        )
    ]


def fire_deploy(stream: Stream, wanted: FireDeploy, command_id: str, lookup: Lookup) -> Decided:
    """Decides now whether the model of the round is deployed; with `force` it is."""
    job = _waiting(stream, "deploy")
    if isinstance(job, Problem):
        return job
    if job.round is None or job.round.decided is not None:
        message = f"whether the model of round {job.rounds} is deployed is decided already"
        return Problem(code="already_decided", path="$partitionkey", message=message)
    return decide_deploy(job, job.clock_ms, command_id=command_id, force=wanted.force)


def approve(stream: Stream, wanted: ApproveDeploy, command_id: str, lookup: Lookup) -> Decided:
    """Approves the deployment that waits for a person."""
    round_ = _waits_for_approval(stream)
    if isinstance(round_, Problem):
        return round_
    return [DeployApproved(command_id=command_id, round=round_.number, actor=wanted.actor)]


def reject(stream: Stream, wanted: RejectDeploy, command_id: str, lookup: Lookup) -> Decided:
    """Rejects the deployment that waits for a person."""
    round_ = _waits_for_approval(stream)
    if isinstance(round_, Problem):
        return round_
    return [
        DeployRejected(command_id=command_id, round=round_.number, actor=wanted.actor, reason=wanted.reason)
    ]


def rollback(stream: Stream, wanted: RollbackModel, command_id: str, lookup: Lookup) -> Decided:
    """Makes a version live again that was live before; the one that is live stays so."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    name = wanted.model or job.spec.model
    model = next(
        (each for each in (job.live, job.initial) if (each.model, each.version) == (name, wanted.version)),
        None,
    ) or round_model(lookup, name, wanted.version)
    if model is None or not was_live(job, model):
        live = [f"{job.spec.model}@{version}" for version in job.newest_live]
        known = ", ".join(dict.fromkeys([f"{job.initial.model}@{job.initial.version}", *live]))
        message = f"{name}@{wanted.version} was never live in job {job.job_id}; those were: {known}"
        return Problem(code="never_live", path="$.version", message=message)
    if job.deploying:
        message = f"the model of round {job.rounds} is being deployed; roll back once that has ended"
        return Problem(code="update_in_progress", path="$partitionkey", message=message)
    if model == job.live and job.update is None:
        return []
    return [
        ModelRolledBack(
            command_id=command_id,
            change=job.changes + 1,
            before=job.live,
            model=model,
            reason=wanted.reason,
        )
    ]


def report_hard_examples(
    stream: Stream, wanted: ReportHardExamples, command_id: str, lookup: Lookup
) -> Decided:
    """Counts what a service outside of Trackside has seen."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    if wanted.hard > wanted.inferences:
        message = f"expected at most as many hard examples as inferences, {wanted.inferences}"
        return Problem(code="bad_counts", path="$.hard", message=message)
    known = job.foreign.get(wanted.service)
    if known is None and len(job.foreign) == MAX_FOREIGN:
        message = f"{MAX_FOREIGN} services outside of Trackside have reported to job {job.job_id}, the limit"
        return Problem(code="too_many_services", path="$.service", message=message)
    return [
        HardExamplesReported(
            service=wanted.service,
            window=1 if known is None else known.windows + 1,
            inferences=wanted.inferences,
            hard=wanted.hard,
            artifact=wanted.artifact,
            command_id=command_id,
        )
    ]


def _no_job(stream: Stream) -> Problem:
    hint = f"; it is of kind {stream.kind}" if stream.kind else ""
    message = f"no incremental job {stream.stream_id!r}{hint}"
    return Problem(code="unknown_incremental_job", path="$partitionkey", message=message)


def _changeable(stream: Stream) -> IncrementalJob | Problem:
    job = job_of(stream)
    if job is None:
        return _no_job(stream)
    if job.status is JobStatus.DELETED:
        message = f"job {job.job_id} was deleted; create another one, under another id"
        return Problem(code="already_terminal", path="$partitionkey", message=message)
    return job


def _waiting(stream: Stream, stage: StageName) -> IncrementalJob | Problem:
    """Returns a job that waits in a stage, or why that can't begin."""
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    if job.status is JobStatus.PAUSED:
        message = f"job {job.job_id} is paused; resume it first: `trackside resume {job.job_id}`"
        return Problem(code="paused", path="$partitionkey", message=message)
    if job.stage != stage or job.stage_state is not StageState.WAITING:
        message = f"job {job.job_id} is at {job.stage}, {job.stage_state.value}; it has to wait for {stage}"
        return Problem(code="wrong_stage", path="$partitionkey", message=message)
    return job


def _waits_for_approval(stream: Stream) -> Round | Problem:
    job = _changeable(stream)
    if isinstance(job, Problem):
        return job
    if job.round is None or not job.round.waits_for_approval:
        message = f"no deployment of job {job.job_id} waits for an approval"
        return Problem(code="no_open_gate", path="$partitionkey", message=message)
    return job.round
