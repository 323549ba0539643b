"""What spans say of a task and of how its attempts end."""

from collections.abc import Iterable
from typing import Final

from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.tasks import AttemptEnd, TaskError
from trackside.domain.tasks.task import Task
from trackside.telemetry.context import Failure

_RESULTS: Final = {
    AttemptEnd.FINISHED: "success",
    AttemptEnd.FAILED: "failure",
    AttemptEnd.OOM_HOST: "failure",
    AttemptEnd.OOM_DEVICE: "failure",
    AttemptEnd.LOST: "error",
    AttemptEnd.REFUSED: "error",
    AttemptEnd.TIMED_OUT_QUEUE: "timeout",
    AttemptEnd.TIMED_OUT_RUN: "timeout",
    AttemptEnd.PREEMPTED: "cancellation",
    AttemptEnd.CANCELLED: "cancellation",
}
"""The ends of attempts in the words of OpenTelemetry's conventions for tasks of pipelines."""
_NO_FAILURES: Final = (AttemptEnd.FINISHED, AttemptEnd.PREEMPTED, AttemptEnd.CANCELLED)


def part_attributes(stream_id: str, part: Part | None) -> dict[str, str | int]:
    """Returns the stream of a task, and what of it the task is for: a trial of a search, say."""
    found: dict[str, str | int] = {"trackside.stream": stream_id}
    if part is not None:
        found[f"trackside.{part.kind}"] = part.number
        if part.kind == "trial":
            found["trackside.search"] = stream_id
    return found


def placement_attributes(
    attempt: int, placement: int, worker_id: str, device_ids: Iterable[str]
) -> dict[str, str | int]:
    """Returns which placement of which attempt it is, and where it is placed."""
    found: dict[str, str | int] = {"trackside.attempt": attempt}
    if placement:
        found["trackside.placement"] = placement
    if worker_id:
        found |= {"trackside.worker": worker_id, "trackside.device": ",".join(device_ids)}
    return found


def task_attributes(stream_id: str, task: Task) -> dict[str, str | int]:
    """Returns what identifies a task and its newest placement."""
    now = task.attempt
    return {
        **part_attributes(stream_id, task.part),
        "trackside.task": task.task_id,
        "trackside.task_type": task.task_type,
        **placement_attributes(now.number, now.placement, now.worker_id, now.device_ids),
    }


def end_attributes(
    task_id: str, task_type: str, attempt: int, worker_id: str, end: AttemptEnd
) -> dict[str, str | int]:
    """Returns how an attempt ended, also in the words of OpenTelemetry's conventions for pipelines."""
    return {
        "trackside.end": end.value,
        "cicd.pipeline.task.name": task_type,
        "cicd.pipeline.task.run.id": f"{task_id}/{attempt}",
        "cicd.pipeline.task.run.result": _RESULTS[end],
        "cicd.worker.id": worker_id,
    }


def failure_of(end: AttemptEnd, error: TaskError | None) -> Failure | None:
    """Returns what an attempt failed of; None if it finished, or was ended on purpose."""
    if end in _NO_FAILURES:
        return None
    if error is None:
        return Failure(end.value, _sentence(end))
    kind = error.type if end is AttemptEnd.FAILED else end.value
    return Failure(kind, f"{error.stage}: {error.type}: {error.message}", error.traceback)


def _sentence(end: AttemptEnd) -> str:
    return "its worker was lost" if end is AttemptEnd.LOST else f"it ended as {end.value}"
