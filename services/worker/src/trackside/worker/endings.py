"""How an attempt ended, from what its process left behind. Pure."""

import signal
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from trackside.contracts.tasks import AttemptEnd, TaskError, TaskStatus

Ending = dict[str, Any]
_FIELDS: Final = ("end", "result", "error", "load_time_ms", "train_time_ms", "exit_code", "leftovers")
_SEEN: Final = ("exit_code", "leftovers")


class Why(StrEnum):
    """Why the worker ended a task's process."""

    STOPPED = "stopped"
    """A command asked for it."""
    LEAVING = "leaving"
    """The worker itself ends, or was taken for lost: the task shall run elsewhere."""


def judged(written: Mapping[str, Any] | None, code: int | None, why: Why | None, phase: TaskStatus) -> Ending:
    """Gives the fields of AttemptEnded for a process that is gone.

    `written` is what it left in its ending file, `code` its exit code (negative for a signal, None if the
    forkserver died with it), `why` what the worker did to it, `phase` the last one it told of.
    A result that was written counts, whatever came after.
    """
    found = {name: written[name] for name in _FIELDS if name in written} if written is not None else {}
    if found and (found.get("end") == AttemptEnd.FINISHED or why is None):
        return {"exit_code": code} | found
    seen = {"exit_code": code} | {name: found[name] for name in _SEEN if name in found}
    if why is Why.STOPPED:
        return {"end": AttemptEnd.CANCELLED} | seen
    if why is Why.LEAVING or code is None:
        return {"end": AttemptEnd.LOST} | seen
    return {"end": AttemptEnd.FAILED, "exit_code": code, "error": died(code, phase)}


def recovered(written: Mapping[str, Any] | None) -> Ending:
    """Gives the fields of AttemptEnded for a placement of an earlier incarnation."""
    if written is None:
        return {"end": AttemptEnd.LOST, "recovered": True}
    return {name: written[name] for name in _FIELDS if name in written} | {"recovered": True}


def unstartable(error: OSError) -> Ending:
    """Gives the fields of AttemptEnded for a process that could not be made."""
    reason = TaskError(stage="START", type=type(error).__name__, message=str(error))
    return {"end": AttemptEnd.FAILED, "error": reason}


def died(code: int, phase: TaskStatus) -> TaskError:
    """Says of a process that ended without a word what is known of it."""
    if phase >= TaskStatus.WAITING:
        return TaskError(stage="TRAIN", type="ProcessDied", message=_manner(code))
    stage = "LOAD" if phase is TaskStatus.LOADING else "START"
    return TaskError.model_validate({"stage": stage, "type": "ProcessDied", "message": _manner(code)})


def _manner(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code} before it had said how the attempt ended"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the process was killed by {name}; if nobody did that, the host may be out of memory"
