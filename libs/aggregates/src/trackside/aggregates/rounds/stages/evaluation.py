"""When the stages of a job are decided: what their triggers know, and the next time that changes. Pure."""

from collections.abc import Iterator
from typing import Any

from trackside.aggregates.rounds.job.deploy_messages import ConditionResult, DeployDecided
from trackside.aggregates.rounds.job.job_spec import DeploySpec, StageName, StageSpec
from trackside.aggregates.rounds.job.trigger_messages import Trigger
from trackside.aggregates.rounds.messages import (
    JobStatus,
    RoundEnded,
    StageBlocked,
    StageEnded,
    StageState,
    TriggerEvaluated,
)
from trackside.aggregates.rounds.stages import metrics, triggers
from trackside.aggregates.rounds.stages.stage_events import NO_SAMPLES, has_samples
from trackside.aggregates.rounds.stages.triggers import Known
from trackside.aggregates.rounds.state import IncrementalJob, Round, TriggerState
from trackside.contracts.envelope.message import Event, Json
from trackside.domain.tasks.retries import backoff_ms

METRICS = frozenset(triggers.TRAIN_METRICS)
"""What the triggers of training and evaluation know; `drift` only if the dataset has its samples watched."""
RESULTS = ("trained", "deployed")
"""The models whose metrics an evaluation returns."""


def known_of(job: IncrementalJob) -> Known:
    """Returns what the trigger of the stage that a job is in knows now."""
    if job.stage == "deploy":
        found: dict[str, Any] = {}
        if job.round is not None and not results_problem(job.round):
            found = metrics.with_deltas(*(job.round.metrics[name] for name in RESULTS))
        return Known(found, job.last_round_ms, job.stage_since_ms)
    pool = job.pool
    numbers: dict[str, Any] = {
        **pool.metrics,
        "num_of_samples": pool.training,
        "num_of_new_samples": pool.new,
        "hard_examples": job.hard_examples,
    }
    return Known(numbers, job.last_round_ms, job.stage_since_ms)


def trigger_of(job: IncrementalJob) -> Trigger | None:
    """Returns the trigger of the stage that a job is in: that of its definition now, or of its round."""
    spec = job.spec if job.round is None else job.round.spec
    if job.stage == "deploy":
        return spec.deploy.trigger
    return (spec.train if job.stage == "train" else spec.eval).trigger


def earliest_ms(job: IncrementalJob) -> int:
    """Returns when the stage that a job is in may begin at the earliest: after its period, or a failure."""
    spec = job.spec if job.round is None else job.round.spec
    stages: dict[str, StageSpec | DeploySpec] = {
        "train": spec.train,
        "eval": spec.eval,
        "deploy": spec.deploy,
    }
    period_s = stages[job.stage].check_period_s
    fired_ms = job.triggers.get(job.stage, TriggerState()).fired_ms
    after_failure = job.last_round_ms + backoff_ms(job.failed_rounds) if job.stage == "train" else 0
    return max(fired_ms + int(period_s * 1000) if fired_ms else 0, after_failure)


def waits(job: IncrementalJob) -> bool:
    """Returns whether the stage that a job is in waits for its trigger."""
    if job.status is not JobStatus.ACTIVE or job.stage_state is not StageState.WAITING:
        return False
    return job.stage != "deploy" or (job.round is not None and job.round.decided is None)


def next_evaluation_ms(job: IncrementalJob) -> int | None:
    """Returns when the trigger of the stage is evaluated next, in ms since 1970; None: not by time alone."""
    if not waits(job):
        return None
    trigger, known = trigger_of(job), known_of(job)
    from_ms = max(job.clock_ms, earliest_ms(job))
    if job.stage == "deploy":
        assert job.round is not None
        if results_problem(job.round):
            return job.clock_ms
        if triggers.holds(trigger, known, from_ms):
            return from_ms
        later = triggers.next_change(trigger, known, from_ms, before=False)
        return job.clock_ms if later is None and not triggers.waits_for_command(trigger) else later
    before = job.triggers.get(job.stage, TriggerState()).result
    if triggers.holds(trigger, known, from_ms) and (has_samples(job) or not before):
        return from_ms
    return triggers.next_change(trigger, known, from_ms, before)


def evaluate(job: IncrementalJob, now_ms: int, due_ms: int) -> list[Event]:
    """Returns what follows from the trigger of the stage at a time, not before it is due."""
    if job.stage == "deploy":
        return decide_deploy(job, now_ms)
    trigger, known, stage = trigger_of(job), known_of(job), job.stage
    result = triggers.holds(trigger, known, now_ms)
    fired = result and has_samples(job)
    evaluated = trigger_event(job, now_ms, result=result, fired=fired, due_ms=due_ms)
    if fired or not result or job.blocked == NO_SAMPLES:
        return [evaluated]
    return [evaluated, no_samples(job, stage)]


def trigger_event(
    job: IncrementalJob, now_ms: int, *, result: bool, fired: bool, due_ms: int | None, command_id: str = ""
) -> TriggerEvaluated:
    """Returns the next evaluation of the trigger of the stage that a job is in."""
    return TriggerEvaluated(
        stage=job.stage,
        evaluation=job.evaluations + 1,
        round=next_round(job),
        result=result,
        fired=fired,
        values=triggers.seen(trigger_of(job), known_of(job), now_ms),
        evaluated_ms=now_ms,
        due_ms=due_ms,
        command_id=command_id,
    )


def next_round(job: IncrementalJob) -> int:
    """Returns the number of the current round, or of the next one."""
    return job.rounds + 1 if job.round is None else job.round.number


def no_samples(job: IncrementalJob, stage: StageName) -> StageBlocked:
    """Returns that a stage whose trigger holds has no samples."""
    what = "no sample for training" if stage == "train" else "no sample for evaluation"
    message = f"{what} has come since the last round; the stage begins with the next one"
    if stage == "eval":
        message = f"there is {what}: `train_prob` leaves them out, or few have come so far"
    return StageBlocked(stage=stage, round=next_round(job), reason=NO_SAMPLES, message=message)


def results_problem(round_: Round) -> str:
    """Returns why the results of an evaluation can't be compared; empty if they can."""
    missing = [name for name in RESULTS if not isinstance(round_.metrics.get(name), dict)]
    if missing:
        return f"the evaluation returned no metrics of the {' and of the '.join(missing)} model"
    return ""


def conditions(job: IncrementalJob, now_ms: int) -> Iterator[ConditionResult]:
    """Yields what each condition of the trigger of the stage has seen."""
    known = known_of(job)
    for condition in triggers.conditions_of(trigger_of(job)):
        seen = triggers.read(condition.metric, known, now_ms)
        yield ConditionResult(
            metric=condition.metric,
            operator=condition.operator,
            threshold=condition.threshold,
            value=seen.value,
            holds=triggers.compare(condition, seen),
            reason=seen.reason,
        )


def decide_deploy(
    job: IncrementalJob, now_ms: int, *, command_id: str = "", force: bool = False
) -> list[Event]:
    """Returns whether the model of the round is deployed, and the end of the round if it is not.

    A command stands for times and for `manual`; with `force` for the conditions too, and for the gate.
    """
    round_ = job.round
    assert round_ is not None
    problem = results_problem(round_)
    found = [] if problem else list(conditions(job, now_ms))
    commanded = bool(command_id)
    deploy = force or (
        not problem and triggers.holds(trigger_of(job), known_of(job), now_ms, commanded=commanded)
    )
    trained: Json = {} if problem else round_.metrics["trained"]
    deployed: Json = {} if problem else round_.metrics["deployed"]
    decided = DeployDecided(
        round=round_.number,
        deploy=deploy,
        reason=_reason(deploy, force, problem, found),
        trained=trained,
        deployed=deployed,
        deltas={} if problem else metrics.deltas(trained, deployed),
        conditions=found,
        approval=deploy and not force and round_.spec.deploy.gate is not None,
        command_id=command_id,
    )
    return [decided] if deploy else [decided, *not_deployed(round_, decided.reason)]


def not_deployed(round_: Round, reason: str) -> list[Event]:
    """Returns the end of a round whose model is not deployed."""
    return [
        StageEnded(stage="deploy", round=round_.number, status=StageState.COMPLETED, reason="not_deployed"),
        RoundEnded(number=round_.number, status="completed", stage="deploy", deployed=False, reason=reason),
    ]


def _reason(deploy: bool, force: bool, problem: str, found: list[ConditionResult]) -> str:
    if force:
        return "forced by a command"
    if problem:
        return problem
    if deploy:
        return "; ".join(_text(each) for each in found if each.holds) or "nothing is asked of it"
    failed = [each for each in found if not each.holds]
    return "; ".join(_text(each) for each in failed) or "its time has passed"


def _text(each: ConditionResult) -> str:
    condition = f"{each.metric} {each.operator} {each.threshold:g}"
    if each.reason:
        return f"{condition}: {each.reason}"
    value = f"{each.value:.6g}" if isinstance(each.value, float) else str(each.value)
    return f"{condition}: it is {value}"
