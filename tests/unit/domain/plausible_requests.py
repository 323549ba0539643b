"""Requests of tasks for other trials, drawn by chance: as services make and answer them, or nobody should."""

from random import Random
from typing import Any, Literal

from tests.unit.domain.given import over, suggested, token, trial_of
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks import tasks
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks import task_reuse
from trackside.domain.tasks.task import Task, TaskState

Move = list[Message]


def open_tasks(search: Search) -> list[str]:
    return [*(search.task_of(trial) for trial in search.active), *search.idle]


def next_trial(random: Random, stream: Stream, number: int, seen: int) -> list[Move]:
    """Returns the suggestion of a trial within a task that waits for one, or that doesn't."""
    search = search_of(stream)
    free = [] if search is None else [name for name in search.idle if task_reuse.is_idle(stream.tasks[name])]
    if not free and (random.random() > 0.06 or not stream.tasks):
        return []
    within = random.choice(free or list(stream.tasks))
    asked = suggested(number).model_copy(update={"seen": seen, "within": within})
    part = Part(kind="trial", number=number)
    continued = task_reuse.continued(stream.tasks[within], part, asked.parameters)
    pair: Move = [asked, continued]
    return [pair, pair, pair, [asked]]  # older releases wrote the suggestion alone


def of_task(random: Random, task: Task, where: dict[str, Any]) -> list[Move]:
    named, held = token(0, **where), {name: where[name] for name in ("attempt", "placement")}
    chance = random.random()
    if task.requested and chance < 0.2:
        return [[random.choice(wrong(random, task, where))]] * 4
    if task.continued and task.part is not None and random.random() < 0.4:
        again = {"request": task.continued, "part": task.part, "parameters": task.parameters}
        return [[tasks.TaskContinued(task_id=task.task_id, **held, **again)]] * 4
    if chance > 0.97:
        odd = {**where, "incarnation": "i-9"}
        return [[random.choice(wrong(random, task, odd))]] * 4
    if task.answered > task.taken:
        return [[tasks.ParametersTaken(**named, request=task.answered)]] * 4
    if task.asks:
        withheld = tasks.ParametersWithheld(task_id="", **held, request=task.requested, reason="no_slot")
        moves: list[Move] = [[withheld]]
        trial = trial_of(task)
        if not task.idle and trial is not None:
            moves += [[over(trial, task.final)]] * 4
        return moves
    if chance < 0.4:
        return [[tasks.ParametersRequested(**named, request=task.requested + 1)]] * 2
    return []


def wrong(random: Random, task: Task | None, where: dict[str, Any]) -> list[Message]:
    """Returns requests and answers out of their order, or of another placement."""
    known = (0, 0, 0) if task is None else (task.requested, task.answered, task.taken)
    number = max(1, random.choice(known) + random.choice([-1, 0, 0, 1, 2]))
    held: dict[str, Any] = {name: where[name] for name in ("attempt", "placement")}
    task_id = "digits-1.0" if task is None else task.task_id
    known_part = None if task is None else task.part
    part = known_part or Part(kind="trial", number=number)
    named = {"task_id": task_id, **held, "incarnation": where["incarnation"]}
    return [
        tasks.ParametersRequested(**named, request=number),
        tasks.ParametersTaken(**named, request=number),
        tasks.ParametersWithheld(task_id=task_id, **held, request=number, reason="no_slot"),
        tasks.TaskContinued(task_id=task_id, **held, request=number, part=part, parameters={}),
    ]


def limit_of(task: Task) -> tasks.TimeLimitReached:
    limit: Literal["queue", "run"] = "queue" if task.state is TaskState.QUEUED else "run"
    due_ms = task.due_ms or 0
    return tasks.TimeLimitReached(
        task_id=task.task_id, attempt=task.attempt.number, limit=limit, due_ms=due_ms
    )
