from pathlib import Path

import pytest

from tests.unit.replay.given import ELSEWHERE, Clock, small_log
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.store import Store
from trackside.eventlog.memory import MemoryLog


@pytest.fixture
async def log() -> MemoryLog:
    return await small_log()


@pytest.fixture
async def elsewhere() -> MemoryLog:
    other = MemoryLog(Clock(1_900_000_000_000))
    await other.ensure(ELSEWHERE.shared)
    return other


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "store").mkdir()
    return Store(FileBlobs(tmp_path / "store"))
