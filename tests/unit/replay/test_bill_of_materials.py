import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import JOB, MODEL, JobLog, digest
from tests.unit.replay.given import outgoing
from trackside.contracts.envelope.message import Envelope, Json, Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet.fleet import Device, WorkerJoined
from trackside.contracts.tasks.tasks import AttemptAdopted, TaskAccepted
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import TopicPartition
from trackside.eventlog.memory import MemoryLog
from trackside.replay.causality.bill_of_materials import BillReader, bill_of_materials
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import UnknownStreamError, UnknownSubjectError

TOPICS = Topics(event_partitions=1)
CODE = "c0" * 32


async def written(job: JobLog) -> MemoryLog:
    """Writes what was told into the one partition of a log, after a worker has joined."""
    clock = iter([job.now_ms, *(record.append_time_ms for record in job.records)])
    log = MemoryLog(lambda: next(clock, job.now_ms))
    await log.ensure(TOPICS.shared)
    device = Device(device_id="cpu-0", kind="cpu", name="slot", memory_bytes=2**30)
    about: Json = {"host": "here", "task_types": ["train"], "queues": ["default"], "after": {}}
    about["digests"] = {"train": CODE}
    joined = WorkerJoined(worker_id="w1", incarnation="i-1", devices=[device], **about)
    await log.append(TOPICS.fleet.name, 0, [RecordWriter("worker", "w1").single("w1", joined)])
    await write_events(log, job.records)
    return log


async def write_events(log: MemoryLog, records: Sequence[Record]) -> None:
    for record in records:
        await log.append(TOPICS.events.name, 0, [outgoing(record)])


async def bill(log: MemoryLog, version: int, model: str = MODEL) -> Json:
    found = await bill_of_materials(log, TOPICS, partial(find_stream, log, TOPICS), model, version)
    assert json.loads(json.dumps(found)) == found
    return found


@cache
def three_rounds() -> JobLog:
    """Returns the log of a job of three rounds: better, worse, and better again."""
    job = JobLog()
    job.next_accuracy = {1: 0.75, 2: 0.5, 3: 0.875}.__getitem__
    job.create(train={"task_type": "train", "parameters": {"epochs": 3}, "check_period_s": 0})
    for _ in range(3):
        job.append(10)
        job.work()
    assert [version.number for version in job.streams.by_id[MODEL].root.versions] == [1, 2, 3, 4]
    return job


async def test_a_version_goes_back_through_its_base_models_to_the_first_one() -> None:
    found = await bill(await written(three_rounds()), 4)
    assert [each["version"] for each in found["versions"]] == [4, 3, 2, 1]
    newest, *_, first = found["versions"]
    assert newest["base"] == {"model": MODEL, "version": 3, "sha256": digest("round 2")}
    assert newest["artifact"]["sha256"] == digest("round 3")
    task = {"stream": JOB, "task": f"{JOB}.r3.train.1", "attempt": 1, "task_type": "train"}
    assert newest["code"] == {**task, "digest": CODE, "worker": "w1"}
    assert newest["parameters"]["epochs"] == 3
    assert (first["base"], first["code"], first["round"]) == (None, None, None)
    assert first["unknown"] == ["its task: the artifact is from outside"]


async def test_the_code_of_an_attempt_is_known_whose_acceptance_was_never_in_the_log() -> None:
    accepted, adopted = three_rounds(), JobLog()
    adopted.now_ms, adopted.records = accepted.now_ms, [adopted_first(each) for each in accepted.records]
    for number in (2, 3):
        found = await bill(await written(adopted), number)
        assert found["versions"][0]["code"]["digest"] == CODE
        assert found == await bill(await written(accepted), number)


def adopted_first(record: Record) -> Record:
    """Returns a record of a log in which each worker ends before it accepts, and the next one adopts."""
    message: Any = record.message
    if record.envelope.role != "worker" or not hasattr(message, "incarnation"):
        return record
    headers = dict(record.envelope.headers)
    if isinstance(message, TaskAccepted):
        token = message.model_dump(include={"task_id", "attempt", "placement"})
        message = AttemptAdopted(**token, worker_id="w1", incarnation="i-2", earlier=(message.incarnation,))
        headers["ce_type"] = AttemptAdopted.wire_type().encode()
    else:
        message = message.model_copy(update={"incarnation": "i-2"})
    return replace(record, message=message, envelope=Envelope(headers))


async def test_a_reader_of_bills_reads_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobLog()
    job.next_accuracy = {1: 0.75, 2: 0.875}.__getitem__
    job.create(train={"task_type": "train", "parameters": {"epochs": 3}, "check_period_s": 0})
    job.append(10)
    job.work()
    log = await written(job)
    reader = BillReader(log, TOPICS, partial(find_stream, log, TOPICS))
    assert await reader.bill(MODEL, 2) == await bill(log, 2)
    with pytest.raises(UnknownSubjectError):
        await reader.bill(MODEL, 3)
    known = len(job.records)
    job.append(10)
    job.work()
    await write_events(log, job.records[known:])
    expected = await bill(log, 3)
    begins = list[int]()
    monkeypatch.setattr(log, "reader", partial(_noted, begins, log.reader))
    assert await reader.bill(MODEL, 3) == expected
    assert begins and min(begins) >= known


def _noted(begins: list[int], reader: Callable[[Mapping[TopicPartition, int]], Any], at: Any) -> Any:
    begins += [offset for (topic, _), offset in at.items() if topic == TOPICS.events.name]
    return reader(at)


async def test_the_samples_of_a_round_have_their_ranges_and_the_numbers_that_decided_are_there() -> None:
    versions = (await bill(await written(three_rounds()), 4))["versions"]
    newest = versions[0]
    samples = newest["round"]["samples"]
    assert (newest["round"]["job"], newest["round"]["number"]) == (JOB, 3)
    assert samples["train"]["ranges"] == [[20, 30]]
    assert samples["train"]["lines"] == 8
    assert samples["train"]["sha256"] == newest["inputs"]["samples"]["sha256"]
    assert samples["train"]["end"] == {"size": 300, "sha256": digest("first 30")}
    assert samples["train"]["dataset"]["url"] == "/srv/feed.txt"
    assert samples["eval"]["lines"] == 6
    assert samples["eval"]["ranges"] == [[0, 10], [10, 20], [20, 30]]
    decided = [each["round"]["decisions"][0] for each in versions[:-1]]
    assert [each["deploy"] for each in decided] == [True, False, True]
    assert decided[0]["trained"] == {"accuracy": 0.875}
    assert decided[0]["deployed"] == {"accuracy": 0.75}
    assert decided[0]["conditions"][0]["threshold"] == 0.1
    assert [len(each["round"]["live_ms"]) for each in versions[:-1]] == [1, 0, 1]


async def test_a_version_or_a_model_that_does_not_exist_is_named() -> None:
    log = await written(three_rounds())
    with pytest.raises(UnknownSubjectError, match=f"model {MODEL} has no version 9; it has 4"):
        await bill(log, 9)
    with pytest.raises(UnknownStreamError, match="there is no stream 'other'"):
        await bill(log, 1, "other")
