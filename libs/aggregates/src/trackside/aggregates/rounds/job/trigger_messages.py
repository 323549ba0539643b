"""Triggers: when a stage of a round begins, as conditions on numbers, times, or commands."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from trackside.contracts.envelope.message import is_absent

MAX_DEPTH = 5
MAX_PARTS = 20
"""How many triggers `all_of` and `any_of` may have."""
MAX_TRIGGERS = 50
"""How many triggers one may have in all, those within others counted."""
OPERATORS = {"gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "le": "<=", "lt": "<"}
"""Operators by the names that Sedna has for them; both are understood."""
TIME_OF_DAY = r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00"
ConditionOperator = Literal[">", ">=", "==", "!=", "<=", "<"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _from_name(given: object) -> object:
    given = OPERATORS.get(given, given) if isinstance(given, str) else given
    return "==" if given == "=" else given


def _checked_time(given: str) -> str:
    if not re.fullmatch(TIME_OF_DAY, given):
        message = "{given} is not a time of day; expected HH:MM, from 00:00 to 24:00"
        raise PydanticCustomError("unknown_value", message, {"given": repr(given[:20])})
    return given


TimeOfDay = Annotated[
    str, AfterValidator(_checked_time), Field(json_schema_extra={"pattern": f"^({TIME_OF_DAY})$"})
]


class MetricCondition(_Part):
    """A number is larger or smaller than a threshold; equal is what differs by less than 1e-6.

    `metric` is `num_of_samples`, or another number that is known of a round: see the reference. A metric of
    an evaluation that is a list is named with its reducer: `mean(m)`, `max(m)`, `min(m)`, `m[0]`, `m[-1]`.
    """

    type: Literal["condition"]
    metric: str = Field(min_length=1, max_length=200)
    operator: Annotated[ConditionOperator, BeforeValidator(_from_name)]
    threshold: float = Field(allow_inf_nan=False)


class DailyWindow(_Part):
    """A time of each day in a time zone, from `start` to `end` (`HH:MM`), both included.

    It goes over midnight if `end` is earlier; `24:00` is the end of a day.
    """

    type: Literal["daily"]
    start: TimeOfDay
    end: TimeOfDay
    timezone: str = Field(default="UTC", min_length=1, max_length=100)


class CronTimes(_Part):
    """The times of a cron expression: it holds from such a time on, until the stage has begun."""

    type: Literal["cron"]
    cron: str = Field(min_length=1, max_length=200)
    timezone: str = Field(default="UTC", min_length=1, max_length=100)


class ByCommand(_Part):
    """Only a command begins the stage."""

    type: Literal["manual"]


class AllTriggers(_Part):
    """All of these hold."""

    type: Literal["all_of"]
    triggers: Annotated[list["Trigger"], Field(min_length=1, max_length=MAX_PARTS)]


class AnyTrigger(_Part):
    """At least one of these holds."""

    type: Literal["any_of"]
    triggers: Annotated[list["Trigger"], Field(min_length=1, max_length=MAX_PARTS)]


Trigger = Annotated[
    MetricCondition | DailyWindow | CronTimes | ByCommand | AllTriggers | AnyTrigger,
    Field(discriminator="type"),
]
AllTriggers.model_rebuild()
AnyTrigger.model_rebuild()


def _size(trigger: Trigger) -> tuple[int, int]:
    """Returns how many levels a trigger has, and how many parts."""
    if not isinstance(trigger, AllTriggers | AnyTrigger):
        return 1, 1
    depths, parts = zip(*map(_size, trigger.triggers), strict=True)
    return 1 + max(depths), 1 + sum(parts)


def _checked_size(trigger: Trigger | None) -> Trigger | None:
    depth, parts = (0, 0) if trigger is None else _size(trigger)
    if depth > MAX_DEPTH:
        message = "triggers are nested {depth} levels deep; expected at most {most}"
        raise PydanticCustomError("too_deep", message, {"depth": depth, "most": MAX_DEPTH})
    if parts > MAX_TRIGGERS:
        message = "a trigger of {parts} triggers; expected at most {most}"
        raise PydanticCustomError("too_long", message, {"parts": parts, "most": MAX_TRIGGERS})
    return trigger


TriggerRule = Annotated[
    Trigger | None, AfterValidator(_checked_size), Field(default=None, exclude_if=is_absent)
]
