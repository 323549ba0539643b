"""`trackside backup` and `restore`, with artifacts, on a real Kafka and two stores."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.integration.replay.backed_up_log import Given
from tests.stack import Servers
from tests.unit.projections.given import write_small_history
from trackside.artifacts.blobs import blob_path
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.cli.app import call
from trackside.contracts.topics import Topics
from trackside.eventlog.kafka import KafkaLog


async def _begin(given: Given) -> None:
    await given.log.ensure(given.topics.shared)
    await write_small_history(given.log, given.topics)


def test_an_installation_is_backed_up_and_restored_with_its_artifacts_by_commands(
    stack: Servers,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second, folder = (tmp_path / name for name in ("first", "second", "backup"))
    for store in (first, second):
        store.mkdir()
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", stack.kafka_bootstrap)
    monkeypatch.setenv("TRACKSIDE_TOPIC_PREFIX", topic_prefix)
    monkeypatch.setenv("TRACKSIDE_STORE", str(first))
    monkeypatch.chdir(tmp_path)
    weights = open_store(StoreSettings(store=str(first))).put(b"weights")

    async def with_log(work: str) -> None:
        async with KafkaLog(stack.kafka_bootstrap, client_id="backup-test") as log:
            given = Given(log, stack.kafka_bootstrap, Topics(prefix=topic_prefix), folder)
            await (_begin(given) if work == "begin" else given.delete_topics())

    def output(*arguments: str, code: int = 0) -> str:
        assert call(arguments) == code
        captured = capsys.readouterr()
        return captured.out if code == 0 else captured.err

    add = ("backup", str(folder))
    asyncio.run(with_log("begin"))
    made = json.loads(output(*add, "--json"))
    assert (made["runs"], made["file"], made["blobs"], made["gaps"]) == (1, "000001.jsonl.gz", 1, [])
    assert "nothing is new since" in output(*add)
    assert "has artifacts: leave out --without-artifacts" in output(*add, "--without-artifacts", code=2)
    assert "replay_target_live" in output("restore", str(folder), code=1)
    asyncio.run(with_log("delete"))
    monkeypatch.setenv("TRACKSIDE_STORE", str(second))
    blob = folder / blob_path(weights.sha256)
    blob.chmod(0o600)
    blob.write_bytes(b"damaged")
    assert "file_damaged" in output("restore", str(folder), code=1)
    blob.write_bytes(b"weights")
    restored = json.loads(output("restore", str(folder), "--json"))
    assert restored["records"] == restored["written"] == made["records"]
    assert open_store(StoreSettings(store=str(second))).verify(weights) == "ok"
    assert "another_installation" not in output(*add)
