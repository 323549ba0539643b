"""Triggers of Sedna as ours: what a trigger of it means, where that differs from what it does."""

import re

from trackside.aggregates.rounds.job.trigger_messages import OPERATORS
from trackside.compat.sedna.kinds import SednaCondition, SednaTimer, SednaTrigger
from trackside.compat.sedna.left_out import NoteField
from trackside.contracts.envelope.message import Json

_SHORT = re.compile(r"[0-9]:[0-5][0-9]")
_ITEM = re.compile(r".+\[-?[0-9]+\]")
_REDUCED = re.compile(r"[a-z]+\(.+\)")


def convert_trigger(
    trigger: SednaTrigger | None, timezone: str, of_evaluation: bool, tell: NoteField
) -> Json | None:
    """Returns the trigger of a stage; None for one that always holds.

    A timer counts in `timezone`. With `of_evaluation` its metrics are those of models, which are lists.
    """
    if trigger is None:
        tell("", "there is none: the stage begins at once, as Sedna does without one")
        return None
    parts: list[Json] = []
    if trigger.timer is not None:
        parts.append(_daily(trigger.timer, timezone, tell))
    if trigger.condition is not None and (trigger.condition.operator or not parts):
        parts.append(_condition(trigger.condition, of_evaluation, tell))
    elif parts:
        tell(".timer", "Sedna never begins a stage whose trigger has a timer and no condition; this one does")
    else:
        tell("", "it has no timer and no condition: the stage begins at once")
    if trigger.check_period_seconds is not None:
        tell(
            ".checkPeriodSeconds",
            "Sedna ignores it; here it is the least time between two evaluations that may begin the stage",
        )
    if len(parts) > 1:
        return {"type": "all_of", "triggers": parts}
    return parts[0] if parts else None


def _daily(timer: SednaTimer, timezone: str, tell: NoteField) -> Json:
    tell(
        ".timer", f"the hours are of the zone {timezone}, which --timezone sets; in Sedna of the node's clock"
    )
    return {
        "type": "daily",
        "start": _time(timer.start, ".timer.start", tell),
        "end": _time(timer.end, ".timer.end", tell),
        "timezone": timezone,
    }


def _time(text: str, path: str, tell: NoteField) -> str:
    if _SHORT.fullmatch(text) is None:
        return text
    tell(path, f"Sedna compares texts, so that {text} is after 10:00 there; here it is 0{text}")
    return f"0{text}"


def _condition(condition: SednaCondition, of_evaluation: bool, tell: NoteField) -> Json:
    metric = condition.metric.strip()
    if of_evaluation and not _ITEM.fullmatch(metric) and not _REDUCED.fullmatch(metric):
        reads = f"Sedna reads the list {metric} as 0; here it is mean({metric})"
        tell(".condition.metric", f"{reads}; {metric}[0] or max({metric}) may be what you want")
        metric = f"mean({metric})"
    operator = "==" if condition.operator == "=" else OPERATORS.get(condition.operator, condition.operator)
    return {
        "type": "condition",
        "metric": metric,
        "operator": operator,
        "threshold": condition.threshold,
    }
