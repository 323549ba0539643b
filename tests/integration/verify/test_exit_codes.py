"""The exit codes of `trackside verify-log`: the log holds, it doesn't, bad usage, it can't be read."""

import asyncio
import json

import pytest

from tests.stack import Servers
from tests.unit.projections.given import DISPATCHER, command_received, write_small_history
from trackside.cli.app import call
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.eventlog.kafka.kafka_log import KafkaLog

CLOSED = "127.0.0.1:1"


async def write_log(bootstrap: str, topics: Topics, *, forged: bool = False) -> None:
    """Writes a small history, or to it a command that nobody has published."""
    async with KafkaLog(bootstrap, client_id="exit-codes") as log:
        if not forged:
            await write_small_history(log, topics)
            return
        record = DISPATCHER.single("forged", command_received("forged", "c-9", "trackside.ping.v1", 99))
        await log.append(topics.events.name, partition_of("forged", topics.event_partitions), [record])


def test_each_outcome_has_an_exit_code_of_its_own(
    stack: Servers, topic_prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(prefix=topic_prefix)
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", stack.kafka_bootstrap)
    monkeypatch.setenv("TRACKSIDE_TOPIC_PREFIX", topics.prefix)
    asyncio.run(write_log(stack.kafka_bootstrap, topics))
    assert (call(["verify-log"]), capsys.readouterr().out.splitlines()[-1][:14]) == (0, "nothing found:")
    assert call(["verify-log", "none-of-this-id"]) == 2
    assert call(["verify-log", "--digests"]) == 2
    assert call(["verify-log", "--no-such-option"]) == 2
    capsys.readouterr()
    asyncio.run(write_log(stack.kafka_bootstrap, topics, forged=True))
    assert call(["verify-log", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [(each["invariant"], each["stream"]) for each in report["findings"]] == [("INV-8", "forged")]
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", CLOSED)
    assert call(["verify-log"]) == 3
    said = capsys.readouterr().err
    assert CLOSED in said and said.endswith("; nothing is verified\n")
