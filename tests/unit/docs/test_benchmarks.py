"""The logs that benchmarks write are like those of real searches."""

import sys
from pathlib import Path

import pytest

from trackside.contracts.topics import Topics
from trackside.eventlog.installation_keys import set_up_keys
from trackside.eventlog.key_folder import KeyFolder
from trackside.eventlog.memory import MemoryLog
from trackside.verify.log import verify, verify_topics

DEPLOY = Path(__file__).parents[3] / "deploy"


async def test_the_log_of_the_rebuild_has_no_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(DEPLOY), *sys.path])
    from bench import synthetic_log

    log, topics = MemoryLog(), Topics(event_partitions=3)
    written = await synthetic_log.write_searches(log, topics, searches=2, trials=6)
    assert written == sum(
        [sum((await log.ends(each.name)).values()) for each in (topics.events, topics.fleet)]
    )
    assert await verify(log, topics) == []


async def test_a_signed_log_is_read_as_one_without_signatures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(DEPLOY), *sys.path])
    from bench import synthetic_log

    log, topics, keys = MemoryLog(), Topics(event_partitions=3), KeyFolder(tmp_path)
    await log.ensure(topics.shared)
    await set_up_keys(log, topics, keys, ["bench"], require=True)
    names = {"dispatcher": "dispatcher", "scheduler": "scheduler", "worker": "worker-bench"}
    signers = {role: keys.make(name) for role, name in names.items()}
    await synthetic_log.write_searches(log, topics, searches=1, trials=2, signers=signers)
    report = await verify_topics(log, topics)
    assert (report.complete().findings, report.streams) == ([], 1)
