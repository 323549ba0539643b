"""Triggers as people read them: what each waits for, and how far its numbers are. Pure."""

from collections.abc import Iterable
from typing import Any

from trackside.aggregates.rounds.job_spec import StageName
from trackside.aggregates.rounds.messages import StageState
from trackside.aggregates.rounds.metrics import with_deltas
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.aggregates.rounds.trigger_messages import (
    AllOf,
    AnyOf,
    ByCommand,
    CronTimes,
    DailyWindow,
    MetricCondition,
    Trigger,
)
from trackside.aggregates.rounds.triggers import SINCE_LAST_ROUND, Known, conditions_of, read
from trackside.domain.display.text import number

STAGES: tuple[StageName, ...] = ("train", "eval", "deploy")


def trigger_text(trigger: Trigger | None) -> str:
    """Returns when a trigger holds: `num_of_samples >= 500 and (daily 22:00-06:00 UTC or by command)`."""
    match trigger:
        case None:
            return "always"
        case MetricCondition():
            return f"{trigger.metric} {trigger.operator} {number(trigger.threshold)}"
        case DailyWindow():
            return f"daily {trigger.start}-{trigger.end} {trigger.timezone}"
        case CronTimes():
            return f"cron {trigger.cron} {trigger.timezone}"
        case ByCommand():
            return "by command"
        case AllOf():
            return " and ".join(map(_inner, trigger.triggers))
        case AnyOf():
            return " or ".join(map(_inner, trigger.triggers))


def _inner(trigger: Trigger) -> str:
    several = isinstance(trigger, AllOf | AnyOf) and len(trigger.triggers) > 1
    return f"({trigger_text(trigger)})" if several else trigger_text(trigger)


def trigger_of(job: IncrementalJob, stage: StageName) -> Trigger | None:
    """Returns the trigger of a stage: of the round that goes on, or of the next one."""
    spec = job.spec if job.round is None else job.round.spec
    return {"train": spec.train.trigger, "eval": spec.eval.trigger, "deploy": spec.deploy.trigger}[stage]


def trigger_rows(job: IncrementalJob) -> list[dict[str, Any]]:
    """Returns the trigger of each stage as a text, and how far the numbers are of the stage that waits."""
    return [
        {
            "stage": stage,
            "trigger": trigger_text(trigger_of(job, stage)),
            "result": stage in job.triggers and job.triggers[stage].result,
            "seen": list(_seen(job, stage)) if waits_for_trigger(job, stage) else [],
        }
        for stage in STAGES
    ]


def waits_for_trigger(job: IncrementalJob, stage: StageName) -> bool:
    """Says whether a stage waits for its trigger now."""
    return stage == job.stage and job.stage_state is StageState.WAITING


def _seen(job: IncrementalJob, stage: StageName) -> Iterable[dict[str, Any]]:
    """Yields the numbers of a trigger; what depends on the clock has none here: a row doesn't age."""
    known = Known(numbers_of(job), job.last_round_ms, job.stage_since_ms)
    for condition in conditions_of(trigger_of(job, stage)):
        timed = condition.metric == SINCE_LAST_ROUND
        found = None if timed else read(condition.metric, known, 0)
        yield {
            "metric": condition.metric,
            "operator": condition.operator,
            "threshold": condition.threshold,
            "value": None if found is None else found.value,
            "reason": "" if found is None else found.reason,
        }


def numbers_of(job: IncrementalJob) -> dict[str, Any]:
    """Returns the numbers that the trigger of the stage which a job is in is evaluated with."""
    pool = job.pool
    numbers: dict[str, Any] = {
        **pool.metrics,
        "num_of_samples": pool.training,
        "hard_examples": job.hard_examples,
    }
    numbers["num_of_new_samples"] = pool.training + pool.newest
    if job.stage == "deploy" and job.round is not None:
        metrics: Any = job.round.metrics
        numbers |= with_deltas(metrics.get("trained", {}), metrics.get("deployed", {}))
    return numbers


def progress_text(seen: dict[str, Any]) -> str:
    """Returns how far a number is: `num_of_samples 340 of 500`, `f1_delta 0.02, needs > 0.05`."""
    metric, operator, value = seen["metric"], seen["operator"], seen["value"]
    needs = f"needs {operator} {number(seen['threshold'])}"
    if value is None:
        return f"{metric} {needs}" + (f": {seen['reason']}" if seen["reason"] else "")
    shown = f"{value:,.0f}" if float(value).is_integer() else number(value)
    if operator in (">", ">=") and seen["threshold"] >= 1:
        return f"{metric} {shown} of {seen['threshold']:,g}"
    return f"{metric} {shown}, {needs}"
