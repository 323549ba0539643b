"""Where in its two rounds a job is: the names of its events, the same in each job and after each retry."""

from typing import Any

from trackside.contracts.envelope.message import Message
from trackside.contracts.streams.commands import CommandReceived
from trackside.contracts.tasks.tasks import AttemptEnded, TaskStatusChanged

FIELDS = ("stage", "target", "round", "update")
"""The fields that tell events of one type apart, after those of tasks."""


def position(job: str, stream: str, message: Message) -> str:
    """Returns the name of an event of a job or of its dataset: its type, and what it is about."""
    name, task = type(message).__name__, getattr(message, "task_id", "")
    words = [name]
    if task:
        words.append(task.removeprefix(job).lstrip("-.").rpartition(".")[0])
    elif stream != job:
        words.append("data")
    if isinstance(message, CommandReceived):
        words.append(message.command_type)
    if isinstance(message, TaskStatusChanged):
        words.append(message.status.name)
    if isinstance(message, AttemptEnded):
        words.append(message.end.value)
    if name in ("RoundStarted", "RoundEnded"):
        words.append(f"round={getattr(message, 'number', 0)}")
    words += [f"{each}={found}" for each in FIELDS if (found := getattr(message, each, None)) is not None]
    return " ".join(words + _told(message))


def _told(message: Message) -> list[str]:
    """Returns the model, or the end of the dataset, that an event speaks of."""
    body: dict[str, Any] = getattr(message, "body", None) or getattr(message, "detail", None) or {}
    words = [f"{name}={body[name]}" for name in ("update", "version") if isinstance(body.get(name), int)]
    end = body.get("end")
    lines = end.get("lines") if isinstance(end, dict) else getattr(message, "end", None)
    return [*words, f"lines={lines}"] if isinstance(lines, int) else words
