import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from trackside.contracts.topics import Topics
from trackside.eventlog.installation_keys import set_up_keys
from trackside.eventlog.key_folder import KeyFolder
from trackside.eventlog.memory import MemoryLog
from trackside.verify.log import verify, verify_topics

DEPLOY = Path(__file__).parents[3] / "deploy"


@pytest.fixture
def synthetic_log(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(DEPLOY), *sys.path])
    return importlib.import_module("bench.synthetic_log")


async def test_the_log_of_the_rebuild_has_no_findings(synthetic_log: Any) -> None:
    log, topics = MemoryLog(), Topics(event_partitions=3)
    written = await synthetic_log.write_searches(log, topics, searches=2, trials=6)
    ends = [sum((await log.ends(each.name)).values()) for each in (topics.events, topics.fleet)]
    assert written == sum(ends)
    assert await verify(log, topics) == []


async def test_a_signed_log_is_read_as_one_without_signatures(synthetic_log: Any, tmp_path: Path) -> None:
    log, topics, keys = MemoryLog(), Topics(event_partitions=3), KeyFolder(tmp_path)
    await log.ensure(topics.shared)
    await set_up_keys(log, topics, keys, ["bench"], require=True)
    names = {"dispatcher": "dispatcher", "scheduler": "scheduler", "worker": "worker-bench"}
    signers = {role: keys.make(name) for role, name in names.items()}
    await synthetic_log.write_searches(log, topics, searches=1, trials=2, signers=signers)
    report = await verify_topics(log, topics)
    assert (report.complete().findings, report.streams) == ([], 1)
