"""Given histories of batches, as services write them; the fold applies all their events."""

from collections.abc import Iterator, Sequence
from typing import Any

from trackside.aggregates.batch.messages import (
    BatchEnded,
    BatchSpec,
    BatchStarted,
    BatchStatus,
    BatchStopRequested,
    GroupEnded,
    needs_of,
    task_name,
)
from trackside.contracts.envelope.ids import batch_task_id
from trackside.contracts.envelope.message import Json, Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, Source
from trackside.contracts.tasks import tasks
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Outgoing

Decision = list[Outgoing]
WRITERS = {role: RecordWriter(role, "1") for role in ("dispatcher", "scheduler", "worker")}
ERROR: Json = {"stage": "TRAIN", "type": "OutOfMemoryError", "message": "CUDA out of memory\x00"}
TASKS: list[Json] = [
    {"name": "a", "task_type": "digits", "parameters": {"lr": 0.1}, "priority": 9},
    {"task_type": "digits", "queue_timeout_s": 60.0},
    {"name": "c", "task_type": "faces", "resources": {"estimate_cuda_memory": "2GB"}},
]
WARM_UP: Json = {"name": "warm-up", "device": "gpu0", "estimate_memory": "1GiB", "tasks": TASKS}
GROUPS = [WARM_UP, {"tasks": [{"task_type": "digits"}]}]
SPEC = BatchSpec.model_validate({"name": "compare", "concurrency": 3, "groups": GROUPS})


class BatchWriter:
    """Makes the events of one batch, one decision each unless several are given at once."""

    def __init__(self, batch_id: str, spec: BatchSpec = SPEC) -> None:
        self.batch_id = batch_id
        self.spec = spec

    def decision(self, role: str, *messages: Message) -> Decision:
        return WRITERS[role].decision(self.batch_id, messages)

    def started(self) -> Iterator[Decision]:
        source = Source(topic="trackside.commands", partition=0, offset=0)
        command = {"command_id": f"{self.batch_id}-start", "source": source}
        said = {"command_type": "trackside.submit-tasks.v1", "body": {}, "digest": "d", "publisher": "cli"}
        received = CommandReceived.model_validate({**command, **said, "rules": 1})
        yield self.decision("dispatcher", received)
        accepted = CommandAccepted.model_validate(command)
        started = BatchStarted(command_id=received.command_id, batch=self.spec)
        yield self.decision("dispatcher", accepted, started)

    def submitted(self, group: int) -> Decision:
        listed = self.spec.groups[group]
        events = []
        for number, task in enumerate(listed.tasks):
            name = task_name(task, number)
            part, needs = Part(kind="group", number=group, name=name), needs_of(self.spec, listed, task)
            what: Any = {"task_type": task.task_type, "parameters": task.parameters, "needs": needs}
            task_id = batch_task_id(self.batch_id, group, name)
            events.append(tasks.TaskSubmitted(task_id=task_id, part=part, **what))
        return self.decision("dispatcher", *events)

    def placed(
        self, task: str, placement: int, attempt: int = 1, accepted: bool = True, **more: Any
    ) -> Iterator[Decision]:
        reserved = {"memory_bytes": 2**30, "cuda_memory_bytes": 2**31, "estimated_by": "group"}
        where = {"worker_id": "w2", "device_ids": ["cpu0", "cpu1"], "seen": 0, "reserved": reserved}
        token = self.token(task, placement, attempt)
        yield self.decision("scheduler", tasks.TaskAssigned.model_validate({**token, **where, **more}))
        if accepted:
            yield self.decision("worker", tasks.TaskAccepted.model_validate(token))

    def token(self, task: str, placement: int, attempt: int = 1) -> Json:
        task_id = f"{self.batch_id}.{task}"
        return {"task_id": task_id, "attempt": attempt, "placement": placement, "incarnation": "i2"}

    def adopted(self, task: str, placement: int, attempt: int, *incarnations: str) -> Iterator[Decision]:
        """Yields that the last of these incarnations of the worker adopts an attempt of the others."""
        *earlier, newest = incarnations
        token = {**self.token(task, placement, attempt), "incarnation": newest}
        adopted = tasks.AttemptAdopted.model_validate({**token, "worker_id": "w2", "earlier": earlier})
        yield self.decision("worker", adopted)

    def ended(
        self, task: str, placement: int, attempt: int = 1, end: str = "finished", incarnation: str = "i2"
    ) -> Decision:
        measured: Json = {"load_time_ms": 12, "train_time_ms": 345, "exit_code": 0}
        measured |= {"peak_memory_bytes": 2**29, "memory_measure": "own"}
        leftovers = ["sleep 60 (17)\x00"] if end == "oom_device" else []
        more: Json = {
            "peak_cuda_memory_bytes": 2**30,
            "leftovers": leftovers,
            "error": ERROR if end.startswith("oom") else None,
            "result": {"accuracy": 0.5, "file": "a\x00"} if end == "finished" else None,
        }
        token = {**self.token(task, placement, attempt), "incarnation": incarnation}
        ended = tasks.AttemptEnded.model_validate({**token, **measured, **more, "end": end})
        return self.decision("worker", ended)


def eventful_batch(batch_id: str) -> Iterator[Decision]:
    batch = BatchWriter(batch_id)
    yield from batch.started()
    yield batch.submitted(0)
    yield from batch.placed("1.a", 1, accepted=False)
    refused = {"code": "out_of_memory", "message": "1 GiB more than is free\x00"}
    yield batch.decision("worker", tasks.TaskRefused.model_validate({**batch.token("1.a", 1), **refused}))
    yield from batch.placed("1.a", 2, accepted=False, behind=True)
    yield batch.decision("worker", tasks.TaskReturned.model_validate(batch.token("1.a", 2)))
    yield from batch.placed("1.a", 3)
    asked = {**batch.token("1.a", 3), "by": f"{batch_id}.1.2"}
    yield batch.decision("scheduler", tasks.TaskPreemptionRequested.model_validate(asked))
    yield batch.ended("1.a", 3, end="preempted")
    yield from batch.placed("1.a", 4)
    yield from _interrupted(batch, "1.a", 4)
    yield batch.ended("1.a", 4, end="oom_device")
    # On devices of its own: what the end under another incarnation leaves is used by no other task of i2.
    yield from batch.placed("1.a", 1, attempt=2, device_ids=["cpu2", "cpu3"])
    yield from batch.adopted("1.a", 1, 2, "i2", "i3")
    yield from batch.adopted("1.a", 1, 2, "i2", "i3", "i4\x00")
    yield batch.ended("1.a", 1, attempt=2, incarnation="i4\x00")
    unschedulable = {"task_id": f"{batch_id}.1.2", "attempt": 1, "number": 1, "message": "too large\x00"}
    yield batch.decision("scheduler", tasks.TaskUnschedulable.model_validate(unschedulable))
    yield batch.decision("dispatcher", tasks.TaskStopRequested(task_id=f"{batch_id}.1.2", reason="user"))
    yield from batch.placed("1.c", 1)
    yield batch.ended("1.c", 1, end="timed_out_run")
    yield batch.decision("dispatcher", GroupEnded(group=0, ends={"cancelled": 1, "finished": 1}))
    yield batch.submitted(1)
    yield from batch.placed("2.1", 1)
    yield batch.ended("2.1", 1)
    yield batch.decision("dispatcher", GroupEnded(group=1, ends={"finished": 1}))
    yield batch.decision("dispatcher", BatchEnded(status=BatchStatus.DONE))


def _interrupted(batch: BatchWriter, task: str, placement: int) -> Iterator[Decision]:
    token = batch.token(task, placement)
    for status in (3, 4, 5):
        yield batch.decision("worker", tasks.TaskStatusChanged.model_validate({**token, "status": status}))
    point = {name: value for name, value in token.items() if name != "incarnation"} | {"kind": "PERIODICAL"}
    yield batch.decision("worker", tasks.MetricReported.model_validate({**point, "step": 1, "value": 0.25}))
    raised = {"cuda_memory_bytes": 3 * 2**30, "estimated_by": "raised"}
    happened = {"interrupt": 1, "resource": "device", "reserved": raised, "error": ERROR}
    yield batch.decision("worker", tasks.TaskInterrupted.model_validate({**token, **happened}))
    resumed = {**token, "status": 5, "interrupts": 1}
    yield batch.decision("worker", tasks.TaskStatusChanged.model_validate(resumed))
    point |= {"interrupts": 1, "step": 1, "value": 0.125}
    yield batch.decision("worker", tasks.MetricReported.model_validate(point))


def stopped_batch(batch_id: str) -> Iterator[Decision]:
    batch = BatchWriter(batch_id)
    yield from batch.started()
    yield batch.submitted(0)
    yield from batch.placed("1.a", 1)
    yield batch.decision("dispatcher", BatchStopRequested(command_id="stop", reason="enough\x00"))
    names: Sequence[str] = ("1.2", "1.a", "1.c")
    stops = [tasks.TaskStopRequested(task_id=f"{batch_id}.{name}", reason="user") for name in names]
    yield batch.decision("dispatcher", *stops)
    yield batch.ended("1.a", 1, end="cancelled")
    yield batch.decision("dispatcher", BatchEnded(status=BatchStatus.STOPPED))


def unfinished_batch(batch_id: str) -> Iterator[Decision]:
    """Yields an unfinished batch: one task trains, one waits on the same device, one is queued."""
    batch = BatchWriter(batch_id)
    yield from batch.started()
    yield batch.submitted(0)
    yield from batch.placed("1.a", 1)
    yield from batch.placed("1.c", 1, accepted=False, behind=True)
