"""Steps that are copies of recorded tasks: `from: STREAM/TASK`, resolved before a pipeline is published."""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, NamedTuple, TypeVar

from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.pipelines import references
from trackside.domain.pipelines.definition import OWN_NEEDS, RecordedTask
from trackside.sdk.connection.log_client import LogClient
from trackside.sdk.connection.records import not_forged
from trackside.sdk.definitions.reference_from_log import reference
from trackside.sdk.errors import UnsendableError

T = TypeVar("T")
FROM = "from"
UNRESOLVED = "unresolved"
"""The task type of such a step until its task is found: the rest of the file is checked before."""
NOT_HERE = "a copy of a recorded task needs the log: submit the file, or use Client.recorded_step"
Records = AbstractAsyncContextManager[AsyncIterator[Record]]
_TASK = re.compile(r"([^/]+)/([^/]+)")
_MERGED = ("parameters", "inputs")


class TaskReference(NamedTuple):
    """The task that a text names; it may be called without the id of its stream before it."""

    stream: str
    task: str

    def is_of(self, task_id: str) -> bool:
        """Returns whether an id is that of the task."""
        return task_id in (self.task, f"{self.stream}.{self.task}")


class CopiedStep(NamedTuple):
    """A step of a file that is a copy of a task: its path, its fields, and the task."""

    path: str
    fields: Json
    task: TaskReference


FindTasks = Callable[[Mapping[str, TaskReference]], Mapping[str, Json | Problem]]
"""Gets tasks by the paths of their steps, and returns the fields of each as a step, or its problem."""


def task_reference(given: object) -> TaskReference:
    """Reads `STREAM/TASK`; raises UnsendableError."""
    found = _TASK.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        message = f"{given!r:.200} names no task; expected STREAM/TASK"
        raise UnsendableError(Problem(code="bad_reference", path="$", message=message))
    return TaskReference(found[1], found[2])


def take_copied(body: Json) -> tuple[list[CopiedStep], list[Problem]]:
    """Takes `from` out of the steps of a pipeline; returns these steps, and the problems of wrong ones.

    Until their tasks are put in, they have the type UNRESOLVED.
    """
    found: list[CopiedStep] = []
    problems: list[Problem] = []
    steps = body.get("steps")
    for at, step in enumerate(steps if isinstance(steps, list) else ()):
        if not isinstance(step, dict) or FROM not in step:
            continue
        path = f"$.steps[{at}].{FROM}"
        try:
            task = task_reference(step.pop(FROM))
        except UnsendableError as error:
            problems.append(error.problem.model_copy(update={"path": path}))
        else:
            found.append(CopiedStep(path, step, task))
        others = [name for name in ("task_type", "recorded", "kind", "gate") if name in step]
        if others:
            message = f"the step is a copy of a task, so it can't have {' and '.join(others)}"
            problems.append(Problem(code="bad_step", path=path, message=message))
        else:
            step["task_type"] = UNRESOLVED
    return found, problems


def put_tasks(copied: Iterable[CopiedStep], found: Mapping[str, Json | Problem]) -> list[Problem]:
    """Puts tasks into the steps that are copies of them; what a step has itself stays. Returns problems."""
    problems: list[Problem] = []
    for path, step, _ in copied:
        task = found[path]
        if isinstance(task, Problem):
            problems.append(task.model_copy(update={"path": path}))
            continue
        own = {name: value for name, value in step.items() if name != "task_type"}
        given = {name: own.get(name, {}) for name in _MERGED}
        kept = {
            name: {key: each for key, each in task.get(name, {}).items() if key not in inner}
            for name, inner in given.items()
            if isinstance(inner, dict)
        }
        unfit = [key for inner in kept.values() for key, each in inner.items() if has_references(each)]
        if unfit:
            message = f"{unfit[0]!r} of the task has ${{...}} in it, a reference here: give the step its own"
            problems.append(Problem(code="bad_reference", path=path, message=message))
        step.update(task | own | {name: inner | given[name] for name, inner in kept.items() if inner})
    return problems


def has_references(value: Any) -> bool:
    """Returns whether a value would be a template in a pipeline."""
    return next(references.references(references.parse(value)), None) is not None


async def find_tasks(
    events: Callable[[str], Records], wanted: Mapping[str, TaskReference]
) -> dict[str, Json | Problem]:
    """Returns the fields that each wanted task has as a step, or a problem without a path, by the same keys.

    `events` opens the records of a stream; each stream is read once.
    """
    found: dict[str, Json | Problem] = {}
    for stream in dict.fromkeys(task.stream for task in wanted.values()):
        submitted: dict[str, Record] = {}
        begun = False
        async with events(stream) as records:
            async for record in records:
                begun = True
                if isinstance(record.message, TaskSubmitted):
                    submitted.setdefault(record.message.task_id, record)
        of_stream = {key: task for key, task in wanted.items() if task.stream == stream}
        found |= {key: _step_of(task, submitted, begun) for key, task in of_stream.items()}
    return found


async def recorded_step(events: Callable[[str], Records], source: str) -> Json:
    """Returns the fields that a task, `STREAM/TASK`, has as a step; raises UnsendableError."""
    [found] = (await find_tasks(events, {source: task_reference(source)})).values()
    if isinstance(found, Problem):
        raise UnsendableError(found)
    return found


async def resolve_steps(client: LogClient, pipeline: T) -> T | Json:
    """Returns a mapping of a definition with the tasks that its steps are copies of, and whole references.

    Anything else is returned as it is. Raises UnsendableError with all that is not there.
    """
    steps = pipeline.get("steps") if isinstance(pipeline, Mapping) else None
    if not isinstance(pipeline, Mapping) or not isinstance(steps, Sequence):
        return pipeline
    body = dict(pipeline) | {"steps": [dict(step) if isinstance(step, Mapping) else step for step in steps]}
    problems = [problem async for problem in _put_references(client, body)]
    copied, wrong = take_copied(body)
    wanted = {each.path: each.task for each in copied}
    found = await find_tasks(lambda stream: aclosing(not_forged(client.events(stream))), wanted)
    problems += [*wrong, *put_tasks(copied, found)]
    if problems:
        raise UnsendableError(*problems)
    return body


async def _put_references(client: LogClient, body: Json) -> AsyncIterator[Problem]:
    """Replaces short references in the inputs of steps by whole ones, and yields problems."""
    for at, step in enumerate(body["steps"]):
        inputs = step.get("inputs") if isinstance(step, dict) else None
        if not isinstance(inputs, Mapping):
            continue
        step["inputs"] = dict(inputs)
        for name, given in inputs.items():
            if isinstance(given, str) and not has_references(given):
                try:
                    step["inputs"][name] = (await reference(client, given)).model_dump(mode="json")
                except UnsendableError as error:
                    yield error.problem.model_copy(update={"path": f"$.steps[{at}].inputs.{name}"})


def _step_of(wanted: TaskReference, submitted: Mapping[str, Record], begun: bool) -> Json | Problem:
    record = next((record for task_id, record in submitted.items() if wanted.is_of(task_id)), None)
    if record is None:
        message = f"there is no stream {wanted.stream} in the log"
        if begun:
            names = [*submitted, *(name.removeprefix(f"{wanted.stream}.") for name in submitted)]
            message = f"stream {wanted.stream} has no task {wanted.task!r}{nearest(wanted.task, names)}"
        return Problem(code="unknown_task", path="$", message=message)
    task = record.message
    assert isinstance(task, TaskSubmitted)
    if task.needs.service is not None:
        message = f"task {task.task_id} is a service, and a step has to end"
        return Problem(code="bad_service", path="$", message=message)
    recorded = RecordedTask(stream=wanted.stream, task=task.task_id, offset=record.offset)
    return dict(_fields(task)) | {"recorded": recorded.model_dump()}


def _fields(task: TaskSubmitted) -> Iterator[tuple[str, Any]]:
    """Yields the fields of a step that has what a task had; needs that are the defaults are left out."""
    body = task.model_dump(mode="json")
    yield "task_type", task.task_type
    for name in _MERGED:
        if body.get(name):
            yield name, body[name]
    needs = task.needs.model_dump(mode="json", exclude_defaults=True)
    for name in ("queue", *OWN_NEEDS):
        if name in needs:
            yield name, needs[name]
