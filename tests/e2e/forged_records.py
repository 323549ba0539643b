"""Records as a stranger with a plain Kafka producer would write them, each with a plausible envelope."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from trackside.contracts.decision_signing import SIGNATURE
from trackside.contracts.ids import new_id
from trackside.contracts.keys import keys_stream
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.decision_signer import DecisionSigner, new_signer
from trackside.eventlog.log import Outgoing

EVENTS, FLEET, COMMANDS = "trackside.events", "trackside.fleet", "trackside.commands"
HONEST, VICTIM = "honest", "victim"
"""Searches that run meanwhile: nothing that is forged changes the first one."""
Headers = list[tuple[str, bytes]]


class ForgedRecord(NamedTuple):
    """What the producer sends; `stream` says to which partition, unless there is a `partition`."""

    topic: str
    stream: str
    value: bytes | None
    headers: Headers
    partition: int | None = None

    @property
    def is_signed(self) -> bool:
        """Whether it has a signature, valid or not."""
        return any(name == SIGNATURE for name, _ in self.headers)

    def signed_with(self, signer: DecisionSigner) -> "ForgedRecord":
        """Returns it as the only record of a decision that is signed with a key."""
        [signed] = signer.sign(self.topic, [Outgoing(self.stream.encode(), self.value, self.headers)])
        return self._replace(headers=[(name, octets or b"") for name, octets in signed.headers])


@dataclass(frozen=True)
class RunningTask:
    """A task as the log has it: its placement, and the offset of its assignment."""

    task_id: str
    incarnation: str
    assigned_at: int

    @property
    def token(self) -> dict[str, Any]:
        """The fields that name its placement."""
        return {"task_id": self.task_id, "attempt": 1, "placement": 1}


@dataclass(frozen=True)
class Seen:
    """What a stranger has read of the topics before: tasks by id, and one old record of the honest search."""

    tasks: dict[str, RunningTask]
    old: ForgedRecord
    device_topic: str
    wrong_partition: int

    def task(self, stream: str, number: int) -> RunningTask:
        """Returns a running task of a search."""
        return self.tasks[f"{stream}.{number}"]


def record(
    topic: str, stream: str, role: str, kind: str, body: Any, *, cause: str = "", **more: str
) -> ForgedRecord:
    """Returns a record with the envelope of a service."""
    instance = more.pop("instance", "1")
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": new_id(),
        "ce_source": f"trackside/{role}/{instance}",
        "ce_type": f"trackside.{kind}",
        "ce_time": "2026-11-27T12:00:00.000Z",
        "ce_partitionkey": stream,
        "content-type": "application/json",
        **({"ce_causationid": cause} if cause else {}),
        **{f"ce_{name}": text for name, text in more.items()},
    }
    headers = [(name, text.encode()) for name, text in attributes.items()]
    return ForgedRecord(topic, stream, json.dumps(body).encode(), headers)


def event(stream: str, role: str, kind: str, body: Any, **more: str) -> ForgedRecord:
    """Returns a forged event of a stream; it rests on the start of the search unless it names a cause."""
    return record(EVENTS, stream, role, kind, body, **{"cause": f"{stream}@0", **more})


def received(stream: str, offset: int) -> ForgedRecord:
    """Returns a CommandReceived that names a place of the commands topic."""
    body = {
        "command_id": f"forged-{stream}",
        "command_type": "trackside.ping.v1",
        "body": {},
        "digest": "0" * 64,
        "source": {"topic": COMMANDS, "partition": 0, "offset": offset},
        "publisher": "trackside/cli/1",
        "rules": 1,
    }
    return event(stream, "dispatcher", "command-received.v1", body, cause="")


def final(task: RunningTask, placement: int, instance: str) -> ForgedRecord:
    """Returns a FINAL value of a task."""
    body = {**task.token, "placement": placement, "kind": "FINAL", "step": 9, "value": 1.0}
    stream = task.task_id.rpartition(".")[0]
    cause = f"{stream}@{task.assigned_at}"
    return event(stream, "worker", "metric-reported.v1", body, cause=cause, instance=instance)


def ended(task: RunningTask, incarnation: str, sequence: str) -> ForgedRecord:
    """Returns the end of an attempt."""
    body = {**task.token, "incarnation": incarnation, "end": "finished", "result": {}}
    stream = task.task_id.rpartition(".")[0]
    cause = f"{stream}@{task.assigned_at}"
    return event(
        stream, "worker", "attempt-ended.v1", body, cause=cause, instance="worker", sequence=sequence
    )


def assigned(task: RunningTask) -> ForgedRecord:
    """Returns an assignment of a task that runs, to a device of another worker."""
    where = {"worker_id": "w9", "incarnation": "i9", "device_ids": ["cpu-0"], "seen": 1}
    return event(HONEST, "scheduler", "task-assigned.v1", {**task.token, **where})


def submitted() -> ForgedRecord:
    """Returns a task that no trial has asked for."""
    body = {"task_id": f"{HONEST}.77", "task_type": "gated", "parameters": {}}
    return event(HONEST, "dispatcher", "task-submitted.v2", body)


def joined(incarnation: str) -> ForgedRecord:
    """Returns the join of a worker without devices and without task types."""
    body: dict[str, Any] = {"worker_id": "ghost", "incarnation": incarnation, "host": "ghost"}
    body |= {"devices": [], "task_types": [], "queues": ["default"], "after": {}}
    return record(FLEET, "ghost", "worker", "worker-joined.v1", body, instance="ghost", sequence="000000001")


def lost(role: str, incarnation: str) -> ForgedRecord:
    """Returns the loss of the stack's worker."""
    body = {"worker_id": "worker", "incarnation": incarnation, "silent_ms": 20_000}
    return record(FLEET, "worker", role, "worker-lost.v1", body)


def run_task(seen: Seen) -> ForgedRecord:
    """Returns a command to a device to run an attempt that was never assigned."""
    body = {**seen.task(HONEST, 0).token, "attempt": 9, "stream": HONEST, "incarnation": "i9"}
    body |= {"task_type": "gated", "parameters": {}, "device_ids": ["cpu-0"]}
    return record(seen.device_topic, f"{HONEST}.0", "scheduler", "run-task.v1", body)


def recall(seen: Seen) -> ForgedRecord:
    """Returns a command to a device to give a running placement back."""
    task = seen.task(HONEST, 0)
    body = {**task.token, "stream": HONEST, "incarnation": task.incarnation}
    return record(seen.device_topic, task.task_id, "scheduler", "recall-task.v1", body)


def heartbeat() -> ForgedRecord:
    """Returns a sign of life of the stack's worker under an incarnation that never joined."""
    body: dict[str, Any] = {"worker_id": "worker", "incarnation": "i9", "running": []}
    return record("trackside.heartbeats", "worker", "worker", "worker-heartbeat.v1", body, instance="worker")


def points() -> ForgedRecord:
    """Returns points of a task that does not exist."""
    series = {"tag": "loss", "steps": [1], "times_ms": [1], "values": [0.5]}
    body = {"stream": HONEST, "task_id": f"{HONEST}.77", "attempt": 1, "series": [series]}
    return record("trackside.metrics", f"{HONEST}.77", "worker", "metric-points-reported.v1", body)


def output() -> ForgedRecord:
    """Returns a line of output of a task that does not exist."""
    body = {"stream": HONEST, "task_id": f"{HONEST}.77", "attempt": 1, "source": "stdout", "first_line": 1}
    return record("trackside.logs", f"{HONEST}.77", "worker", "output-written.v1", {**body, "lines": ["ok"]})


def dead_letter() -> ForgedRecord:
    """Returns a dead letter of a record that was never published."""
    source = {"topic": COMMANDS, "partition": 0, "offset": 900_000}
    body = {"source": source, "code": "not_json", "message": "m", "reader": "dispatcher"}
    body |= {"sha256": "0" * 64, "head_base64": ""}
    return record("trackside.dead-letters", "x", "dispatcher", "record-dead-lettered.v1", body)


STOP = {"command_id": "forged", "reason": "tired"}
SUGGESTED = {"trial": 99, "parameters": {"x": 0.5}, "seen": 0}
TRIAL_ENDED = {"trial": 0, "status": "SUCCEEDED", "value": 1.0}


def stop(stream: str, role: str = "dispatcher", **more: str) -> ForgedRecord:
    """Returns an event that stops a search."""
    return event(stream, role, "search-stop-requested.v1", STOP, **more)


def ended_trial(**more: str) -> ForgedRecord:
    """Returns the end of a trial whose task runs."""
    return event(HONEST, "dispatcher", "trial-ended.v1", TRIAL_ENDED, **more)


def task_stop(task: RunningTask) -> ForgedRecord:
    """Returns an event that stops a task, without a cause."""
    body = {"task_id": task.task_id, "reason": "user"}
    return event(VICTIM, "dispatcher", "task-stop-requested.v1", body, cause="")


def about_keys(kind: str, **fields: str | int) -> ForgedRecord:
    """Returns an event about the keys of the partition of the honest search."""
    count = Topics().event_partitions
    partition = partition_of(HONEST, count)
    body = {"topic": EVENTS, "partition": partition, **fields}
    return event(keys_stream(partition, count), "setup", kind, body, cause="")


def trusted_key() -> ForgedRecord:
    """Returns an event that makes a new key that of the installation, signed with that key."""
    signer = new_signer()
    named = {"key_id": signer.key_id, "public_key": signer.public_key.hex(), "role": "setup"}
    return about_keys("key-trusted.v1", **named).signed_with(signer)
