"""How an attempt ended, from what its process left behind. Pure."""

import signal
from collections.abc import Mapping
from typing import Any, Final

from trackside.contracts.tasks import AttemptEnd, TaskError, TaskStatus

Ending = dict[str, Any]
_FIELDS: Final = (
    "end",
    "result",
    "error",
    "load_time_ms",
    "train_time_ms",
    "exit_code",
    "leftovers",
    "peak_memory_bytes",
    "peak_cuda_memory_bytes",
)
_SEEN: Final = ("exit_code", "leftovers", "peak_memory_bytes", "peak_cuda_memory_bytes")
_KILLED: Final = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Exit codes of what was killed: as the parent sees it, and as shells and containers tell it."""


def determine_ending(
    written: Mapping[str, Any] | None,
    code: int | None,
    asked: AttemptEnd | None,
    phase: TaskStatus,
    memory_ran_out: bool = False,
) -> Ending:
    """Gives the fields of AttemptEnded for a process that is gone.

    `written` is what it left in its ending file, `code` its exit code (negative for a signal, None if the
    forkserver died with it), `asked` the end that the worker has brought about (lost if the worker itself
    ends), `phase` the last one it told of; `memory_ran_out` says that the host had none left.
    A result that was written counts, whatever came after.
    """
    found = {name: written[name] for name in _FIELDS if name in written} if written is not None else {}
    if found.get("end") == AttemptEnd.FINISHED or (found and asked is None):
        return {"exit_code": code} | _blame_memory(found, memory_ran_out)
    seen = {"exit_code": code} | {name: found[name] for name in _SEEN if name in found}
    if asked is not None or code is None:
        return {"end": asked or AttemptEnd.LOST} | seen
    starved = memory_ran_out and code in _KILLED
    end = AttemptEnd.OOM_HOST if starved else AttemptEnd.FAILED
    return {"end": end, "exit_code": code, "error": process_death_error(code, phase, starved)}


def _blame_memory(found: Ending, memory_ran_out: bool) -> Ending:
    """Calls an end by its cause where a program, or a process below a task's, was killed for its memory."""
    message = str((found.get("error") or {}).get("message", ""))
    killed = found.get("exit_code") in _KILLED or "killed by signal: Killed" in message
    if found.get("end") == AttemptEnd.FAILED and killed and memory_ran_out:
        return found | {"end": AttemptEnd.OOM_HOST}
    return found


def recovered_ending(written: Mapping[str, Any] | None) -> Ending:
    """Gives the fields of AttemptEnded for a placement of an earlier incarnation."""
    if written is None:
        return {"end": AttemptEnd.LOST, "recovered": True}
    return {name: written[name] for name in _FIELDS if name in written} | {"recovered": True}


def start_failure(error: OSError) -> Ending:
    """Gives the fields of AttemptEnded for a process that could not be made."""
    reason = TaskError(stage="START", type=type(error).__name__, message=str(error))
    return {"end": AttemptEnd.FAILED, "error": reason}


def process_death_error(code: int, phase: TaskStatus, memory_ran_out: bool = False) -> TaskError:
    """Says of a process that ended without a word what is known of it."""
    message = _manner(code, memory_ran_out)
    if phase >= TaskStatus.WAITING:
        return TaskError(stage="TRAIN", type="ProcessDied", message=message)
    stage = "LOAD" if phase is TaskStatus.LOADING else "START"
    return TaskError.model_validate({"stage": stage, "type": "ProcessDied", "message": message})


def _manner(code: int, memory_ran_out: bool) -> str:
    if memory_ran_out:
        return "the process was killed while the host had no memory left"
    if code >= 0:
        return f"the process ended with exit code {code} before it had said how the attempt ended"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    who = "; the host had memory left: somebody did that" if -code == signal.SIGKILL else ""
    return f"the process was killed by {name}{who}"
