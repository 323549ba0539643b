"""What running tasks of a cluster may save, continue from and acknowledge, and what nobody should write."""

from functools import partial

from tests.unit.domain import plausible_artifacts, plausible_changes
from tests.unit.domain.plausible import about
from tests.unit.verify.random_cluster.cluster import Cluster, Move
from tests.unit.verify.random_cluster.tokens import token
from trackside.contracts.artifacts import ArtifactsForgotten
from trackside.contracts.instructions import InstructionAcknowledged, InstructionGiven, TaskReady
from trackside.contracts.message import Message
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState
from trackside.domain.task_artifacts import candidates
from trackside.domain.task_commands import in_use
from trackside.domain.task_instructions import is_unacknowledged

Wrong = tuple[str, list[Message]]


def of_worker(cluster: Cluster, stream: Stream, task: Task) -> list[Move]:
    """Returns what the worker of a running task may say of artifacts, checkpoints and instructions."""
    where = {name: value for name, value in token(task).items() if name != "task_id"}
    events = [move[0] for move in plausible_artifacts.of_task(cluster.random, task, where)]
    if is_unacknowledged(task):
        events += [_answer(task, _newest(task))] * 4
    if task.needs.service is not None and cluster.random.random() < 0.5:
        events += [_ready(task, task.attempt.ready_number + 1)] * 2
    return [
        partial(cluster.append, "worker", stream.stream_id, about(task.task_id, event)) for event in events
    ]


def of_dispatcher(cluster: Cluster, stream: Stream) -> list[Move]:
    """Returns new instructions, and artifacts that a stream may forget."""
    found: list[Move] = []
    for task in stream.tasks.values():
        if task.state is not TaskState.ENDED and not task.stop_reason and cluster.random.random() < 0.1:
            given = _given(task, _newest(task) + 1)
            found.append(partial(cluster.append, "dispatcher", stream.stream_id, given))
    free = [digest for digest in plausible_artifacts.DIGESTS if digest not in in_use(stream)]
    if free and cluster.random.random() < 0.1:
        forgotten = ArtifactsForgotten(command_id="c-1", artifacts=free[:1])
        found.append(partial(cluster.append, "dispatcher", stream.stream_id, forgotten))
    found += [
        partial(cluster.append, "dispatcher", stream.stream_id, *move)
        for move in plausible_changes.annotations(cluster.random, stream)
    ]
    return found


def wrong(cluster: Cluster, stream: Stream, task: Task) -> list[Wrong]:
    """Returns what the fold must ignore: late, again, too early, or of what the log does not know."""
    now, newest = token(task), _newest(task)
    where = {name: value for name, value in now.items() if name != "task_id"}
    events = plausible_artifacts.wrong(cluster.random, task, where)
    saved = plausible_artifacts.saved(cluster.random, task, where)
    events.append(saved.model_copy(update={"placement": now["placement"] + 1}))
    events.append(saved.model_copy(update={"requests": task.taken + 1, "kind": "checkpoint", "step": 1}))
    for known in candidates(task)[:1]:
        training = plausible_artifacts.resumed(task, where, known)
        events += [training, training.model_copy(update={"requests": task.taken + 1})]
        if not task.reports and task.attempt.resumed is None:
            events += [training.model_copy(update={"interrupts": training.interrupts + 1})] * 6
    for name, artifact in task.artifacts.items():
        again = {"kind": "file", "name": name, "version": artifact.version, "number": task.attempt.saved + 1}
        events += [saved.model_copy(update=again)] * 4
    if task.needs.service is None:
        events.append(_ready(task, 1))
    events += [_answer(task, number) for number in {newest, max(1, newest - 1), newest + 1}]
    if task.state is not TaskState.ACTIVE:
        events += [saved, _ready(task, task.attempt.ready_number + 1)]
    found: list[Wrong] = [("worker", [about(task.task_id, event)]) for event in events]
    numbers = [max(1, newest), newest + 2]
    found += [("dispatcher", [_given(task, number)]) for number in numbers]
    for other in stream.tasks.values():  # these are rare
        if other.stop_reason and other.state is not TaskState.ENDED:
            found += [("dispatcher", [_given(other, _newest(other) + 1)])] * 12
        if other.attempt.ready_number and other.state is TaskState.ACTIVE:
            found += [("worker", [_ready(other, other.attempt.ready_number)])] * 8
    found += [
        ("dispatcher", [plausible_changes.annotation(cluster.random, command_id)])
        for command_id, command in stream.commands.items()
        if command.carried_out
    ]
    used = sorted(in_use(stream))
    if used:
        found += [("dispatcher", [ArtifactsForgotten(command_id="c-1", artifacts=used[:1])])] * 2
    return found


def _newest(task: Task) -> int:
    return 0 if task.instruction is None else task.instruction.number


def _given(task: Task, number: int) -> InstructionGiven:
    return InstructionGiven(command_id="c-1", task_id=task.task_id, number=number, body={"number": number})


def _answer(task: Task, number: int) -> InstructionAcknowledged:
    return InstructionAcknowledged(**token(task), number=number, ok=True)


def _ready(task: Task, number: int) -> TaskReady:
    return TaskReady(**token(task), number=number)
