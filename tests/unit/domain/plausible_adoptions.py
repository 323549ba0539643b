"""Adoptions of attempts, drawn by chance: as the next incarnations of a worker write them, or none should."""

from random import Random
from typing import Any

from tests.unit.domain.given import adopted
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.tasks import AttemptAdopted
from trackside.domain.tasks.task import Attempt, Task

Move = list[Message]


def of_task(random: Random, task: Task, where: dict[str, Any]) -> list[Move]:
    """Returns what the next incarnation of its worker may say of a task that has a place, or say again."""
    if random.random() < 0.8:
        return []
    said = next_adoption(random, task.attempt) if random.random() < 0.7 else random.choice(wrong(task, where))
    return [[said]] * 2


def next_adoption(random: Random, attempt: Attempt) -> AttemptAdopted:
    lacks = [name_of_next(attempt, further) for further in range(random.choice([0, 0, 1]))]
    return adopted(
        attempt=attempt.number,
        placement=attempt.placement,
        incarnation=name_of_next(attempt, len(lacks)),
        earlier=(*attempt.incarnations, *lacks),
    )


def name_of_next(attempt: Attempt, further: int = 0) -> str:
    """Names an incarnation that has not had the placement, by how many have and how many come before it."""
    return f"{attempt.incarnations[0]}.{len(attempt.incarnations) + further}"


def wrong(task: Task | None, where: dict[str, Any]) -> list[Message]:
    """Returns adoptions that come again, too late, or from a worker that never had the placement."""
    had = () if task is None else task.attempt.incarnations
    found = [
        adopted(**{**where, "incarnation": "i-8"}, earlier=(where["incarnation"],), worker="w2"),
        adopted(**{**where, "incarnation": "i-8"}, earlier=("i-7",)),
        adopted(**{**where, "incarnation": "i-8"}, earlier=(*had, where["incarnation"])),
        adopted(**where, earlier=had),
    ]
    if task is None:
        return list(found)
    for past in task.attempts[-2:]:  # of an attempt that has ended, too: it was lost before
        if past.incarnations:
            at: dict[str, Any] = {"attempt": past.number, "placement": past.placement}
            found.append(adopted(**at, incarnation=name_of_next(past), earlier=past.incarnations))
            found.append(adopted(**at, incarnation=name_of_next(past), earlier=past.incarnations[:-1]))
    return [event.model_copy(update={"task_id": task.task_id}) for event in found]
