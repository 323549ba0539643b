"""`trackside logs` as a process on a real broker: afterwards, while the task runs, and too late."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from tests.e2e.harness import UserFolder
from tests.stack import Servers
from tests.unit.cli.given import TASK, TaskStream
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.kafka import KafkaLog


@pytest.fixture
async def written(stack: Servers, topic_prefix: str) -> AsyncIterator[TaskStream]:
    async with KafkaLog(stack.kafka_bootstrap, client_id="test") as log:
        made = TaskStream(log, Topics(prefix=topic_prefix))
        await made.queued()
        await made.runs()
        yield made


@pytest.fixture
def folder(tmp_path: Path, stack: Servers, topic_prefix: str) -> UserFolder:
    addresses = {"TRACKSIDE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap, "TRACKSIDE_TOPIC_PREFIX": topic_prefix}
    return UserFolder(tmp_path, addresses)


async def test_lines_are_shown_as_they_are_written_until_the_task_has_ended(
    written: TaskStream, folder: UserFolder
) -> None:
    await written.lines(1, "before")
    following = folder.start("logs", TASK, "-f")
    assert following.stdout is not None
    try:
        assert await asyncio.to_thread(following.stdout.readline) == "before\n"
        await written.lines(2, "while it runs")
        assert await asyncio.to_thread(following.stdout.readline) == "while it runs\n"
        assert following.poll() is None
        following.send_signal(signal.SIGSTOP)  # it waits for a second at the end, the test may take longer
        await written.ends()
        await written.lines(3, "late")
        following.send_signal(signal.SIGCONT)
        rest = await asyncio.to_thread(following.stdout.read)
        assert (rest, await asyncio.to_thread(following.wait, 60)) == ("late\n", 0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            following.kill()
        following.stdout.close()
    lines = await asyncio.to_thread(folder.json_lines, "logs", TASK)
    assert [line["text"] for line in lines] == ["before", "while it runs", "late"]
    assert [line["number"] for line in lines] == [1, 2, 3]


async def test_lines_that_the_broker_has_thrown_away_are_said_to_have_expired(
    written: TaskStream, folder: UserFolder, stack: Servers
) -> None:
    await written.lines(1, "long ago")
    await written.ends()
    await _expire(stack.kafka_bootstrap, written.topics)
    ended = await asyncio.to_thread(folder.run, "logs", TASK)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the lines of digits-1.0, attempt 1, have expired" in ended.stderr
    assert "kept for 7 days" in ended.stderr and "Traceback" not in ended.stderr


async def test_a_task_that_is_not_in_the_log_is_an_error(written: TaskStream, folder: UserFolder) -> None:
    ended = await asyncio.to_thread(folder.run, "logs", "digits-1.7", "-f")
    assert ended.returncode == 1 and "there is no task digits-1.7 in the log" in ended.stderr


async def _expire(bootstrap: str, topics: Topics) -> None:
    """Does what the broker does after 7 days."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        place = TopicPartition(topics.logs.name, partition_of(TASK, topics.logs.partitions))
        await admin.delete_records({place: RecordsToDelete(1)})
    finally:
        await admin.close()
