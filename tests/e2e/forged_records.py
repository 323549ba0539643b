"""Records as a stranger with a plain Kafka producer would write them, each with a plausible envelope."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.keys import keys_stream
from trackside.contracts.trust.decision_signing import SIGNATURE
from trackside.eventlog.keys.decision_signer import DecisionSigner, new_signer
from trackside.eventlog.log import Outgoing

EVENTS, FLEET, COMMANDS = "trackside.events", "trackside.fleet", "trackside.commands"
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
    def stream(self) -> str:
        """The search that it is of."""
        return self.task_id.rpartition(".")[0]

    @property
    def token(self) -> dict[str, Any]:
        """The fields that name its placement."""
        return {"task_id": self.task_id, "attempt": 1, "placement": 1}


@dataclass(frozen=True)
class Seen:
    """What a stranger has read of the topics before: a task of each search, and an old record of `honest`.

    Nothing that is forged changes that search; what could change one names `victim`.
    """

    honest_task: RunningTask
    victim_task: RunningTask
    old: ForgedRecord
    device_topic: str
    wrong_partition: int

    @property
    def honest(self) -> str:
        """The search that nothing changes."""
        return self.honest_task.stream

    @property
    def victim(self) -> str:
        """The search that may be changed."""
        return self.victim_task.stream


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


def told(task: RunningTask, kind: str, body: Any, **more: str) -> ForgedRecord:
    """Returns an event of a worker about a task that runs."""
    cause = f"{task.stream}@{task.assigned_at}"
    return event(task.stream, "worker", kind, {**task.token, **body}, cause=cause, **more)


def final(task: RunningTask, placement: int, instance: str) -> ForgedRecord:
    """Returns a FINAL value of a task."""
    body = {"placement": placement, "kind": "FINAL", "step": 9, "value": 1.0}
    return told(task, "metric-reported.v1", body, instance=instance)


def ended(task: RunningTask, incarnation: str, sequence: str) -> ForgedRecord:
    """Returns the end of an attempt."""
    body = {"incarnation": incarnation, "end": "finished", "result": {}}
    return told(task, "attempt-ended.v1", body, instance="worker", sequence=sequence)


def assigned(task: RunningTask) -> ForgedRecord:
    """Returns an assignment of a task that runs, to a device of another worker."""
    where = {"worker_id": "w9", "incarnation": "i9", "device_ids": ["cpu-0"], "seen": 1}
    return event(task.stream, "scheduler", "task-assigned.v1", {**task.token, **where})


def joined(incarnation: str) -> ForgedRecord:
    """Returns the join of a worker without devices and without task types."""
    body: dict[str, Any] = {"worker_id": "ghost", "incarnation": incarnation, "host": "ghost"}
    body |= {"devices": [], "task_types": [], "queues": ["default"], "after": {}}
    return record(FLEET, "ghost", "worker", "worker-joined.v1", body, instance="ghost", sequence="000000001")


def lost(role: str, incarnation: str) -> ForgedRecord:
    """Returns the loss of the stack's worker."""
    body = {"worker_id": "worker", "incarnation": incarnation, "silent_ms": 20_000}
    return record(FLEET, "worker", role, "worker-lost.v1", body)


def heartbeat() -> ForgedRecord:
    """Returns a sign of life of the stack's worker under an incarnation that never joined."""
    body: dict[str, Any] = {"worker_id": "worker", "incarnation": "i9", "running": []}
    return record("trackside.heartbeats", "worker", "worker", "worker-heartbeat.v1", body, instance="worker")


def for_device(seen: Seen, kind: str, incarnation: str, **more: Any) -> ForgedRecord:
    """Returns a command to the device of the honest task."""
    task = seen.honest_task
    body = {**task.token, "stream": task.stream, "incarnation": incarnation, **more}
    return record(seen.device_topic, task.task_id, "scheduler", kind, body)


def of_no_task(seen: Seen, topic: str, kind: str, **body: Any) -> ForgedRecord:
    """Returns a record of a worker about a task that does not exist."""
    task_id = f"{seen.honest}.77"
    named = {"stream": seen.honest, "task_id": task_id, "attempt": 1}
    return record(f"trackside.{topic}", task_id, "worker", kind, named | body)


def dead_letter() -> ForgedRecord:
    """Returns a dead letter of a record that was never published."""
    source = {"topic": COMMANDS, "partition": 0, "offset": 900_000}
    body = {"source": source, "code": "not_json", "message": "m", "reader": "dispatcher"}
    body |= {"sha256": "0" * 64, "head_base64": ""}
    return record("trackside.dead-letters", "x", "dispatcher", "record-dead-lettered.v1", body)


def stop(stream: str, role: str = "dispatcher") -> ForgedRecord:
    """Returns an event that stops a search."""
    return event(stream, role, "search-stop-requested.v1", {"command_id": "forged", "reason": "tired"})


def ended_trial(stream: str, **more: str) -> ForgedRecord:
    """Returns the end of a trial whose task runs."""
    body = {"trial": 0, "status": "SUCCEEDED", "value": 1.0}
    return event(stream, "dispatcher", "trial-ended.v1", body, **more)


def about_keys(seen: Seen, kind: str, **fields: str | int) -> ForgedRecord:
    """Returns an event about the keys of the partition of the honest search."""
    count = Topics().event_partitions
    partition = partition_of(seen.honest, count)
    body = {"topic": EVENTS, "partition": partition, **fields}
    return event(keys_stream(partition, count), "setup", kind, body, cause="")


def trusted_key(seen: Seen) -> ForgedRecord:
    """Returns an event that makes a new key that of the installation, signed with that key."""
    signer = new_signer()
    named = {"key_id": signer.key_id, "public_key": signer.public_key.hex(), "role": "setup"}
    return about_keys(seen, "key-trusted.v1", **named).signed_with(signer)
