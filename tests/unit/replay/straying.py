"""A life of an installation, with what is late, doubled or wrong: the fold must ignore all of it."""

from collections.abc import Callable
from random import Random

from tests.unit.replay.dispatching import BATCHES, SEARCHES, answer, next_tasks, of_dispatcher, trial
from tests.unit.replay.installation import Installation
from tests.unit.replay.running import end, of_task, token
from trackside.contracts.batches import GroupEnded
from trackside.contracts.ids import trial_task_id
from trackside.contracts.message import Event, Message
from trackside.contracts.searches import SearchEnded, SearchStatus, TrialEnded, TrialStatus
from trackside.contracts.tasks import (
    AttemptEnd,
    TaskAccepted,
    TaskInterrupted,
    TaskRefused,
    TaskStatus,
    TaskStatusChanged,
    TaskStopRequested,
    TimeLimitReached,
)
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState

Move = Callable[[], object]
ROLES = ("dispatcher", "scheduler", "worker", "indexer")


def lived(seed: object, moves: int = 260, strays: float = 0.3) -> Installation:
    """Gives an installation after so many moves."""
    world = begun(seed)
    live(world, moves, strays)
    return world


def begun(seed: object, bugs: frozenset[str] = frozenset()) -> Installation:
    """Gives an installation with its workers and nothing to do."""
    world = Installation(Random(f"{seed}"), bugs)
    for worker_id in ("w1", "w2", "w3"):
        world.join(worker_id)
    return world


def live(world: Installation, moves: int = 260, strays: float = 0.3) -> None:
    """Lets so many moves happen."""
    for _ in range(moves):
        if world.random.random() < strays:
            stray(world)
        else:
            world.random.choice(moves_of(world))()
    for stream in list(world.streams.by_id.values()):
        while stream.unanswered and not world.forgets("answers"):
            answer(world, stream)


def moves_of(world: Installation) -> list[Move]:
    """Gives all that services may write now."""
    found: list[Move] = [world.tick]
    for stream_id in (*SEARCHES, *BATCHES):
        stream = world.streams.by_id.get(stream_id)
        found += of_dispatcher(world, stream_id, stream)
        if stream is not None and not stream.closed:
            for task in list(stream.tasks.values()):
                found += of_task(world, stream, task)
    if world.random.random() < 0.04:
        found = [world.lose_one, world.leave_one, *(lambda n=n: world.join(n) for n in world.missing())]
    return found


def stray(world: Installation) -> None:
    """Lets something be said that must not count."""
    random = world.random
    if world.decisions and random.random() < 0.4:
        role, stream_id, messages = random.choice(world.decisions[-25:])
        wrong_role = len(messages) == 1 and isinstance(messages[0], Event) and random.random() < 0.2
        if wrong_role:
            role = random.choice([name for name in ROLES if name not in messages[0].written_by])
        world.say(role, stream_id, *messages)
        return
    streams = [stream for stream in world.streams.by_id.values() if not stream.closed]
    if not streams:
        return
    stream = random.choice(streams)
    tasks = list(stream.tasks.values())
    found = wrong_of_stream(stream)
    if tasks:
        found += wrong_of_task(world, random.choice(tasks)) * 2
    if found:
        role, wrong = random.choice(found)
        world.say(role, stream.stream_id, *wrong)


def wrong_of_stream(stream: Stream) -> list[tuple[str, list[Message]]]:
    """Gives decisions of a dispatcher that has not heard of the newest events, or can't count."""
    found: list[tuple[str, list[Message]]] = []
    if stream.search is not None:
        newest = len(stream.search.trials)
        found += [("dispatcher", trial(stream, number)) for number in (newest - 1, newest + 1) if number >= 0]
        if stream.search.next_trial is None:
            found.append(("dispatcher", trial(stream, newest)))
        if stream.search.active:
            first = min(stream.search.active)
            found.append(("dispatcher", [SearchEnded(status=SearchStatus.DONE, trials=newest)]))
            task = stream.tasks.get(trial_task_id(stream.stream_id, first))
            if task is not None and task.state is not TaskState.ENDED:
                early = TrialEnded(trial=first, status=TrialStatus.SUCCEEDED)
                found.append(("dispatcher", [early]))
    if stream.batch is not None:
        if not stream.batch.group_is_over:
            found.append(("dispatcher", [GroupEnded(group=stream.batch.group, ends={})]))
        if stream.batch.next_task is not None:
            one = next_tasks(stream, 1)
            found.append(("dispatcher", [one[0].model_copy(update={"group": stream.batch.group + 1})]))
            known = [task for task in stream.tasks.values() if task.group == stream.batch.group]
            if known:
                again = one[0].model_copy(update={"task_id": known[-1].task_id, "name": known[-1].name})
                found += [("dispatcher", [again, one[0]])] * 3
    return found


def wrong_of_task(world: Installation, task: Task) -> list[tuple[str, list[Message]]]:
    """Gives what zombies and hasty schedulers say of a task."""
    now = token(task)
    other = {**now, "incarnation": "i0"}
    found: list[tuple[str, list[Message]]] = [
        ("worker", [TaskAccepted(**other)]),
        ("dispatcher", [TaskAccepted(**now)]),
        ("worker", [TaskStopRequested(task_id=task.task_id, reason="user")]),
        ("worker", [end(task, AttemptEnd.FINISHED).model_copy(update={"incarnation": "i0"})]),
    ]
    before = {**now, "placement": now["placement"] - 1}
    after = {**now, "placement": now["placement"] + 1}
    found += [
        ("worker", [TaskAccepted(**after)]),
        ("worker", [TaskRefused(**before, code="busy", message="")]),
    ]
    if task.state is not TaskState.ACTIVE:
        return found
    count = task.attempt.interrupted
    lower = TaskStatusChanged(**now, status=TaskStatus(task.attempt.reached), interrupts=count)
    found += [("worker", [lower]), ("worker", [TaskRefused(**now, code="busy", message="")])]
    found.append(
        ("worker", [lower.model_copy(update={"interrupts": count + 1, "status": TaskStatus.TRAINING})])
    )
    if task.due_ms is not None and world.now_ms + 20 < task.due_ms:
        early = TimeLimitReached(
            task_id=task.task_id, attempt=task.attempt.number, limit="run", due_ms=task.due_ms
        )
        found += [("scheduler", [early])] * 2
    for record in reversed(world.records):
        if isinstance(record.message, TaskInterrupted) and record.message.task_id == task.task_id:
            found.append(("worker", [record.message]))
            break
    return found
