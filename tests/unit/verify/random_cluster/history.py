"""The random history of a cluster, with late, duplicate and invalid records, which the fold must ignore."""

from functools import partial
from random import Random

from tests.unit.verify.random_cluster import running_moves
from tests.unit.verify.random_cluster.cluster import Cluster, Move, adoption
from tests.unit.verify.random_cluster.dispatcher_moves import (
    BATCHES,
    SEARCHES,
    answer,
    next_tasks,
    of_dispatcher,
    trial,
)
from tests.unit.verify.random_cluster.task_moves import end, of_task
from tests.unit.verify.random_cluster.tokens import token
from trackside.aggregates.batch.messages import GroupEnded
from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.search.messages import SearchEnded, SearchStatus, TrialEnded, TrialStatus
from trackside.aggregates.search.state import search_of
from trackside.contracts.ids import trial_task_id
from trackside.contracts.message import Event, Message
from trackside.contracts.parts import number_of
from trackside.contracts.tasks import (
    AttemptEnd,
    TaskAccepted,
    TaskInterrupted,
    TaskRefused,
    TaskStatus,
    TaskStatusChanged,
    TaskStopRequested,
    TaskSubmitted,
    TimeLimitReached,
)
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState

DRAWN = (*SEARCHES, *BATCHES)
ROLES = ("dispatcher", "scheduler", "worker", "indexer")


def random_cluster(
    seed: object,
    moves: int = 260,
    invalid_share: float = 0.3,
    streams: tuple[str, ...] = DRAWN,
) -> Cluster:
    """Returns a cluster after `moves` random appends to these streams."""
    cluster = started_cluster(seed)
    cluster.wanted = streams
    run_moves(cluster, moves, invalid_share)
    return cluster


def started_cluster(seed: object, omitted: frozenset[str] = frozenset()) -> Cluster:
    """Returns a cluster with its workers and nothing to do."""
    cluster = Cluster(Random(f"{seed}"), omitted, wanted=DRAWN)
    for worker_id in ("w1", "w2", "w3"):
        cluster.join(worker_id)
    return cluster


def run_moves(cluster: Cluster, moves: int = 260, invalid_share: float = 0.3) -> None:
    """Makes random valid and invalid appends."""
    for _ in range(moves):
        if cluster.random.random() < invalid_share:
            append_invalid(cluster)
        else:
            cluster.random.choice(valid_moves(cluster))()
    for stream in list(cluster.streams.by_id.values()):
        while stream.unanswered and not cluster.omits("answers"):
            answer(cluster, stream)


def valid_moves(cluster: Cluster) -> list[Move]:
    """Returns everything that services may append now."""
    found: list[Move] = [cluster.tick]
    if any(task.not_before_ms > cluster.now_ms + 1_000 for _, task in cluster.tasks()):
        # A service waits.
        found += [partial(cluster.tick, cluster.random.choice([5_000, 30_000, 700_000]))] * 2
    for stream_id in cluster.wanted:
        stream = cluster.streams.by_id.get(stream_id)
        found += of_dispatcher(cluster, stream_id, stream)
        if stream is not None and not stream.closed:
            for task in list(stream.tasks.values()):
                found += of_task(cluster, stream, task)
    if cluster.random.random() < 0.04:
        found = [
            cluster.lose_one,
            cluster.leave_one,
            cluster.restart_one,
            *(lambda n=n: cluster.join(n) for n in cluster.missing()),
        ]
    return found


def append_invalid(cluster: Cluster) -> None:
    """Appends something that the fold must ignore."""
    random = cluster.random
    if cluster.decisions and random.random() < 0.4:
        role, stream_id, messages = random.choice(cluster.decisions[-25:])
        wrong_role = len(messages) == 1 and isinstance(messages[0], Event) and random.random() < 0.2
        if wrong_role:
            role = random.choice([name for name in ROLES if name not in messages[0].written_by])
        cluster.append(role, stream_id, *messages)
        return
    streams = [stream for stream in cluster.streams.by_id.values() if not stream.closed]
    if not streams:
        return
    stream = random.choice(streams)
    tasks = list(stream.tasks.values())
    if tasks and random.random() < 0.5:
        running = [task for task in tasks if task.state is TaskState.ACTIVE]
        found = running_moves.wrong(cluster, stream, random.choice(running or tasks))
    else:
        found = invalid_for_stream(stream)
        if tasks:
            found += invalid_for_task(cluster, random.choice(tasks)) * 2
    if found:
        role, wrong = random.choice(found)
        cluster.append(role, stream.stream_id, *wrong)


def invalid_for_stream(stream: Stream) -> list[tuple[str, list[Message]]]:
    """Returns decisions of a dispatcher whose state is stale, or whose numbers are wrong."""
    found: list[tuple[str, list[Message]]] = []
    if search_of(stream) is not None:
        newest = len(stream.root.trials)
        found += [("dispatcher", trial(stream, number)) for number in (newest - 1, newest + 1) if number >= 0]
        if stream.root.next_trial is None:
            found.append(("dispatcher", trial(stream, newest)))
        if stream.root.active:
            first = min(stream.root.active)
            found.append(("dispatcher", [SearchEnded(status=SearchStatus.DONE, trials=newest)]))
            task = stream.tasks.get(trial_task_id(stream.stream_id, first))
            if task is not None and task.state is not TaskState.ENDED:
                early = TrialEnded(trial=first, status=TrialStatus.SUCCEEDED)
                found.append(("dispatcher", [early]))
    if batch_of(stream) is not None:
        if not stream.root.group_is_over:
            found.append(("dispatcher", [GroupEnded(group=stream.root.group, ends={})]))
        if stream.root.next_task is not None:
            one = next_tasks(stream, 1)
            found.append(("dispatcher", [_of_next_group(one[0])]))
            known = [
                task for task in stream.tasks.values() if number_of(task.part, "group") == stream.root.group
            ]
            if known:
                again = one[0].model_copy(update={"task_id": known[-1].task_id, "part": known[-1].part})
                found += [("dispatcher", [again, one[0]])] * 3
    return found


def invalid_for_task(cluster: Cluster, task: Task) -> list[tuple[str, list[Message]]]:
    """Returns invalid events about a task: from old incarnations, early, or with wrong numbers."""
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
    if task.place is not None:
        theirs = adoption(task, "w0", "i0")
        old = adoption(task, task.place.worker_id, "i0").model_copy(update={"earlier": ("i0", "i00")})
        found += [("worker", [theirs]), ("worker", [old])]
    if task.state is not TaskState.ACTIVE:
        return found
    count = task.attempt.interrupted
    lower = TaskStatusChanged(**now, status=TaskStatus(task.attempt.reached), interrupts=count)
    found += [("worker", [lower]), ("worker", [TaskRefused(**now, code="busy", message="")])]
    found.append(
        ("worker", [lower.model_copy(update={"interrupts": count + 1, "status": TaskStatus.TRAINING})])
    )
    if task.due_ms is not None and cluster.now_ms + 20 < task.due_ms:
        early = TimeLimitReached(
            task_id=task.task_id, attempt=task.attempt.number, limit="run", due_ms=task.due_ms
        )
        found += [("scheduler", [early])] * 2
    for record in reversed(cluster.records):
        if isinstance(record.message, TaskInterrupted) and record.message.task_id == task.task_id:
            found.append(("worker", [record.message]))
            break
    return found


def _of_next_group(event: TaskSubmitted) -> TaskSubmitted:
    assert event.part is not None
    part = event.part.model_copy(update={"number": event.part.number + 1})
    return event.model_copy(update={"part": part})
