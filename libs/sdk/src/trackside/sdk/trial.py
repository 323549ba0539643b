"""What a running task calls: its parameters in, its metrics out.

Inside a worker everything goes to the log, from a task class and from a program that a worker runs; anywhere
else it is printed, so either can be tried with `python my_task.py`.
"""

import os
from collections.abc import Mapping
from typing import Any

from trackside.sdk.channel import Channel
from trackside.sdk.descriptor import channel_of

MAX_NUMBERS = 100
"""How many numbers one report may have."""
_channel: Channel | None = None
_next_report = 0
_next_point: dict[str, int] = {}


def connect(channel: Channel) -> None:
    """Sets where this process's trial speaks to, and begins its steps anew. Called by the worker."""
    global _channel, _next_report
    _channel, _next_report = channel, 0
    _next_point.clear()


def parameters(defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the parameters of this trial, and the defaults of those that it was not given.

    Outside of a search these are all, unless TRACKSIDE_PARAMETERS holds some as JSON.
    """
    return {**(defaults or {}), **_connected().parameters()}


def next_parameters(defaults: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Ends this trial with the result it has so far, and takes on the next one of its search in this process.

    Gives that one's parameters, and the defaults of those that it was not given; what is reported from now
    on is of it, and its steps begin anew. None if the search has no more for this task, and outside of a
    search: then the task should end. Waits for the answer; raises ValueError for one that the type of the
    task won't take.
    """
    global _next_report
    found = _connected().next_parameters()
    if found is None:
        return None
    _next_report = 0
    return {**(defaults or {}), **found}


def task_id() -> str:
    """Returns the id of the task that runs, such as `digits-1.7`; `alone` where no worker runs it."""
    return os.environ.get("TRACKSIDE_TASK_ID") or "alone"


def attempt() -> int:
    """Returns which attempt of the task this is, from 1 on."""
    return int(os.environ.get("TRACKSIDE_ATTEMPT") or 1)


def report(value: float | Mapping[str, float], step: int | None = None) -> None:
    """Reports a value that decides: what assessor and tuner see while the trial runs.

    A dict has it under `default`, or has the objectives that the search names; its other numbers are kept
    and shown. Steps rise; without `step` it is the one behind the last. Raises TypeError for what is no
    number, ValueError for a step that doesn't rise, an empty dict, or one of more than 100 numbers.
    """
    global _next_report
    deciding, others = _apart("report", value)
    at = _next_report if step is None else int(step)
    if at < _next_report:
        raise ValueError(f"report: step {at} is not above the last one; expected {_next_report} or more")
    _next_report = at + 1
    _connected().report(at, deciding, others)


def result(value: float | Mapping[str, float]) -> None:
    """Returns the value that this trial is judged by in the end. Only the first call counts.

    Without it the last value of `report` is taken. A dict is read as there.
    """
    deciding, others = _apart("result", value)
    _connected().final(deciding, others)


def log(step: int | None = None, **scalars: float) -> None:
    """Records numbers to look at; they decide nothing. Without `step` each tag counts its own."""
    for tag, value in scalars.items():
        metric(tag, value, step)


def metric(tag: str, value: float, step: int | None = None) -> None:
    """Records one number under any tag, such as `loss/train`; decides nothing."""
    at = _next_point.get(tag, 0) if step is None else int(step)
    _next_point[tag] = at + 1
    _connected().points(at, {tag: _number(tag, value)})


def should_stop() -> bool:
    """Returns whether this trial was asked to end; who asks now and then may tidy up before it does.

    After the request a task that asks has the worker's grace time, 5 s by default, one that never asks none.
    """
    return _connected().should_stop()


def _connected() -> Channel:
    """Returns the channel of this process: the one it was connected to, or that of its environment."""
    global _channel
    if _channel is None:
        _channel = channel_of(os.environ)
    return _channel


def _apart(name: str, value: float | Mapping[str, float]) -> tuple[float | None, dict[str, float]]:
    """Returns the number that decides, None where only names say which it is, and the others."""
    if not isinstance(value, Mapping):
        return _number(name, value), {}
    if not 0 < len(value) <= MAX_NUMBERS:
        raise ValueError(f"{name}: expected 1 to {MAX_NUMBERS} numbers, got {len(value)}")
    found = {str(tag): _number(str(tag), number) for tag, number in value.items()}
    return found.pop("default", None), found


def _number(name: str, value: Any) -> float:
    """Reads a number; one of numpy's or torch's is fine as long as it is one."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}") from error
