"""A log whose writers sign, with a forger that writes each decision first, without a signature."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from tests.unit.projections.given import write_small_history
from tests.unit.replay.given import TOPICS, Clock
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import CommandReceived
from trackside.eventlog.keys.installation_keys import set_up_keys
from trackside.eventlog.keys.key_folder import KeyFolder
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog

SIGNED = (TOPICS.events.name, TOPICS.fleet.name)
FORGED = "forged"
"""A stream that only the forger has written."""


class ForgedLog(MemoryLog):
    """Signs what is appended to the events and the fleet once it has keys.

    `forged` are the events of the forger, which has an id of its own for each.
    """

    def __init__(self) -> None:
        super().__init__(Clock())
        self.keys: KeyFolder | None = None
        self.forged: list[Outgoing] = []
        self.workers: dict[str, str] = {}

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch, signed; before that what the forger makes of it."""
        if self.keys is None or topic not in SIGNED or _is_by(batch[0], "setup"):
            return await super().append(topic, partition, batch)
        own = [self._by_its_worker(record) for record in batch]
        forged = [_with_headers(record, {"ce_id": b"forged-%d" % len(self.forged)}) for record in own]
        self.forged += forged
        await super().append(topic, partition, forged)
        decisions = groupby(own, lambda record: dict(record.headers).get("ce_decisionid") or id(record))
        signed = [each for _, decision in decisions for each in self._signed(topic, list(decision))]
        return await super().append(topic, partition, signed)

    def _by_its_worker(self, record: Outgoing) -> Outgoing:
        body = json.loads(record.value or b"{}")
        if "incarnation" in body and "worker_id" in body:
            self.workers[body["incarnation"]] = body["worker_id"]
        if not _is_by(record, "worker"):
            return record
        worker = self.workers.get(body.get("incarnation", ""), "w1")
        return _with_headers(record, {"ce_source": f"trackside/worker/{worker}".encode()})

    def _signed(self, topic: str, decision: list[Outgoing]) -> list[Outgoing]:
        assert self.keys is not None
        _, role, instance = (dict(decision[0].headers)["ce_source"] or b"").decode().split("/")
        return self.keys.make(f"worker-{instance}" if role == "worker" else role).sign(topic, decision)


def _is_by(record: Outgoing, role: str) -> bool:
    return (dict(record.headers)["ce_source"] or b"").startswith(f"trackside/{role}/".encode())


def _with_headers(record: Outgoing, changed: dict[str, bytes]) -> Outgoing:
    headers = [(name, changed.get(name, octets)) for name, octets in record.headers]
    return replace(record, headers=headers)


async def forged_log(folder: Path) -> ForgedLog:
    """Returns a log with the small history, signed, among forged copies; signatures are required."""
    log = ForgedLog()
    await log.ensure(TOPICS.shared)
    await set_up_keys(log, TOPICS, KeyFolder(folder), ["w1", "w2"], require=True)
    log.keys = KeyFolder(folder)
    await write_small_history(log, TOPICS)
    received = ("ce_type", CommandReceived.wire_type().encode())
    command = next(record for record in log.forged if received in record.headers)
    alone = _with_headers(command, {"ce_partitionkey": FORGED.encode()})
    await MemoryLog.append(log, TOPICS.events.name, partition_of(FORGED, TOPICS.event_partitions), [alone])
    return log
