"""Points reported to Kafka are seen over HTTP at the indexer, and jobs are loaded by command."""

import pytest

from tests.integration.summary_indexer.harness import Sandbox, batch, publish
from tests.integration.summary_indexer.watched import publish_command
from trackside.aggregates.summary.messages import CacheTrainJob, SummarizedTask, task_job_id
from trackside.eventlog.kafka.kafka_log import KafkaLog


@pytest.mark.usefixtures("own_runs")
async def test_points_that_are_reported_are_seen_over_http_and_jobs_loaded_by_command(
    sandbox: Sandbox, log: KafkaLog
) -> None:
    """S5, S7, S24."""
    indexer = await sandbox.indexer().start()

    await indexer.until("/ready", lambda answer: answer.get("index") == "INVALID")
    await publish(log, sandbox.topics, "s.1", batch("s.1", 0))
    scalars = "/summaries/scalars?job=s.1&tag=loss"
    await indexer.until(scalars, lambda answer: len(answer["curves"][0]["steps"]) == 20)
    assert (await indexer.get("/summaries/jobs"))[1]["jobs"][0]["cache_status"] == "NOT_IN_CACHE"
    cache = CacheTrainJob(task=SummarizedTask(stream="s", task="s.1"))
    await publish_command(log, sandbox, task_job_id("s.1"), cache)
    await indexer.until("/summaries/jobs/s.1", lambda answer: answer["cache_status"] == "CACHED")
    await publish(log, sandbox.topics, "s.1", batch("s.1", 20))
    await indexer.until(scalars, lambda answer: len(answer["curves"][0]["steps"]) == 40)
    await indexer.until("/ready", lambda answer: answer["index"] == "DONE")
