"""Triggers as people read them: what each waits for, and how far its numbers are. Pure."""

from collections.abc import Iterable
from typing import Any

from trackside.aggregates.rounds.job.job_spec import StageName
from trackside.aggregates.rounds.job.trigger_messages import (
    AllTriggers,
    AnyTrigger,
    ByCommand,
    CronTimes,
    DailyWindow,
    MetricCondition,
    Trigger,
)
from trackside.aggregates.rounds.stages.evaluation import known_of, trigger_of, waits
from trackside.aggregates.rounds.stages.triggers import SINCE_LAST_ROUND, conditions_of, read
from trackside.aggregates.rounds.state import IncrementalJob
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
        case AllTriggers():
            return " and ".join(map(_inner, trigger.triggers))
        case AnyTrigger():
            return " or ".join(map(_inner, trigger.triggers))


def _inner(trigger: Trigger) -> str:
    several = isinstance(trigger, AllTriggers | AnyTrigger) and len(trigger.triggers) > 1
    return f"({trigger_text(trigger)})" if several else trigger_text(trigger)


def stage_trigger(job: IncrementalJob, stage: StageName) -> Trigger | None:
    """Returns the trigger of a stage: of the current round, or of the next one."""
    spec = job.spec if job.round is None else job.round.spec
    rules = {"train": spec.train.trigger, "eval": spec.eval.trigger, "deploy": spec.deploy.trigger}
    return rules[stage]


def trigger_rows(job: IncrementalJob) -> list[dict[str, Any]]:
    """Returns the trigger of each stage as a text, and how far the numbers are of the stage that waits."""
    return [
        {
            "stage": stage,
            "trigger": trigger_text(stage_trigger(job, stage)),
            "result": stage in job.triggers and job.triggers[stage].result,
            "seen": list(_seen(job)) if stage == job.stage and waits(job) else [],
        }
        for stage in STAGES
    ]


def _seen(job: IncrementalJob) -> Iterable[dict[str, Any]]:
    """Yields the numbers of a trigger; what depends on the clock has none here: a row doesn't age."""
    known = known_of(job)
    for condition in conditions_of(trigger_of(job)):
        timed = condition.metric == SINCE_LAST_ROUND
        found = None if timed else read(condition.metric, known, 0)
        yield {
            "metric": condition.metric,
            "operator": condition.operator,
            "threshold": condition.threshold,
            "value": None if found is None else found.value,
            "reason": "" if found is None else found.reason,
        }


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
