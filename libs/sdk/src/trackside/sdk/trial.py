"""The functions that a running task calls: for its parameters and its metrics.

In a worker everything goes to the log, from a task class and from a program that a worker runs; otherwise it
is printed, so that either can be tried with `python my_task.py`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trackside.contracts.tasks.artifacts import CHECKPOINT
from trackside.sdk.in_task.channel import Channel, ScreenChannel, checkpoint_is_asked
from trackside.sdk.in_task.checkpoints import LastCheckpoint, encode_state
from trackside.sdk.in_task.descriptor import channel_of
from trackside.sdk.in_task.instructions import GivenInstruction, plain
from trackside.sdk.in_task.saving import check_artifact

INPUTS = "TRACKSIDE_INPUTS"
"""The variable that names the folder with the inputs of a task."""
MAX_NUMBERS = 100
"""The limit of numbers in one report."""
_channel: Channel | None = None
_next_report = 0
_has_begun = False
_checkpoint_step = 0
_next_point: dict[str, int] = {}


def connect(to: Channel) -> None:
    """Sets the channel of this process's trial, and restarts its steps. Called by the worker."""
    global _channel, _next_report, _has_begun, _checkpoint_step
    _channel, _next_report, _has_begun, _checkpoint_step = to, 0, False, 0
    _next_point.clear()


def parameters(defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the parameters of this trial, with defaults for those that it was not given.

    Without a search these are the defaults, unless TRACKSIDE_PARAMETERS holds some as JSON.
    """
    return {**(defaults or {}), **channel().parameters()}


def next_parameters(defaults: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Ends this trial with its result so far, and begins the next one of the search in this process.

    Returns its parameters, with defaults for those that it was not given; later reports are of the new trial,
    and its steps start at 0. Returns None if the search has no more trials for this task, or if there is no
    search: then the task should end. Waits for the answer; raises ValueError for parameters that the type of
    the task doesn't accept.
    """
    global _next_report, _has_begun, _checkpoint_step
    found = channel().next_parameters()
    if found is None:
        return None
    _next_report, _has_begun, _checkpoint_step = 0, False, 0
    return {**(defaults or {}), **found}


def task_id() -> str:
    """Returns the id of the running task, such as `digits-1.7`; `alone` without a worker."""
    return os.environ.get("TRACKSIDE_TASK_ID") or "alone"


def attempt() -> int:
    """Returns the number of this attempt of the task, from 1."""
    return int(os.environ.get("TRACKSIDE_ATTEMPT") or 1)


def step_limit() -> int | None:
    """Returns the number of steps that this trial has, those before its checkpoint included; None: no limit.

    It is over when it has reported the step before the limit: a loop that ends there may save a checkpoint.
    """
    limit = os.environ.get("TRACKSIDE_STEP_LIMIT")
    return int(limit) if limit else None


def report(value: float | Mapping[str, float], step: int | None = None) -> None:
    """Reports an intermediate value of the objective, which assessor and tuner see while the trial runs.

    In a dict it is `default`, or the objectives by the names that the search has; other numbers are recorded
    and shown. Steps increase; `step` defaults to the one after the last. Raises TypeError for a value that
    isn't a number, ValueError for a step that doesn't increase, an empty dict, or more than 100 numbers.
    """
    global _next_report, _has_begun
    deciding, others = _split("report", value)
    at = _next_report if step is None else int(step)
    if at < _next_report:
        raise ValueError(f"report: step {at} is not above the last one; expected {_next_report} or more")
    _next_report, _has_begun = at + 1, True
    channel().report(at, deciding, others)


def result(value: float | Mapping[str, float]) -> None:
    """Reports the final value of this trial. Only the first call counts.

    Without it the last value of `report` is used. A dict is read as by `report`.
    """
    deciding, others = _split("result", value)
    channel().final(deciding, others)


def log(step: int | None = None, **scalars: float) -> None:
    """Records metrics that don't decide anything. Without `step` each tag counts its own steps."""
    for tag, value in scalars.items():
        metric(tag, value, step)


def metric(tag: str, value: float, step: int | None = None, time_ms: int | None = None) -> None:
    """Records one metric under any tag, such as `loss/train`; it doesn't decide anything.

    Without `step` the tag counts its own steps. `time_ms` is when it was measured, in ms since 1970: now
    unless set.
    """
    at = _next_point.get(tag, 0) if step is None else int(step)
    _next_point[tag] = at + 1
    channel().points(at, {tag: _number(tag, value)}, time_ms)


def save(
    name: str,
    source: str | os.PathLike[str] | bytes,
    kind: str = "file",
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Saves a file, a folder or bytes as an artifact, which outlives the task.

    It is copied before this returns, and may be changed afterwards; the worker brings the copy to the store
    meanwhile. An artifact of the same name is its next version. `kind` is `file`, `model` or a word of yours,
    `metadata` what JSON can hold in 16 KiB. Raises SaveError with a code: `artifact_changed`, `bad_artifact`,
    `path_outside_store`, `secret_suspected`, `spool_full`, `store_missing`, `too_many_artifacts` or
    `unsafe_format`. Without a worker it is copied to the folder `outputs`.
    """
    checked = check_artifact(name, kind, metadata)
    channel().save(name, source if isinstance(source, bytes) else Path(source), kind, checked)


def ready(**detail: Any) -> None:
    """Reports that this service serves, with what others must know of that, such as its address.

    It may be said again, when the detail has changed, or as a sign of life. Raises TypeError for a detail
    that JSON can't hold, ValueError for one of more than 64 KiB.
    """
    channel().ready(plain(detail))


def instruction(wait_s: float = 0.0) -> GivenInstruction | None:
    """Returns the newest instruction of this task, if it was not returned yet; waits `wait_s` at most.

    One that a later one has replaced is left out. A later attempt gets the newest one again. To a service
    with `unresponsive_s` each call is a sign of life.
    """
    connected = channel()
    found = connected.instruction(wait_s)
    return None if found is None else GivenInstruction(*found, connected)


def input(name: str) -> Path:  # noqa: A001 - as users call it: trial.input
    """Returns the path of an input that this task was given, by its name: a file or a folder, read-only.

    Without a worker it is in the folder that TRACKSIDE_INPUTS names. Raises ValueError for another name.
    """
    folder = Path(os.environ.get(INPUTS) or "inputs")
    names = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    if name not in names:
        known = ", ".join(names) or "none"
        raise ValueError(
            f"this task has no input {name!r}, it has: {known}; give it one by `inputs` where it is submitted"
        )
    return folder / name


def fetch(reference: Mapping[str, Any]) -> Path:
    """Returns the path of an artifact, such as one that an instruction names: a file or a folder, read-only.

    `reference` is a whole one, with `uri`, `sha256` and `size_bytes`. The worker fetches it unless its host
    has it, compares the digest, and keeps it until it is released or the attempt ends. Raises FetchError with
    a code, such as `artifact_missing`, `artifact_damaged` or `store_unreachable`.
    """
    return channel().fetch(reference)


def release(reference: Mapping[str, Any]) -> None:
    """Lets the host remove an artifact from its cache that `fetch` returned, once the cache is full.

    `reference` is the one that it was fetched with. Its path must not be used any more, not even if it was
    fetched twice. What was never fetched is ignored, and inputs stay until the attempt ends.
    """
    channel().release(reference)


def checkpoint(step: int, state: Mapping[str, Any] | str | os.PathLike[str]) -> None:
    """Saves a checkpoint, from which a later attempt continues with `step`, on any worker.

    `state` is a dict of numbers, texts, lists, dicts and tensors, or a file or folder. It is copied before
    this returns; the worker brings it to the store meanwhile. Raises TypeError for a state that loads only by
    running code, ValueError for a step below 0, and SaveError as `save` does.
    """
    global _checkpoint_step
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"checkpoint: expected a step from 0 on, got {step!r}")
    source = encode_state(state) if isinstance(state, Mapping) else Path(state)
    channel().save(CHECKPOINT, source, CHECKPOINT, {}, step)
    _checkpoint_step = step


def last_checkpoint() -> LastCheckpoint | None:
    """Returns the last checkpoint of this task, with `step`, `path` and `state`; None if it has none.

    The training continues from it: reports go on with its step, and those that earlier attempts have made of
    the steps before it count. Raises RuntimeError after a report, and CheckpointError if there are
    checkpoints, and none can be read.
    """
    if _has_begun:
        raise RuntimeError(
            "last_checkpoint: this trial has reported already; call it before the first report"
        )
    found = channel().last_checkpoint()
    if found is None:
        return None
    resume_at(found.step)
    return LastCheckpoint(found.step, found.path)


def resume_at(step: int) -> None:
    """Reports that the training continues with a step, from the last checkpoint. Called by the worker."""
    global _next_report, _checkpoint_step
    channel().resumed()
    _next_report = _checkpoint_step = step


def should_checkpoint() -> bool:
    """Returns whether a checkpoint is wanted now: to make room, to wait, or at the step limit of this trial.

    Once it is saved, or `checkpoint_grace_s` of the task is over, the attempt is stopped.
    """
    # What stops a training at its limit comes too late for a checkpoint of that step.
    limit = step_limit()
    return checkpoint_is_asked() or (limit is not None and _next_report >= limit > _checkpoint_step)


def should_stop() -> bool:
    """Returns whether this trial was requested to stop; call it regularly to clean up before the end.

    After the request, a task that calls it has the worker's grace time, 5 s by default; others have none.
    """
    return channel().should_stop()


def channel() -> Channel:
    """Returns the channel of this process: the one it was connected to, or that of its environment."""
    global _channel
    if _channel is None:
        _channel = channel_of(os.environ)
    return _channel


def in_task() -> bool:
    """Returns whether a worker runs this process, so that what it reports is in the log."""
    return not isinstance(channel(), ScreenChannel)


def _split(name: str, value: float | Mapping[str, float]) -> tuple[float | None, dict[str, float]]:
    """Returns the objective value, None if it is among the named ones, and the named values."""
    if not isinstance(value, Mapping):
        return _number(name, value), {}
    if not 0 < len(value) <= MAX_NUMBERS:
        raise ValueError(f"{name}: expected 1 to {MAX_NUMBERS} numbers, got {len(value)}")
    found = {str(tag): _number(str(tag), number) for tag, number in value.items()}
    return found.pop("default", None), found


def _number(name: str, value: Any) -> float:
    """Returns a number as a float; numbers of numpy and torch are accepted."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}") from error
