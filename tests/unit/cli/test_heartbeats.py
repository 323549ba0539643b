from typing import Any

import pytest

from trackside.cli.runtime.heartbeats import HEARTBEATS_EACH, newest_heartbeats, read_heartbeats, with_use
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet.fleet import (
    DeviceReading,
    SchedulerHeartbeat,
    WorkerHeartbeat,
    WorkerHeartbeatDigest,
)
from trackside.domain.fleet.heartbeats import WHOLE_EVERY
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.memory import MemoryLog

TOPICS = Topics("t.")


def beat(worker_id: str, used: int) -> WorkerHeartbeat:
    readings = (DeviceReading(device_id="gpu-0", used_bytes=used, foreign_bytes=1, utilisation=40),)
    about: Any = {"incarnation": "i", "running": [], "available_bytes": 7, "cpu_percent": 12.5}
    return WorkerHeartbeat(worker_id=worker_id, devices=readings, **about)


async def log_of(*beats: WorkerHeartbeat | WorkerHeartbeatDigest | SchedulerHeartbeat) -> MemoryLog:
    log = MemoryLog()
    await log.ensure(TOPICS.shared)
    worker_id = "w1"
    for each in beats:
        if isinstance(each, SchedulerHeartbeat):
            record = RecordWriter("scheduler", "1").single("1", each)
        else:
            worker_id = each.worker_id if isinstance(each, WorkerHeartbeat) else worker_id
            record = RecordWriter("worker", worker_id).single(worker_id, each)
        await log.append(TOPICS.heartbeats.name, 0, [record])
    return log


async def test_the_newest_heartbeat_of_each_worker_at_the_end_of_the_topic_counts() -> None:
    log = await log_of(beat("w1", 1), beat("w2", 2), SchedulerHeartbeat(instance="1"), beat("w1", 3))
    found = await read_heartbeats(log, TOPICS, 2)
    assert {name: each.devices[0].used_bytes for name, each in found.items()} == {"w1": 3, "w2": 2}
    assert await read_heartbeats(await log_of(), TOPICS, 1) == {}
    log = await log_of(beat("gone", 1), *[beat("w1", number) for number in range(HEARTBEATS_EACH * 3)])
    assert set(await read_heartbeats(log, TOPICS, 1)) == {"w1"}


async def test_the_newest_digest_of_a_worker_counts_with_its_whole_heartbeat() -> None:
    whole = beat("w1", 1).model_copy(update={"sequence": 1})
    beats = [{"sequence": 2 + at, "cpu_percent": 80.0 + at} for at in range(WHOLE_EVERY - 1)]
    digests = [WorkerHeartbeatDigest.model_validate({"incarnation": "i", "whole": 1, **it}) for it in beats]
    unknown = WorkerHeartbeatDigest(incarnation="j", sequence=8, whole=5)
    found = await read_heartbeats(await log_of(unknown, whole, *digests, unknown), TOPICS, 2)
    assert set(found) == {"w1"}
    assert (found["w1"].devices[0].used_bytes, found["w1"].cpu_percent) == (1, 80.0 + WHOLE_EVERY - 2)


def row(**more: Any) -> dict[str, Any]:
    return {"worker_id": "w1", "device_id": "gpu-0", "state": "busy", **more}


def test_a_device_has_its_worker_s_word_and_one_that_is_gone_has_none() -> None:
    beats = {"w1": beat("w1", 5)}
    used = with_use(row(), beats)
    assert (used["used_bytes"], used["foreign_bytes"], used["utilisation_percent"]) == (5, 1, 40)
    assert (used["host_available_bytes"], used["host_cpu_percent"]) == (7, 12.5)
    slot = with_use(row(device_id="cpu-0"), beats)
    assert (slot["used_bytes"], slot["host_cpu_percent"]) == (None, 12.5)
    for other in (row(state="lost"), row(worker_id="w2")):
        assert set(with_use(other, beats).values()) - set(other.values()) == {None}


async def test_without_kafka_devices_are_listed_without_their_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    assert await newest_heartbeats(1) == {}
