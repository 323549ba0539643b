"""`trackside summaries import` and `watch`, as a user runs them."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.command_line import tried
from tests.integration.summary_indexer.harness import Sandbox
from tests.integration.summary_indexer.watched import begin_file, dispatching, event_file, points
from trackside.eventlog.kafka import KafkaLog

RUN = "from trackside.cli.app import main; main()"


@pytest.fixture(autouse=True)
async def _dispatcher(
    log: KafkaLog, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", sandbox.bootstrap)
    monkeypatch.setenv("TRACKSIDE_TOPIC_PREFIX", sandbox.topics.prefix)
    monkeypatch.setenv("TRACKSIDE_STORE", str(sandbox.folder / "store"))
    async with dispatching(log, sandbox):
        yield


async def test_an_import_says_what_was_read_and_which_files_are_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "runs"
    points(begin_file(base / "a"), 0, 10)
    points(begin_file(base / "b"), 0, 10)

    async def run(*arguments: str) -> tuple[int, str, str]:
        return await asyncio.to_thread(tried, capsys, "summaries", "import", *arguments)

    code, out, err = await run(str(base))
    assert (code, out) == (0, "2 new jobs, 2 files read, 20 points, 0 other values\n"), err
    data = bytearray(event_file(base / "b").read_bytes() + b"x" * 40)
    event_file(base / "b").write_bytes(data)
    code, out, err = await run(str(base))
    assert code == 1
    assert "; 1 with problems" in out
    assert "damaged_length" in out
    code, out, err = await run(str(base), "--json")
    answer = json.loads(out)
    assert (answer["points"], [each["job"] for each in answer["problems"]]) == (0, ["b"])
    code, out, err = await run(str(tmp_path / "missing"))
    assert code == 2
    assert "is not a directory" in err


async def test_a_watch_reads_what_is_written_until_it_is_interrupted(tmp_path: Path) -> None:
    base = tmp_path / "runs"
    points(begin_file(base / "a"), 0, 10)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN, "summaries", "watch", str(base)),
        env=dict(os.environ),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        await _line_with(process.stdout, "10 points")
        points(event_file(base / "a"), 10, 5)
        await _line_with(process.stdout, "15 points")
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 130


async def _line_with(output: asyncio.StreamReader, text: str) -> None:
    while text.encode() not in (line := await output.readline()):
        assert line
