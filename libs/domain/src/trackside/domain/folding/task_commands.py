"""Commands about the tasks and the artifacts of a stream, whatever its aggregate. Pure."""

from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.tasks.artifacts import ArtifactsForgotten, ForgetArtifacts
from trackside.contracts.tasks.instructions import InstructionGiven, InstructTask
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import TaskState

TaskCommand = InstructTask | ForgetArtifacts


def decide(stream: Stream, command: TaskCommand, command_id: str) -> list[Event] | tuple[Problem, ...]:
    """Returns the events of a command about a task or artifacts of a stream, or why it is refused."""
    if isinstance(command, InstructTask):
        return _instruct(stream, command, command_id)
    return _forget(stream, command, command_id)


def _instruct(stream: Stream, command: InstructTask, command_id: str) -> list[Event] | tuple[Problem, ...]:
    task = stream.tasks.get(command.task)
    if task is None and not stream.is_settled(command.task):
        known = list(stream.tasks)
        message = f"{stream.stream_id} has no task {command.task!r}{nearest(command.task, known)}"
        return (Problem(code="unknown_task", path="$.task", message=message),)
    if task is None or task.state is TaskState.ENDED or task.stop_reason:
        message = f"task {command.task} has ended, or is stopping: it takes no instructions"
        return (Problem(code="task_over", path="$.task", message=message),)
    number = 1 if task.instruction is None else task.instruction.number + 1
    return [InstructionGiven(command_id=command_id, task_id=command.task, number=number, body=command.body)]


def _forget(stream: Stream, command: ForgetArtifacts, command_id: str) -> list[Event] | tuple[Problem, ...]:
    used = in_use(stream)
    problems = [
        Problem(
            code="artifact_in_use",
            path=f"$.artifacts[{number}]",
            message=f"{used[digest]} still needs {digest}: stop it, or wait until it has ended",
        )
        for number, digest in enumerate(command.artifacts)
        if digest in used
    ]
    if problems:
        return tuple(problems)
    return [ArtifactsForgotten(command_id=command_id, artifacts=command.artifacts, reason=command.reason)]


def in_use(stream: Stream) -> dict[str, str]:
    """Returns the digests that tasks of the stream which have not ended may still read, with the task."""
    used: dict[str, str] = {}
    for task in stream.tasks.values():
        if task.state is not TaskState.ENDED:
            references = [*task.inputs.values(), *(each.reference for each in task.checkpoints)]
            references += [] if task.checkpoint is None else [task.checkpoint]
            used.update(dict.fromkeys((each.sha256 for each in references), task.task_id))
    return used
