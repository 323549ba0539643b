"""Points reported to Kafka are seen over HTTP at the indexer, and jobs are loaded by command."""

import json
import urllib.error
import urllib.request
from typing import Any

from tests.integration.summary_indexer.harness import IndexerProcess, Sandbox, batch, publish
from tests.polling import poll_until
from trackside.aggregates.summary.messages import CacheTrainJob, SummarizedTask, task_job_id
from trackside.contracts.commands import CommandAccepted, CommandReceived, Source
from trackside.contracts.topics import partition_of
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.record_writer import RecordWriter

DISPATCHER = RecordWriter("dispatcher", "d1")


async def test_points_that_are_reported_are_seen_over_http_and_jobs_loaded_by_command(
    sandbox: Sandbox, log: KafkaLog
) -> None:
    """S5, S7, S24."""
    await log.ensure([sandbox.topics.events])
    indexer = await sandbox.indexer().start()

    async def is_empty() -> bool:
        return "health_port" in indexer.output and (await indexer.ready())[1].get("index") == "INVALID"

    await poll_until(is_empty)
    await publish(log, sandbox.topics, "s.1", batch("s.1", 0))

    async def is_seen() -> bool:
        status, answer = fetch(indexer, "/summaries/scalars?job=s.1&tag=loss")
        return status == 200 and len(answer["curves"][0]["steps"]) == 20

    await poll_until(is_seen)
    assert fetch(indexer, "/summaries/jobs")[1]["jobs"][0]["cache_status"] == "NOT_IN_CACHE"
    await publish_cache_command(log, sandbox, "s.1", "refused", accepted=False)
    task = SummarizedTask(stream="s", task="s.1")
    await publish_cache_command(log, sandbox, task_job_id("s.1"), "c1", accepted=True, task=task)

    async def is_cached() -> bool:
        return bool(fetch(indexer, "/summaries/jobs/s.1")[1]["cache_status"] == "CACHED")

    await poll_until(is_cached)
    await publish(log, sandbox.topics, "s.1", batch("s.1", 20))

    async def is_extended() -> bool:
        return len(fetch(indexer, "/summaries/scalars?job=s.1")[1]["curves"][0]["steps"]) == 40

    await poll_until(is_extended)

    async def is_done() -> bool:
        return bool((await indexer.ready())[1]["index"] == "DONE")

    await poll_until(is_done)


def fetch(indexer: IndexerProcess, path: str) -> tuple[int, Any]:
    """Returns status and JSON of a page of a running indexer."""
    port = next(line["health_port"] for line in map(json.loads, indexer.output.splitlines()))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


async def publish_cache_command(
    log: KafkaLog,
    sandbox: Sandbox,
    stream: str,
    command_id: str,
    *,
    accepted: bool,
    task: SummarizedTask | None = None,
) -> None:
    """Appends the events by which the dispatcher takes in a command, and accepts it or not yet."""
    source = Source(topic="commands", partition=0, offset=0)
    received = CommandReceived(
        command_id=command_id,
        command_type=CacheTrainJob.wire_type(),
        body=CacheTrainJob(task=task).model_dump(mode="json"),
        digest="",
        source=source,
        publisher="test",
        rules=1,
    )
    events = [received, CommandAccepted(command_id=command_id, source=source)]
    topic = sandbox.topics.events
    for record in DISPATCHER.decision(stream, events if accepted else events[:1]):
        await log.publish(topic.name, partition_of(stream, topic.partitions), record)
