"""Determines how an attempt ended, from its ending file, its exit code and the memory that was left. Pure."""

import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.tasks import AttemptEnd, TaskError, TaskStatus
from trackside.telemetry.process_start import describe_exit
from trackside.worker.attempts.memory.memory_at_end import MEMORY_UNKNOWN, MemoryAtEnd
from trackside.worker.messages.process_messages import AttemptEnding

Ending = dict[str, Any]
"""Fields of AttemptEnded."""
_FIELDS: Final = (
    "end",
    "result",
    "error",
    "load_time_ms",
    "train_time_ms",
    "leftovers",
    "peak_memory_bytes",
    "peak_cuda_memory_bytes",
)
"""Fields that AttemptEnded has from an ending as they are."""
_OBSERVED: Final = ("exit_code", "leftovers", "peak_memory_bytes", "peak_cuda_memory_bytes")
_KILLED: Final = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Exit codes of a killed process: as its parent sees it, and as shells and containers report it."""


def determine_ending(
    written: AttemptEnding | None,
    code: int | None,
    requested: AttemptEnd | None,
    phase: TaskStatus,
    memory_at_end: Callable[[], MemoryAtEnd] = lambda: MEMORY_UNKNOWN,
) -> Ending:
    """Returns the fields of AttemptEnded for a process that is gone.

    `written` is the content of its ending file; `code` its exit code, negative for a signal, None if the
    forkserver died with it; `requested` the end that the worker has requested, lost if the worker itself
    ends; `phase` the last one that it reported; `memory_at_end` returns what is known of it, and is called
    only if that matters. A result that was written counts, also if the process died later.
    """
    found = _fields_of(written)
    if found.get("end") == AttemptEnd.FINISHED:
        return {"exit_code": code} | found
    if found and requested is None:
        memory = memory_at_end()
        used_bytes = max(memory.used_bytes, found["peak_memory_bytes"])
        return {"exit_code": code} | _blame_memory(found, replace(memory, used_bytes=used_bytes))
    observed = {"exit_code": code} | {name: found[name] for name in _OBSERVED if name in found}
    if requested is not None or code is None:
        return {"end": requested or AttemptEnd.LOST} | observed
    memory = memory_at_end()
    error = process_death_error(code, phase, memory)
    if memory.limit is None or code not in _KILLED:
        return {"end": AttemptEnd.FAILED, "exit_code": code, "error": error}
    known = {"exit_code": code, "error": error, "peak_memory_bytes": memory.used_bytes}
    return {"end": AttemptEnd.OOM_HOST} | known | memory.hit


def _blame_memory(found: Ending, memory: MemoryAtEnd) -> Ending:
    """Returns an ending as oom_host if a program, or a child of the task process, was killed for memory.

    The text of any ending by host memory gets the amounts.
    """
    error = found.get("error") or {}
    message = str(error.get("message", ""))
    if found.get("end") == AttemptEnd.OOM_HOST:
        return found | {"error": error | {"message": f"{message} ({memory.amounts})".lstrip()}}
    killed = found.get("exit_code") in _KILLED or "killed by signal: Killed" in message
    if found.get("end") == AttemptEnd.FAILED and killed and memory.limit is not None:
        blamed = error | {"message": f"{memory.reason}; {message}"}
        known = {"error": blamed, "peak_memory_bytes": memory.used_bytes}
        return found | {"end": AttemptEnd.OOM_HOST} | known | memory.hit
    return found


def _fields_of(written: AttemptEnding | None) -> Ending:
    if written is None:
        return {}
    exit_code = {} if written.exit_code is None else {"exit_code": written.exit_code}
    return {name: getattr(written, name) for name in _FIELDS} | exit_code


def recovered_ending(written: AttemptEnding | None) -> Ending:
    """Returns the fields of AttemptEnded for a placement of an earlier incarnation."""
    if written is None:
        return {"end": AttemptEnd.LOST, "recovered": True}
    return _fields_of(written) | {"recovered": True}


def load_failure(code: str, message: str) -> Ending:
    """Returns the fields of AttemptEnded for a task whose inputs can't be had; `code` says why."""
    return {"end": AttemptEnd.FAILED, "error": TaskError(stage="LOAD", type=code, message=message)}


def finished(result: Json) -> Ending:
    """Returns the fields of AttemptEnded for a task that was carried out without a process."""
    return {"end": AttemptEnd.FINISHED, "result": result}


def start_error(code: str, message: str) -> Ending:
    """Returns the fields of AttemptEnded for a task that lacks what it needs to start; `code` says what."""
    return {"end": AttemptEnd.FAILED, "error": TaskError(stage="START", type=code, message=message)}


def start_failure(error: OSError) -> Ending:
    """Returns the fields of AttemptEnded for a process that could not be started."""
    reason = TaskError(stage="START", type=type(error).__name__, message=str(error))
    return {"end": AttemptEnd.FAILED, "error": reason}


def process_death_error(code: int, phase: TaskStatus, memory: MemoryAtEnd = MEMORY_UNKNOWN) -> TaskError:
    """Returns the error of a process that ended without writing an ending."""
    message = _death_message(code, memory)
    if phase >= TaskStatus.WAITING:
        return TaskError(stage="TRAIN", type="ProcessDied", message=message)
    stage = "LOAD" if phase is TaskStatus.LOADING else "START"
    return TaskError.model_validate({"stage": stage, "type": "ProcessDied", "message": message})


def _death_message(code: int, memory: MemoryAtEnd) -> str:
    if memory.limit is not None and code in _KILLED:
        return f"the process was {memory.reason}"
    if code >= 0:
        return f"the process {describe_exit(code)} before it reported the end of the attempt"
    outside = f" from outside, not for memory: {memory.amounts}" if -code == signal.SIGKILL else ""
    return f"the process {describe_exit(code)}{outside}"
