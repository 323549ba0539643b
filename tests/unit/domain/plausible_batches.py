"""Events of batches and their children, drawn by chance: as services write them, or nobody should."""

from random import Random
from typing import Any

from trackside.aggregates.batch import messages
from trackside.aggregates.batch.state import Batch
from trackside.contracts.envelope.ids import batch_task_id
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.streams.children import ChildEnded, ChildRequested, ChildStopRequested
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.streams.stream import Stream

Move = list[Message]
STATUSES = ("DONE", "STOPPED", "ERROR", "REFUSED")


def batch(random: Random, needs: dict[str, Any]) -> messages.BatchStarted:
    groups = []
    for _ in range(3):
        children = [{"name": f"child-{number}", "kind": "search", "spec": {}} for number in range(2)]
        only_children = random.random() < 0.1
        tasks = [] if only_children else [{"task_type": "digits"}] * random.randint(1, 4)
        has_children = only_children or random.random() < 0.3
        groups.append({"tasks": tasks, "children": children if has_children else []})
    asked = {"groups": groups, "concurrency": random.randint(1, 3), **needs}
    return messages.BatchStarted(command_id="c-1", batch=messages.BatchSpec.model_validate(asked))


def moves(random: Random, stream: Stream[Batch]) -> list[Move]:
    found: list[Move] = []
    root = stream.root
    if root.next_task is not None:
        found += [[_task(root, root.next_task)]] * 3
    if root.next_child is not None:
        found += [[_child(root, root.next_child)]] * 3
    for child_id in sorted(root.open_children):
        found.append([ChildEnded(child_id=child_id, status=random.choice(STATUSES), result={})])
        if random.random() < 0.5:
            found.append([ChildStopRequested(child_id=child_id, reason="user")])
    if root.group_is_over:
        found.append([messages.GroupEnded(group=root.group, ends=root.ends)])
    done, is_open = root.group == len(root.spec.groups), bool(root.open or root.open_children)
    if done or (root.status is messages.BatchStatus.STOPPING and not is_open):
        found.append(
            [messages.BatchEnded(status=messages.BatchStatus.DONE if done else messages.BatchStatus.STOPPED)]
        )
    if random.random() < 0.02:
        found.append([messages.BatchStopRequested(command_id="c-1", reason="")])
    return found


def guesses(random: Random, stream: Stream[Batch], needs: dict[str, Any]) -> list[Message]:
    """Returns events of a batch out of their order, and of children that it may not have."""
    root = stream.root
    child = _child(root, random.randrange(2))
    child_id = random.choice([child.child_id, *stream.children])
    return [
        messages.GroupEnded(group=max(0, root.group - random.randrange(2)), ends={}),
        messages.BatchEnded(status=random.choice(list(messages.BatchStatus))),
        batch(random, needs),
        messages.BatchStopRequested(command_id="c-1", reason=""),
        *([_task(root, 0)] if root.spec.groups[_group(root)].tasks else []),
        child,
        ChildStopRequested(child_id=child_id, reason=""),
        *[ChildStopRequested(child_id=name, reason="") for name in sorted(root.open_children)] * 4,
        ChildEnded(child_id=child_id, status="DONE", result={}),
    ]


def _group(root: Batch) -> int:
    return min(root.group, len(root.spec.groups) - 1)


def _child(root: Batch, number: int) -> ChildRequested:
    child_id = batch_task_id(root.batch_id, _group(root), f"child-{number}")
    return ChildRequested(child_id=child_id, kind="search", body={})


def _task(root: Batch, number: int) -> TaskSubmitted:
    at = _group(root)
    group = root.spec.groups[at]
    number = min(number, len(group.tasks) - 1)
    task = group.tasks[number]
    name, needs = messages.task_name(task, number), messages.needs_of(root.spec, group, task)
    what: dict[str, Any] = {"task_id": batch_task_id(root.batch_id, at, name), "task_type": task.task_type}
    what |= {"part": Part(kind=messages.GROUP, number=at, name=name), "parameters": task.parameters}
    return TaskSubmitted(**what, needs=needs, estimated_by=messages.estimated_by(needs, task))
