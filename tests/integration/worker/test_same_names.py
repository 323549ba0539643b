"""Two workers that were given one folder or one name: the log of the worker says so."""

from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from tests.integration.worker.harness import LIMIT_S, memory_log, running, settings_for
from tests.polling import poll_until
from trackside.contracts.envelope.topics import Topics


def _warnings(logged: list[Any], beginning: str) -> list[Any]:
    return [each for each in logged if each["event"].startswith(beginning)]


async def _wait_for(logged: list[Any], beginning: str) -> None:
    async def is_logged() -> bool:
        return bool(_warnings(logged, beginning))

    await poll_until(is_logged, LIMIT_S)


async def test_a_worker_that_waits_for_another_in_its_folder_says_so_and_joins_after_it(
    tmp_path: Path,
) -> None:
    topics = Topics("t.")
    log, settings = await memory_log(topics), settings_for(tmp_path)
    with capture_logs() as logged:
        async with running(log, topics, settings) as first:
            await first.joined()
            async with running(log, topics, settings) as second:
                await _wait_for(logged, "waiting until")
                first.leaving.set()
                await second.joined(nth=2)
    (waiting,) = _warnings(logged, "waiting until the other worker that uses this folder ends")
    assert waiting["log_level"] == "warning"
    assert (waiting["worker"], waiting["data_dir"]) == ("w1", str(tmp_path))
    assert len(_warnings(logged, "the other worker that used this folder has ended")) == 1


async def test_a_worker_whose_name_another_takes_says_so(tmp_path: Path) -> None:
    topics = Topics("t.")
    log = await memory_log(topics)
    with capture_logs() as logged:
        async with running(log, topics, settings_for(tmp_path / "a")) as first:
            await first.joined()
            async with running(log, topics, settings_for(tmp_path / "b")) as second:
                await second.joined(nth=2)
                await _wait_for(logged, "another worker")
    (taken,) = _warnings(logged, "another worker has joined under this name")
    assert (taken["worker"], taken["log_level"]) == ("w1", "warning")
