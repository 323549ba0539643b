"""The log of services that really ran, on a real Kafka: nothing is found; what is planted then is."""

import asyncio
import random

import pytest

from tests.integration.verify.running_services import STREAM, WORKERS, running, search, until, until_joined
from tests.stack import Servers
from tests.unit.projections.given import SCHEDULER, WORKER
from trackside.cli.app import call
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.verify.log import verify_topics

TRIALS = 12


@pytest.fixture
def topics(topic_prefix: str) -> Topics:
    """Returns topics of the test's own."""
    return Topics(prefix=topic_prefix, event_partitions=3)


async def test_a_real_run_has_no_findings_and_what_is_planted_is_found(
    stack: Servers,
    topics: Topics,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with KafkaLog(stack.kafka_bootstrap, client_id="verify-test") as log:
        await log.ensure(topics.shared)
        command = search(TRIALS)
        publisher = RecordWriter("publisher", "test")
        async with running(log, topics, random.Random(seed)):
            await until_joined(log, topics, WORKERS)
            await log.publish(topics.commands.name, 1, publisher.single(STREAM, command, message_id="c-1"))
            await until(log, topics, lambda stream: stream.closed)
        verdict = await verify_topics(log, topics)
        assert verdict.findings == []
        assert verdict.checked["INV-3"] >= TRIALS
        assert verdict.checked["INV-8"] == 1
        assert verdict.checked["INV-5"] > verdict.checked["INV-3"]  # with the commands to devices
        await plant(log, topics)
        found = await verify_topics(log, topics)
        assert [finding.invariant for finding in found.findings] == ["INV-5"]
        monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", stack.kafka_bootstrap)
        monkeypatch.setenv("TRACKSIDE_TOPIC_PREFIX", topics.prefix)
    assert await asyncio.to_thread(call, ["verify-log"]) == 1
    said = capsys.readouterr().out
    assert f"INV-5 {topics.device('w0', 'cpu-0').name}-0@" in said
    assert await asyncio.to_thread(call, ["verify-log", "nobody"]) == 2
    assert "no stream nobody" in capsys.readouterr().err


async def plant(log: KafkaLog, topics: Topics) -> None:
    """Appends what doesn't count, and a command to a device that nobody decided."""
    task_id = f"{STREAM}.0"
    token = {"task_id": task_id, "attempt": 9, "placement": 1, "incarnation": "nobody's"}
    late = AttemptEnded.model_validate({**token, "end": AttemptEnd.FINISHED})
    place = (topics.events.name, partition_of(STREAM, topics.event_partitions))
    await log.append(*place, [WORKER.single(STREAM, late)])
    sent = RunTask.model_validate(
        {**token, "stream": STREAM, "task_type": "noop", "parameters": {}, "device_ids": ["cpu-0"]}
    )
    await log.publish(topics.device("w0", "cpu-0").name, 0, SCHEDULER.single(task_id, sent))
