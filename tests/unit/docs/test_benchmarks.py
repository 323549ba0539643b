"""The logs that benchmarks write are like those of real searches."""

import sys
from pathlib import Path

import pytest

from trackside.contracts.topics import Topics
from trackside.eventlog.memory import MemoryLog
from trackside.verify.log import verify

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
