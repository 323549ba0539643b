"""The phases of an attempt inside its process: start, load, train, report.

How it ended is written to a file, synced and renamed, before anybody is told; so a worker that is killed in
between finds it when it comes back.
"""

import importlib
import json
import math
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trackside.contracts.tasks import MAX_RESULT_BYTES, TaskStatus
from trackside.eventlog.clock import monotonic_s
from trackside.sdk.channel import WorkerChannel
from trackside.worker import leftovers
from trackside.worker.program import Program, ending_of
from trackside.worker.synced import write_synced
from trackside.worker.words import cut, printable, redact

MAX_DEPTH = 32
MAX_MESSAGE_CHARACTERS = 4_096


class UnreportableError(Exception):
    """A result that can't be kept: not JSON, too deep or too large."""


class _Failure(Exception):
    def __init__(self, stage: str, cause: BaseException) -> None:
        super().__init__(stage)
        self.stage = stage
        self.cause = cause


def run(assignment: Mapping[str, Any], channel: WorkerChannel) -> None:
    """Runs the task to its end and leaves its ending in the assignment's `ending` file."""
    times = {"load_time_ms": -1, "train_time_ms": -1}
    ending: dict[str, Any]
    try:
        result = _phases(assignment, channel, times)
        ending = {"end": "finished", "result": result}
    except _Failure as failure:
        ending = ending_of(failure.cause) or {
            "end": "failed",
            "error": described(failure.stage, failure.cause),
        }
        sys.stderr.write(ending["error"]["traceback"])
    channel.flush()
    ending["leftovers"] = leftovers.end_descendants()
    ending |= times | {"reports": channel.said, "final": channel.final_value}
    write_synced(Path(assignment["ending"]), ending)
    channel.ended()


def _phases(assignment: Mapping[str, Any], channel: WorkerChannel, times: dict[str, int]) -> dict[str, Any]:
    channel.status(TaskStatus.AVAILABLE)
    task = _staged("START", lambda: _task(assignment, channel))
    channel.status(TaskStatus.LOADING)
    began = monotonic_s()
    _staged("LOAD", task.load)
    times["load_time_ms"] = _ms_since(began)
    channel.status(TaskStatus.WAITING)
    channel.status(TaskStatus.TRAINING)
    began = monotonic_s()
    returned = _staged("TRAIN", lambda: task.train(assignment["device"]))
    times["train_time_ms"] = _ms_since(began)
    result: dict[str, Any] = _staged("REPORT", lambda: reportable(returned))
    return result


def _staged(stage: str, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except BaseException as error:  # SystemExit too: a task that leaves has not finished
        raise _Failure(stage, error) from error


def _task(assignment: Mapping[str, Any], channel: WorkerChannel) -> Any:
    return Program(assignment, channel) if assignment["program"] else _made(assignment["entry"])


def _made(entry: str) -> Any:
    module, _, name = entry.partition(":")
    kind = getattr(importlib.import_module(module), name)
    for method in ("load", "train"):
        if not callable(getattr(kind, method, None)):
            raise TypeError(f"{entry} has no method {method}; make it a subclass of trackside.sdk.Task")
    return kind()


def _ms_since(began_s: float) -> int:
    return round((monotonic_s() - began_s) * 1000)


def reportable(returned: Any) -> dict[str, Any]:
    """Gives what `train` returned as plain JSON; what is no dict becomes an empty one (fedflow's rule).

    Numbers of numpy and torch become plain ones, those that aren't finite become null. Raises
    UnreportableError for what JSON can't hold, for nesting over 32 and for more than 64 KiB.
    """
    if not isinstance(returned, Mapping):
        if returned is not None:
            sys.stderr.write(f"train returned {type(returned).__name__}, not a dict: the result is empty\n")
        return {}
    plain: dict[str, Any] = _plain(returned, "$", MAX_DEPTH)
    size = len(json.dumps(plain, ensure_ascii=False).encode())
    if size > MAX_RESULT_BYTES:
        raise UnreportableError(f"the result has {size} bytes, more than {MAX_RESULT_BYTES}; write a file")
    return plain


def _plain(value: Any, path: str, depth: int) -> Any:
    if depth == 0:
        raise UnreportableError(f"{path}: nested deeper than {MAX_DEPTH}")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, int):
        if abs(value) >= 2**63:
            raise UnreportableError(f"{path}: whole numbers end at 2^63")
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _not_finite(value, path)
    if isinstance(value, Mapping):
        return {_key(key, path): _plain(item, f"{path}.{key}", depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{at}]", depth - 1) for at, item in enumerate(value)]
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a number of numpy or torch
        return _plain(value.item(), path, depth - 1)
    raise UnreportableError(
        f"{path}: {type(value).__name__} is not JSON; return numbers, texts, lists or dicts"
    )


def _not_finite(value: float, path: str) -> None:
    sys.stderr.write(f"result: {path} is {value}, which JSON can't hold: it becomes null\n")


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str | int | float):
        raise UnreportableError(f"{path}: a key is {type(key).__name__}; expected a text")
    return printable(str(key))


def described(stage: str, error: BaseException) -> dict[str, str]:
    """Gives an exception as the fields of a TaskError, its traceback cut to 64 KiB at the front."""
    # Frames of this module say nothing to the task's author.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    return {
        "stage": stage,
        "type": type(error).__qualname__,
        "message": redact(printable(str(error)))[:MAX_MESSAGE_CHARACTERS],
        "traceback": cut(redact(printable("".join(lines))), MAX_RESULT_BYTES),
    }
