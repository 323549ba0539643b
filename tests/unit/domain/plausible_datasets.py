"""Events of datasets, drawn by chance: as services write them, or nobody should."""

from random import Random
from typing import Any

from tests.unit.domain.given import STREAM
from trackside.aggregates.dataset import messages
from trackside.aggregates.dataset.state import Dataset, watcher_id
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.fleet.fleet import WATCH_DATASET
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven, TaskReady
from trackside.contracts.tasks.resources import Needs, ServicePolicy
from trackside.contracts.tasks.tasks import TaskStopRequested, TaskSubmitted
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState

REGISTERED = messages.DatasetRegistered(
    command_id="c-1", dataset=messages.DatasetSpec(url="/data/digits.txt")
)
DELETED = 0.01
"""How probable it is that a dataset is deleted, in each draw of a move."""
Move = list[Message]


def moves(random: Random, stream: Stream[Dataset]) -> list[Move]:
    dataset, change = stream.root, stream.root.changes + 1
    if dataset.status is messages.DatasetStatus.DELETED:
        return [[event] for event in _of_watcher(random, stream)]
    found: list[Move] = []
    if dataset.status is not messages.DatasetStatus.ACTIVE:
        found.append([messages.DatasetResumed(command_id="c-9", change=change)])
    elif not dataset.watching:
        found += [[submitted(dataset.watchers + 1)]] * 3
    elif random.random() < 0.1:
        found.append([messages.DatasetPaused(command_id="c-8", change=change)])
    if random.random() < DELETED:
        found.append([messages.DatasetDeleted(command_id="c-8", change=change)])
    return found + [[event] for event in _of_watcher(random, stream)]


def guesses(random: Random, stream: Stream[Dataset]) -> list[Message]:
    """Returns events of a dataset out of their order, or of a placement that may not watch it."""
    dataset, change = stream.root, stream.root.changes + random.randrange(3)
    number = random.randint(0, dataset.watchers + 1)
    attempt, placement = dataset.told[0] + random.randrange(2), dataset.told[1] + random.randrange(2)
    by = {"watcher": number, "attempt": attempt, "placement": placement}
    return [
        REGISTERED,
        submitted(number),
        *_reports(random, dataset, by),
        messages.DatasetPaused(command_id="c-8", change=change),
        messages.DatasetResumed(command_id="c-9", change=change),
        *([messages.DatasetDeleted(command_id="c-9", change=change)] if random.random() < DELETED else []),
    ]


def submitted(number: int) -> TaskSubmitted:
    task: dict[str, Any] = {"task_id": watcher_id(STREAM, number), "task_type": WATCH_DATASET}
    needs, part = Needs(service=ServicePolicy()), Part(kind=messages.WATCH, number=number)
    return TaskSubmitted(**task, parameters={}, part=part, needs=needs)


def _of_watcher(random: Random, stream: Stream[Dataset]) -> list[Message]:
    dataset = stream.root
    task = stream.tasks.get(dataset.watcher_id()) if dataset.watching else None
    if task is None:
        return []
    found: list[Message] = []
    if not dataset.served and not task.stop_reason:
        found += [TaskStopRequested(task_id=task.task_id, reason="user")] * 2
    if task.state is TaskState.ACTIVE and task.place is not None:
        number = 1 if task.instruction is None else task.instruction.number + 1
        end = dataset.end.model_dump(mode="json")
        lines = random.choice([end["lines"], end["lines"], 1])
        body = {"end": end | {"lines": lines}}
        found.append(InstructionGiven(command_id="", task_id=task.task_id, number=number, body=body))
        found += _said(task)
    if dataset.told != (0, 0) and dataset.served:
        by = {"watcher": dataset.watchers, "attempt": dataset.told[0], "placement": dataset.told[1]}
        found += _reports(random, dataset, by)
    return found


def _said(task: Task) -> list[Message]:
    assert task.place is not None
    attempt = task.attempt
    where: dict[str, Any] = {"task_id": task.task_id, "attempt": attempt.number}
    where |= {"placement": attempt.placement, "incarnation": task.place.incarnation}
    found: list[Message] = [TaskReady(**where, number=attempt.ready_number + 1, detail={"end": 1})]
    if task.instruction is not None and task.acknowledged < task.instruction.number:
        found.append(InstructionAcknowledged(**where, number=task.instruction.number, ok=True))
    return found


def _reports(random: Random, dataset: Dataset, by: dict[str, int]) -> list[Message]:
    """Returns what a watcher may have seen: more samples, mostly, or what stops it."""
    end, stop = dataset.end, dataset.stops + random.choice([0, 1, 1, 1, 2])
    begin = max(0, end.lines + random.choice([0, 0, 0, 1, -1]))
    lines, size = random.randint(1, 9), random.randint(5, 90)
    more = messages.DatasetObserved(
        **by, begin=begin, end=begin + lines, begin_byte=end.size, end_byte=end.size + size, sha256="5c" * 32
    )
    refused = messages.DatasetRefused(**by, stop=stop, code="bad_line", line=end.lines)
    shorter = messages.DatasetTruncated(**by, stop=stop, observed_bytes=end.size, size_bytes=end.size - 1)
    stops = [refused, shorter, messages.DatasetChanged(**by, stop=stop, observed_sha256=end.sha256)]
    return [more] * 6 + [random.choice(stops)]
