"""Triggers: when a stage of a round begins, as conditions on numbers, times, or commands."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from trackside.contracts.message import is_absent

MAX_DEPTH = 5
MAX_PARTS = 20
"""How many triggers `all_of` and `any_of` may have."""
OPERATORS = {"gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "le": "<=", "lt": "<"}
"""Operators by the names that Sedna has for them; both are understood."""
Operator = Literal[">", ">=", "==", "!=", "<=", "<"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _from_name(given: object) -> object:
    given = OPERATORS.get(given, given) if isinstance(given, str) else given
    return "==" if given == "=" else given


class MetricCondition(_Part):
    """A number is larger or smaller than a threshold; equal is what differs by less than 1e-6.

    `metric` is `num_of_samples`, or another number that is known of a round: see the reference. A metric of
    an evaluation that is a list is named with its reducer: `mean(m)`, `max(m)`, `min(m)`, `m[0]`, `m[-1]`.
    """

    type: Literal["condition"] = "condition"
    metric: str = Field(min_length=1, max_length=200)
    operator: Annotated[Operator, BeforeValidator(_from_name)]
    threshold: float = Field(allow_inf_nan=False)


class DailyWindow(_Part):
    """A time of each day in a time zone, from `start` to `end` (`HH:MM`), both included.

    It goes over midnight if `end` is earlier; `24:00` is the end of a day.
    """

    type: Literal["daily"]
    start: str = Field(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$")
    end: str = Field(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$")
    timezone: str = Field(default="UTC", min_length=1, max_length=100)


class CronTimes(_Part):
    """The times of a cron expression: it holds from such a time on, until the stage has begun."""

    type: Literal["cron"]
    cron: str = Field(min_length=1, max_length=200)
    timezone: str = Field(default="UTC", min_length=1, max_length=100)


class ByCommand(_Part):
    """Only a command begins the stage."""

    type: Literal["manual"]


class AllOf(_Part):
    """All of these hold."""

    type: Literal["all_of"]
    triggers: Annotated[list["Trigger"], Field(min_length=1, max_length=MAX_PARTS)]


class AnyOf(_Part):
    """At least one of these holds."""

    type: Literal["any_of"]
    triggers: Annotated[list["Trigger"], Field(min_length=1, max_length=MAX_PARTS)]


Trigger = Annotated[
    MetricCondition | DailyWindow | CronTimes | ByCommand | AllOf | AnyOf, Field(discriminator="type")
]
AllOf.model_rebuild()
AnyOf.model_rebuild()


def _depth(trigger: Any) -> int:
    return 1 + max(map(_depth, trigger.triggers), default=0) if isinstance(trigger, AllOf | AnyOf) else 1


def _checked_depth(trigger: Any) -> Any:
    if trigger is not None and _depth(trigger) > MAX_DEPTH:
        raise PydanticCustomError(
            "too_deep", "triggers are nested more than {most} levels deep", {"most": MAX_DEPTH}
        )
    return trigger


TriggerRule = Annotated[
    Trigger | None, AfterValidator(_checked_depth), Field(default=None, exclude_if=is_absent)
]
