import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.memory import MemoryLog
from trackside.verify.log import verify

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
