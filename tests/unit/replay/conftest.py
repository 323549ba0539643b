from pathlib import Path

import pytest

from tests.unit.projections.given import write_small_history
from tests.unit.replay.given import ELSEWHERE, TOPICS, Clock, empty
from trackside.artifacts.file_blobs import FileBlobs
from trackside.artifacts.store import Store
from trackside.eventlog.memory import MemoryLog


@pytest.fixture
async def log() -> MemoryLog:
    written = await empty()
    await write_small_history(written, TOPICS)
    return written


@pytest.fixture
async def elsewhere() -> MemoryLog:
    other = MemoryLog(Clock(1_900_000_000_000))
    await other.ensure(ELSEWHERE.shared)
    return other


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "store").mkdir()
    return Store(FileBlobs(tmp_path / "store"))
