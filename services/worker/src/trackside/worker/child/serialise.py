"""Serialises what a task process reports at its end: the result, or an exception."""

import math
import sys
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from trackside.contracts.envelope.redaction import REDACTED, is_called_secret
from trackside.contracts.tasks.tasks import MAX_RESULT_BYTES
from trackside.contracts.wire.secret_search import name_within
from trackside.sdk.in_task.channel import CodedError
from trackside.sdk.in_task.checkpoints import CheckpointError
from trackside.sdk.in_task.saving import SaveError
from trackside.worker.child.process.masking import mask_secrets, redact
from trackside.worker.child.process.out_of_memory import disk_is_full
from trackside.worker.output_text import keep_end, printable

MAX_DEPTH = 32
MAX_MESSAGE_CHARACTERS = 4_096
OWN_MODULE = "trackside.worker.child.phases"


class UnreportableError(Exception):
    """A result that can't be stored: not JSON, or too deep."""


def to_plain_json(returned: Any) -> dict[str, Any]:
    """Returns the result of `train` as plain JSON; anything but a dict becomes an empty one (as in fedflow).

    Numbers of numpy and torch become plain numbers, those that aren't finite null. Secrets are redacted.
    Raises UnreportableError for what JSON can't represent and for nesting over 32.
    """
    if not isinstance(returned, Mapping):
        if returned is not None:
            sys.stderr.write(f"train returned {type(returned).__name__}, not a dict: the result is empty\n")
        return {}
    plain: dict[str, Any] = _plain(returned, "$", MAX_DEPTH)
    return plain


def _plain(value: Any, path: str, depth: int, name: str = "") -> Any:
    """Returns a value that is called `name` as plain JSON."""
    if depth == 0:
        raise UnreportableError(f"{path}: nested deeper than {MAX_DEPTH}")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return REDACTED if is_called_secret(name, value) else mask_secrets(printable(value))
    if isinstance(value, int):
        if abs(value) >= 2**63:
            raise UnreportableError(f"{path}: integers end at 2^63")
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _null_for(value, path)
    if isinstance(value, Mapping):
        return {
            _key(key, path): _plain(item, f"{path}.{key}", depth - 1, name_within(value, str(key), name))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{at}]", depth - 1, name) for at, item in enumerate(value)]
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a number of numpy or torch
        return _plain(value.item(), path, depth - 1)
    raise UnreportableError(
        f"{path}: {type(value).__name__} is not JSON; return numbers, texts, lists or dicts"
    )


def _null_for(value: float, path: str) -> None:
    sys.stderr.write(f"result: {path} is {value}, which JSON can't hold: it becomes null\n")


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str | int | float):
        raise UnreportableError(f"{path}: a key is {type(key).__name__}; expected a text")
    return mask_secrets(printable(str(key)))


def error_fields(stage: str, error: BaseException) -> dict[str, str]:
    """Returns an exception as the fields of a TaskError, with the last 64 KiB of its traceback.

    The stage of an artifact that was not taken is SAVE, of a checkpoint that can't be read LOAD; the type of
    an error with a code is the code.
    """
    kind = error.code if isinstance(error, CodedError) else type(error).__qualname__
    if isinstance(error, SaveError | CheckpointError):
        stage = "SAVE" if isinstance(error, SaveError) else "LOAD"
    lines = traceback.format_exception(type(error), error, _without_own_frames(error.__traceback__))
    message = f"the disk is full: {error}" if disk_is_full(error) else str(error)
    return {
        "stage": stage,
        "type": kind,
        "message": redact(printable(message))[:MAX_MESSAGE_CHARACTERS],
        "traceback": keep_end(redact(printable("".join(lines))), MAX_RESULT_BYTES),
    }


def exit_failure(stage: str, error: SystemExit) -> tuple[dict[str, str], int]:
    """Returns a call of sys.exit as the fields of a TaskError, and the exit code that Python has for it."""
    code = error.code
    exit_code = code if isinstance(code, int) else 0 if code is None else 1
    fields = error_fields(stage, error)
    fields["message"] = f"sys.exit({fields['message']}) was called: the task returned no result"
    return fields, exit_code


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without its first frames, which are those of the worker."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (OWN_MODULE, __name__):
        trace = trace.tb_next
    return trace
