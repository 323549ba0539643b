"""What the events of triggers, samples, stages and rounds do to a job."""

from trackside.aggregates.rounds.job.split import dropped
from trackside.aggregates.rounds.messages import (
    JobStatus,
    ModelTrained,
    Range,
    RoundEnded,
    RoundStarted,
    SampleManifestWritten,
    StageBlocked,
    StageEnded,
    StageState,
    TriggerEvaluated,
)
from trackside.aggregates.rounds.stages.task_ids import samples_of
from trackside.aggregates.rounds.state import IncrementalJob, Round, SampleManifest, SamplePool, TriggerState
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.domain.outcome import Outcome

NO_SAMPLES = "no_samples"
"""The reason of a stage that has nothing to train with, or to evaluate with."""
OPEN = (StageState.STARTING, StageState.RUNNING)


def trigger_evaluated(job: IncrementalJob, event: TriggerEvaluated, record: Record) -> Outcome:
    """Folds an evaluation; one that fires begins its stage, and fixes the samples of it."""
    if event.evaluation <= job.evaluations:
        return Outcome.DUPLICATE
    current = job.rounds + 1 if job.round is None else job.round.number
    place = (event.evaluation, event.stage, event.round)
    if place != (job.evaluations + 1, job.stage, current) or job.stage == "deploy":
        return Outcome.OVERTAKEN
    if job.status is not JobStatus.ACTIVE or job.stage_state is not StageState.WAITING:
        return Outcome.OVERTAKEN
    if event.due_ms is not None and record.append_time_ms < event.due_ms:
        return Outcome.OVERTAKEN
    if event.fired and not has_samples(job):
        return Outcome.OVERTAKEN
    trigger = job.triggers.setdefault(event.stage, TriggerState())
    trigger.result, trigger.evaluated_ms = event.result, event.evaluated_ms
    job.evaluations = event.evaluation
    if event.fired:
        trigger.fired_ms, trigger.result = record.append_time_ms, False
        job.blocked = job.blocked_message = ""
        job.stage_state = StageState.READY
        if event.stage == "train":
            _begin_round(job, record)
        elif job.round is not None and not job.round.evaluation:
            job.round.evaluation = close_version(job.pool, job.spec.dataset.eval_versions)
            job.round.segments = list(job.pool.segments)
            job.round.size_bytes, job.round.sha256 = job.pool.size_bytes, job.pool.sha256
    return Outcome.APPLIED


def has_samples(job: IncrementalJob) -> bool:
    """Returns whether the stage that a job is in has something to train or to evaluate with."""
    if job.stage == "train":
        return job.pool.training > 0
    return job.round is not None and bool(job.round.evaluation or job.pool.versions or job.pool.newest)


def _begin_round(job: IncrementalJob, record: Record) -> None:
    pool = job.pool
    evaluation = close_version(pool, job.spec.dataset.eval_versions)
    job.rounds += 1
    job.round = Round(
        job.rounds,
        job.spec,
        job.dataset,
        (pool.first, pool.end),
        evaluation,
        list(pool.segments),
        size_bytes=pool.size_bytes,
        sha256=pool.sha256,
        fired_ms=record.append_time_ms,
    )
    pool.first = pool.end
    job.hard_examples = 0
    job.again_ms = 0


def close_version(pool: SamplePool, capacity: int) -> list[Range]:
    """Makes a version of what has come since the one before; keeps as many as there may be."""
    if pool.newest:
        pool.versions.append((pool.version_begin, pool.end))
    pool.version_begin = pool.end
    del pool.versions[:-capacity]
    return list(pool.versions)


def manifest_written(job: IncrementalJob, event: SampleManifestWritten, record: Record) -> Outcome:
    """Folds that the samples of a stage are in a file, as its task has said."""
    round_ = job.round
    if round_ is None or (event.stage, event.round) != (job.stage, round_.number):
        return Outcome.OVERTAKEN
    if event.stage in round_.manifests:
        return Outcome.DUPLICATE
    outcome = round_.outcomes.get(samples_of(event.stage))
    if job.stage_state is not StageState.READY or outcome is None or not outcome.succeeded:
        return Outcome.OVERTAKEN
    if outcome.result.get("sha256") != event.sha256:
        return Outcome.OVERTAKEN
    reference = ArtifactReference(
        uri=event.url,
        sha256=event.sha256,
        size_bytes=event.size_bytes,
        credential=round_.spec.output.credential,
    )
    round_.manifests[event.stage] = SampleManifest(reference, event.lines)
    del round_.outcomes[samples_of(event.stage)]
    job.blocked = job.blocked_message = ""
    job.again_ms = 0
    return Outcome.APPLIED


def round_started(job: IncrementalJob, event: RoundStarted, record: Record) -> Outcome:
    """Folds that a round has begun, with the samples that were fixed when its trigger fired."""
    round_ = job.round
    if round_ is None or event.number != round_.number or "train" not in round_.manifests:
        return Outcome.DUPLICATE if event.number <= job.ended_rounds else Outcome.OVERTAKEN
    if round_.base is not None:
        return Outcome.DUPLICATE
    if (event.train, event.evaluation, event.base) != (round_.train, round_.evaluation, job.base):
        return Outcome.OVERTAKEN
    round_.base, round_.started_ms = event.base, record.append_time_ms
    return Outcome.APPLIED


def stage_blocked(job: IncrementalJob, event: StageBlocked, record: Record) -> Outcome:
    """Folds why a stage can't continue."""
    current = job.rounds + 1 if job.round is None else job.round.number
    if (event.stage, event.round) != (job.stage, current) or job.status is JobStatus.DELETED:
        return Outcome.OVERTAKEN
    if event.reason == job.blocked:
        return Outcome.DUPLICATE
    if job.stage_state not in (StageState.WAITING, StageState.READY):
        return Outcome.OVERTAKEN
    job.blocked, job.blocked_message = event.reason, event.message
    return Outcome.APPLIED


def model_trained(job: IncrementalJob, event: ModelTrained, record: Record) -> Outcome:
    """Folds the model that a round has trained, for which a version is asked for."""
    round_ = job.round
    if round_ is None or event.round != round_.number or job.stage != "train":
        return Outcome.OVERTAKEN
    if round_.found is not None:
        return Outcome.DUPLICATE
    outcome = round_.outcomes.get("train")
    if outcome is None or not outcome.succeeded or event.model != round_.spec.model:
        return Outcome.OVERTAKEN
    round_.found, round_.found_at = event.version, record.offset
    return Outcome.APPLIED


def stage_ended(job: IncrementalJob, event: StageEnded, record: Record) -> Outcome:
    """Folds the end of a stage: the next one waits, or the round fails."""
    round_ = job.round
    if round_ is None or event.round != round_.number:
        return Outcome.DUPLICATE if event.round <= job.ended_rounds else Outcome.OVERTAKEN
    if event.stage != job.stage or not _may_end(job, round_, event):
        return Outcome.OVERTAKEN
    round_.outcomes.pop(event.stage, None)
    job.stage_since_ms = record.append_time_ms
    job.blocked = job.blocked_message = ""
    job.stage_state = event.status
    if event.status is not StageState.COMPLETED or event.stage == "deploy":
        return Outcome.APPLIED
    if event.stage == "train":
        round_.trained = event.model
        job.stage = "eval"
    else:
        round_.metrics = event.metrics
        job.stage = "deploy"
    job.stage_state = StageState.WAITING
    return Outcome.APPLIED


def _may_end(job: IncrementalJob, round_: Round, event: StageEnded) -> bool:
    completed = event.status is StageState.COMPLETED
    if not completed and event.status is not StageState.FAILED:
        return False
    if event.stage == "deploy":
        if not completed:
            return job.failed_update is not None and job.stage_state in OPEN
        return round_.deployed or round_.decided is False
    outcome = round_.outcomes.get(event.stage)
    if job.stage_state not in OPEN or outcome is None:
        return False
    if event.stage == "eval" or not completed:
        return outcome.succeeded or not completed
    if round_.found is None or event.model is None:
        return False
    return event.model.artifact.sha256 == round_.found.artifact.sha256


def round_ended(job: IncrementalJob, event: RoundEnded, record: Record) -> Outcome:
    """Folds the end of a round; the samples of one that has failed go back to the pool."""
    round_ = job.round
    if round_ is None or event.number != round_.number:
        return Outcome.DUPLICATE if event.number <= job.ended_rounds else Outcome.OVERTAKEN
    completed = job.stage == "deploy" and job.stage_state is StageState.COMPLETED
    if not completed and job.stage_state is not StageState.FAILED:
        return Outcome.OVERTAKEN
    expected = ("completed", None) if completed else ("failed", round_.train)
    if (event.status, event.released) != expected:
        return Outcome.OVERTAKEN
    if completed:
        job.last_trained, job.failed_rounds = round_.trained, 0
    else:
        job.failed_rounds += 1
        if round_.spec.dataset.name == job.spec.dataset.name:
            job.pool.first = round_.train[0]
    job.round, job.ended_rounds = None, round_.number
    job.stage, job.stage_state = "train", StageState.WAITING
    job.stage_since_ms = job.last_round_ms = record.append_time_ms
    _forget_segments(job.pool)
    return Outcome.APPLIED


def _forget_segments(pool: SamplePool) -> None:
    """Drops the rules of samples that nothing is taken from any more."""
    first = min(pool.first, pool.version_begin, *(begin for begin, _ in pool.versions))
    pool.segments = dropped(pool.segments, first)
