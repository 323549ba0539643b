"""Identifiers: what a name on the wire may look like, and how new ones are made."""

import re
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

CHANCE: ContextVar[Callable[[int], bytes] | None] = ContextVar("trackside_chance", default=None)
"""Who draws so many octets for ids here: nobody for the system's chance; a simulation has its own."""
IDENTIFIER_RULE = "1 to 128 letters, digits, '.', '_' or '-', starting with a letter or digit, without '..'"
_TRIAL_DIGITS = 19
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def is_identifier(text: str) -> bool:
    """Returns whether a text may name a stream, task, worker or device."""
    return _IDENTIFIER.fullmatch(text) is not None and ".." not in text


def checked(text: str) -> str:
    """Returns an identifier back; raises bad_identifier for what is none."""
    if not is_identifier(text):
        raise PydanticCustomError(
            "bad_identifier", "not an identifier: expected {rule}", {"rule": IDENTIFIER_RULE}
        )
    return text


def checked_list(text: str) -> str:
    """Returns comma-separated identifiers back; raises bad_identifier, which names the first that is none."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    wrong = next((name for name in names if not is_identifier(name)), None if names else text)
    if wrong is not None:
        raise PydanticCustomError(
            "bad_identifier",
            "{name} is not an identifier: expected {rule}",
            {"name": repr(wrong), "rule": IDENTIFIER_RULE},
        )
    return text


Identifier = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(checked)]


def new_id(prefix: str = "") -> str:
    """Makes an id that nobody else has: 32 hex digits behind an optional prefix and a dash."""
    chance = CHANCE.get()
    digits = chance(16).hex() if chance else uuid.uuid4().hex  # noqa: TID251 - the one place
    return f"{prefix}-{digits}" if prefix else digits


def trial_task_id(search_id: str, trial: int) -> str:
    """Names the task that runs a trial: the search, a dot and the trial's number."""
    return f"{search_id}.{trial}"


def trial_of_task_id(search_id: str, task_id: str) -> int | None:
    """Returns the number of the trial that `trial_task_id` names a task for; None for any other name."""
    digits = task_id[len(search_id) + 1 :]
    if len(digits) > _TRIAL_DIGITS or not digits.isdecimal():
        return None
    number = int(digits)
    return number if trial_task_id(search_id, number) == task_id else None


def batch_task_id(batch_id: str, group: int, name: str) -> str:
    """Names a task of a batch: the batch, its group's number from 1, and its name in the group."""
    return f"{batch_id}.{group + 1}.{name}"


GENERATION_PATTERN = "[.]g[0-9]+$"
"""The part of `step_task_id` that differs between generations, for Python and Postgres."""


def step_task_id(run_id: str, step: str, index: int | None, generation: int) -> str:
    """Names a task or child of a step: `RUN.STEP`, its index if there are several, `gN` after revival N."""
    item = "" if index is None else f".{index}"
    return f"{run_id}.{step}{item}" + (f".g{generation}" if generation else "")


def without_generation(task_id: str) -> str:
    """Returns the id that the task or child of a step has before any revival: the same in all generations."""
    return re.sub(GENERATION_PATTERN, "", task_id)
