"""Histories of batches as services write them, every event of which the fold applies."""

from collections.abc import Iterator, Sequence
from typing import Any

from trackside.contracts.batches import (
    BatchEnded,
    BatchSpec,
    BatchStarted,
    BatchStatus,
    BatchStopRequested,
    GroupEnded,
    needs_of,
    task_name,
)
from trackside.contracts.commands import CommandAccepted, CommandReceived, Source
from trackside.contracts.ids import batch_task_id
from trackside.contracts.message import Json, Message
from trackside.contracts.tasks import (
    AttemptEnded,
    MetricReported,
    TaskAccepted,
    TaskAssigned,
    TaskInterrupted,
    TaskPreemptionRequested,
    TaskRefused,
    TaskReturned,
    TaskStatusChanged,
    TaskStopRequested,
    TaskSubmitted,
    TaskUnschedulable,
)
from trackside.eventlog.log import Outgoing
from trackside.eventlog.record_writer import RecordWriter

Decision = list[Outgoing]
WRITERS = {role: RecordWriter(role, "1") for role in ("dispatcher", "scheduler", "worker")}
ERROR: Json = {"stage": "TRAIN", "type": "OutOfMemoryError", "message": "CUDA out of memory\x00"}
SPEC = BatchSpec.model_validate(
    {
        "name": "compare",
        "concurrency": 3,
        "groups": [
            {
                "name": "warm-up",
                "device": "gpu0",
                "estimate_memory": "1GiB",
                "tasks": [
                    {"name": "a", "task_type": "digits", "parameters": {"lr": 0.1}, "priority": 9},
                    {"task_type": "digits", "queue_timeout_s": 60.0},
                    {"name": "c", "task_type": "faces", "resources": {"estimate_cuda_memory": "2GB"}},
                ],
            },
            {"tasks": [{"task_type": "digits"}]},
        ],
    }
)


class Life:
    """Writes the events of one batch, each a decision unless several are given at once."""

    def __init__(self, batch_id: str, spec: BatchSpec = SPEC) -> None:
        self.batch_id = batch_id
        self.spec = spec

    def said(self, role: str, *messages: Message) -> Decision:
        """Returns a decision."""
        return WRITERS[role].decision(self.batch_id, messages)

    def begun(self) -> Iterator[Decision]:
        """Returns the command and the start."""
        source = Source(topic="trackside.commands", partition=0, offset=0)
        command = {"command_id": f"{self.batch_id}-start", "source": source}
        received = CommandReceived.model_validate(
            {
                **command,
                "command_type": "trackside.submit-tasks.v1",
                "body": {},
                "digest": "d",
                "publisher": "cli",
                "rules": 1,
            }
        )
        yield self.said("dispatcher", received)
        accepted = CommandAccepted.model_validate(command)
        yield self.said("dispatcher", accepted, BatchStarted(command_id=received.command_id, batch=self.spec))

    def submitted(self, group: int) -> Decision:
        """Returns the tasks of a group."""
        listed = self.spec.groups[group]
        return self.said(
            "dispatcher",
            *(
                TaskSubmitted(
                    task_id=batch_task_id(self.batch_id, group, task_name(task, number)),
                    task_type=task.task_type,
                    parameters=task.parameters,
                    group=group,
                    name=task_name(task, number),
                    needs=needs_of(self.spec, listed, task),
                )
                for number, task in enumerate(listed.tasks)
            ),
        )

    def placed(
        self, task: str, placement: int, attempt: int = 1, accepted: bool = True, **more: Any
    ) -> Iterator[Decision]:
        """Returns an assignment, and the worker's word that it begins."""
        reserved = {"memory_bytes": 2**30, "cuda_memory_bytes": 2**31, "estimated_by": "group"}
        where = {"worker_id": "w2", "device_ids": ["cpu0", "cpu1"], "seen": 0, "reserved": reserved}
        token = self.token(task, placement, attempt)
        yield self.said("scheduler", TaskAssigned.model_validate({**token, **where, **more}))
        if accepted:
            yield self.said("worker", TaskAccepted.model_validate(token))

    def token(self, task: str, placement: int, attempt: int = 1) -> Json:
        """Returns the fields that name a placement."""
        task_id = f"{self.batch_id}.{task}"
        return {"task_id": task_id, "attempt": attempt, "placement": placement, "incarnation": "i2"}

    def ended(self, task: str, placement: int, attempt: int = 1, end: str = "finished") -> Decision:
        """Returns the end of an attempt."""
        measured = {"load_time_ms": 12, "train_time_ms": 345, "peak_memory_bytes": 2**29, "exit_code": 0}
        leftovers = ["sleep 60 (17)\x00"] if end == "oom_device" else []
        more: Json = {
            "peak_cuda_memory_bytes": 2**30,
            "leftovers": leftovers,
            "error": ERROR if end.startswith("oom") else None,
            "result": {"accuracy": 0.5, "file": "a\x00"} if end == "finished" else None,
        }
        token = self.token(task, placement, attempt)
        return self.said("worker", AttemptEnded.model_validate({**token, **measured, **more, "end": end}))


def troubled(batch_id: str) -> Iterator[Decision]:
    """Yields a whole batch whose tasks are refused, returned, preempted, interrupted and retried."""
    life = Life(batch_id)
    yield from life.begun()
    yield life.submitted(0)
    yield from life.placed("1.a", 1, accepted=False)
    refused = {"code": "out_of_memory", "message": "1 GiB more than is free\x00"}
    yield life.said("worker", TaskRefused.model_validate({**life.token("1.a", 1), **refused}))
    yield from life.placed("1.a", 2, accepted=False, behind=True)
    yield life.said("worker", TaskReturned.model_validate(life.token("1.a", 2)))
    yield from life.placed("1.a", 3)
    asked = {**life.token("1.a", 3), "by": f"{batch_id}.1.2"}
    yield life.said("scheduler", TaskPreemptionRequested.model_validate(asked))
    yield life.ended("1.a", 3, end="preempted")
    yield from life.placed("1.a", 4)
    yield from _interrupted(life, "1.a", 4)
    yield life.ended("1.a", 4, end="oom_device")
    yield from life.placed("1.a", 1, attempt=2)
    yield life.ended("1.a", 1, attempt=2)
    nowhere = {"task_id": f"{batch_id}.1.2", "attempt": 1, "number": 1, "message": "too large\x00"}
    yield life.said("scheduler", TaskUnschedulable.model_validate(nowhere))
    yield life.said("dispatcher", TaskStopRequested(task_id=f"{batch_id}.1.2", reason="user"))
    yield from life.placed("1.c", 1)
    yield life.ended("1.c", 1, end="timed_out_run")
    yield life.said("dispatcher", GroupEnded(group=0, ends={"cancelled": 1, "finished": 1}))
    yield life.submitted(1)
    yield from life.placed("2.1", 1)
    yield life.ended("2.1", 1)
    yield life.said("dispatcher", GroupEnded(group=1, ends={"finished": 1}))
    yield life.said("dispatcher", BatchEnded(status=BatchStatus.DONE))


def _interrupted(life: Life, task: str, placement: int) -> Iterator[Decision]:
    token = life.token(task, placement)
    for status in (3, 4, 5):
        yield life.said("worker", TaskStatusChanged.model_validate({**token, "status": status}))
    point = {name: value for name, value in token.items() if name != "incarnation"} | {"kind": "PERIODICAL"}
    yield life.said("worker", MetricReported.model_validate({**point, "step": 1, "value": 0.25}))
    raised = {"cuda_memory_bytes": 3 * 2**30, "estimated_by": "raised"}
    happened = {"interrupt": 1, "resource": "device", "reserved": raised, "error": ERROR}
    yield life.said("worker", TaskInterrupted.model_validate({**token, **happened}))
    again = {**token, "status": 5, "interrupts": 1}
    yield life.said("worker", TaskStatusChanged.model_validate(again))
    point |= {"interrupts": 1, "step": 1, "value": 0.125}
    yield life.said("worker", MetricReported.model_validate(point))


def stopped(batch_id: str) -> Iterator[Decision]:
    """Returns a batch that is stopped in its first group."""
    life = Life(batch_id)
    yield from life.begun()
    yield life.submitted(0)
    yield from life.placed("1.a", 1)
    yield life.said("dispatcher", BatchStopRequested(command_id="stop", reason="enough\x00"))
    names: Sequence[str] = ("1.2", "1.a", "1.c")
    stops = [TaskStopRequested(task_id=f"{batch_id}.{name}", reason="user") for name in names]
    yield life.said("dispatcher", *stops)
    yield life.ended("1.a", 1, end="cancelled")
    yield life.said("dispatcher", BatchEnded(status=BatchStatus.STOPPED))


def unfinished(batch_id: str) -> Iterator[Decision]:
    """Returns a batch that goes on: one task trains, one waits behind it, one is queued."""
    life = Life(batch_id)
    yield from life.begun()
    yield life.submitted(0)
    yield from life.placed("1.a", 1)
    yield from life.placed("1.c", 1, accepted=False, behind=True)
