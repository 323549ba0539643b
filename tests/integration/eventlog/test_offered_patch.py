"""The patch offered to aiokafka: it applies to the installed release, which then fetches in sessions."""

import asyncio
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree, which

import pytest

from tests.house.source import ROOT
from tests.stack import Servers
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Outgoing

PATCH = ROOT / "docs/upstream/aiokafka-fetch-sessions.patch"
READ = """
import asyncio, sys
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.consumer.fetch_sessions import SessionFetchRequest

named, build = [], SessionFetchRequest.build
def recorded(self, version):
    request = build(self, version)
    named.append(sum(len(parts) for _, parts in request.topics))
    return request
SessionFetchRequest.build = recorded

async def read():
    bootstrap, topic = sys.argv[1:]
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=100)
    await consumer.start()
    partitions = [TopicPartition(topic, number) for number in range(6)]
    consumer.assign(partitions)
    await consumer.seek_to_beginning()
    values = sorted([int((await consumer.getone()).value) for _ in range(12)])
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    for number in range(12, 15):
        await producer.send_and_wait(topic, b"%d" % number, partition=2)
        values.append(int((await consumer.getone()).value))
    await producer.stop()
    await consumer.stop()
    print(values == list(range(15)), named[0], min(named))

asyncio.run(read())
"""


def _read_with_the_patch(folder: Path, stack: Servers, topic: str) -> list[str]:
    installed = find_spec("aiokafka")
    assert installed is not None and installed.origin is not None
    copytree(Path(installed.origin).parent, folder / "aiokafka")
    subprocess.run(["patch", "-p1", "--batch", "-i", str(PATCH)], cwd=folder, check=True)
    ended = subprocess.run(
        [sys.executable, "-c", READ, stack.kafka_bootstrap, topic],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.split()


@pytest.mark.long
@pytest.mark.skipif(which("patch") is None, reason="no program `patch`")
async def test_a_consumer_of_the_changed_client_reads_all_and_names_only_what_has_moved(
    stack: Servers, topic_prefix: str, tmp_path: Path
) -> None:
    topic = Topics(prefix=topic_prefix, event_partitions=6).events
    async with KafkaLog(stack.kafka_bootstrap, "patch") as log:
        await log.ensure([topic])
        for number in range(12):
            await log.append(topic.name, number % 6, [Outgoing(b"key", b"%d" % number, [])])
    everything, first, fewest = await asyncio.to_thread(_read_with_the_patch, tmp_path, stack, topic.name)
    assert (everything, first) == ("True", "6")
    assert int(fewest) <= 1
