"""What an indexer makes of files with odd tags, values or rights, and what commands say of directories."""

import asyncio
import json
import math
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from urllib.parse import quote

import pytest

from tests.integration.command_line import tried
from tests.integration.summary_indexer.harness import IndexerProcess, until_caught_up
from tests.integration.summary_indexer.watched import Runs, append, begin_file, points, until
from trackside.summaries.event_files.framing import frame
from trackside.summaries.event_files.protos import tensorboard_pb2
from trackside.summaries.event_files.writing import record, tensor_scalar
from trackside.summary_indexer.watching.log_positions import job_id_of
from trackside.summary_indexer.watching.tag_limits import IndexedTags
from trackside.summary_indexer.watching.watcher import is_below

JOBS = ("closed/job", "names only", "names only/below", "file", "open")
EVENT, REASON = "a directory can't be read", "Permission denied"
RUN = "from trackside.cli.app import main; main()"
NAMES = [
    "学習/損失",
    "خسارة",
    "loss 🔥",
    "e\u0301",
    "\u202eright to left",
    "'; DROP TABLE trackside.metric_points; --",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "%_\\x00\\",
    " ",
    "x" * 1_000,
]
NO_NAMES = ["", "a\0b", "bell\a", "next line\x85", "x" * 1_001, "x" * 10_000]
STEPS = [1 - 2**63, -5, 0, 0, 7, 2**53, 2**53 + 1, 2**63 - 1]
TIMES_S = {
    0: 0.0,
    1: 1.5,
    2: 4_102_444_800.0,  # 2100
    3: -1.0,
    4: math.nan,
    5: 1e300,
    6: -math.inf,
}
VALUES = [math.nan, math.inf, -math.inf, 5e-324, -0.0, 1.7976931348623157e308, 2.5]


def timed(tag: str, step: int, time_s: float) -> bytes:
    """Returns a record with a wall time as no writer of ours has it."""
    summary = tensorboard_pb2.Summary(value=[tensorboard_pb2.Summary.Value(tag=tag, simple_value=1.0)])
    return frame(tensorboard_pb2.Event(wall_time=time_s, step=step, summary=summary).SerializeToString())


async def test_odd_tags_steps_times_and_values_are_read_as_they_are_and_the_rest_goes_on(
    own_runs: Runs,
) -> None:
    """S11, S17: only what is no name of a tag is left out, and counted."""
    runs = own_runs
    path = begin_file(runs.base / "a")
    append(path, *(record(tag, 1, 1, 2.0) for tag in [*NAMES, *NO_NAMES]))
    append(path, *(record("steps", step, 1, at) for at, step in enumerate(STEPS)))
    append(path, *(record("falling", step, 1, step) for step in (5, 6, 3, 4)))
    append(path, *(timed("times", step, time_s) for step, time_s in TIMES_S.items()))
    append(path, *(tensor_scalar("values", at, 1, each, True) for at, each in enumerate(VALUES)))
    append(path, record("last", 1, 1, 3.0))
    watched = {"TRACKSIDE_SUMMARY_DIRECTORIES": str(runs.base)}
    indexer = await runs.sandbox.indexer(watched=watched).start()
    await runs.until_has([path])
    await until_caught_up(runs.log, runs.sandbox)
    job = job_id_of(str(runs.base), "a")

    async def curve(tag: str) -> dict[str, object]:
        status, answer = await indexer.get(f"/summaries/scalars?job={job}&tag={quote(tag, safe='')}")
        assert status == 200, (tag, answer)
        (found,) = answer["curves"]
        assert isinstance(found, dict) and found["tag"] == tag
        return found

    for tag in NAMES:
        assert (await curve(tag))["values"] == [2.0]
    steps = await curve("steps")
    assert (steps["steps"], steps["values"]) == (sorted(set(STEPS)), [0, 1, 2, 4, 5, 6, 7])
    falling = await curve("falling")
    assert (falling["steps"], falling["values"]) == ([3, 4], [3, 4])
    assert (await curve("times"))["times_ms"] == [0, 1_500, 4_102_444_800_000, -1_000, 0, 0, 0]
    values = await curve("values")
    assert values["values"] == [None, None, None, 5e-324, 0.0, 1.7976931348623157e308, 2.5]
    assert values["non_finite"] == {"0": "nan", "1": "inf", "2": "-inf"}
    assert (await curve("last"))["values"] == [3.0]
    ((code, message),) = await runs.letters()
    assert (code, message.split()[0]) == ("bad_tag", str(len(NO_NAMES)))


def tags(numbers: Iterable[int], step: int = 0) -> Iterator[bytes]:
    return (record(f"tag/{number}", step, step, 0.5) for number in numbers)


@pytest.mark.long
async def test_tags_of_a_job_are_counted_on_after_a_restart(own_runs: Runs) -> None:
    """S15: 12,000 tags of which 8,000 have rows before the watcher starts again."""
    runs = own_runs
    file = begin_file(runs.base / "a")
    append(file, *tags(range(8_000)))
    await runs.sandbox.indexer().start()
    report = await runs.read_in()
    assert (report.points, report.left_out) == (8_000, 0)
    await until_caught_up(runs.log, runs.sandbox)
    append(file, *tags([*range(8_000, 12_000), 5], step=1))
    report = await runs.read_in(indexed=IndexedTags(runs.sandbox.dsn))
    assert (report.points, report.left_out) == (2_001, 2_000)
    found = {tag for _, _, tag in await runs.metrics()}
    assert found == {f"tag/{number}" for number in range(10_000)}
    message = "2,000 values have tags after the first 10,000 of their job: these are not indexed"
    assert await runs.letters() == [("too_many_tags", message)]


async def until_said(indexer: IndexerProcess, paths: set[str]) -> None:
    """Waits until the process has logged of each of these directories that it can't be read: once.

    One below them may be said, too: a scan that has just listed its parent can't open it any more.
    """

    def said() -> list[str]:
        lines = map(json.loads, indexer.output.splitlines())
        return [line["path"] for line in lines if (line["event"], line.get("reason")) == (EVENT, REASON)]

    await until(lambda: paths <= set(said()))
    found = said()
    assert len(found) == len(set(found)) and all(is_below(path, paths) for path in found)


@pytest.mark.long
async def test_what_may_not_be_read_is_said_and_read_once_it_may_and_has_not_vanished(own_runs: Runs) -> None:
    """A directory without rights, one whose names alone may be read, and a file; by a process of its own."""
    runs, base = own_runs, own_runs.base
    files = {path: begin_file(base / path, at, steps=range(5)) for at, path in enumerate(JOBS)}
    watched = {"TRACKSIDE_SUMMARY_DIRECTORIES": str(base), "TRACKSIDE_SUMMARY_LOOK_S": "0.1"}
    indexer = await runs.sandbox.indexer(watched=watched, obeys_rights=True).start()
    await runs.until_has(files.values())

    rights = {base / "closed": 0o700, base / "names only": 0o700, files["file"]: 0o600}
    (base / "closed").chmod(0)
    (base / "names only").chmod(0o400)
    files["file"].chmod(0)
    try:
        points(files["open"], range(5, 10))
        new = begin_file(base / "new", 77, steps=range(5))
        await until_said(indexer, {"closed", "names only"})
        await runs.until_has([files["open"], new])
        forbidden = ("SummaryFileQuarantined", files["file"].name, files["file"].stat().st_size, "no_rights")
        await runs.until_event("SummaryFileQuarantined")
        assert set(await runs.events()) == {forbidden}
    finally:
        for path, mode in rights.items():
            path.chmod(mode)
    for path in files.values():
        points(path, range(10, 15))
    await runs.until_has(files.values())
    expected = {path: [*range(5), *range(10, 15)] for path in JOBS}
    expected |= {"open": [*range(15)], "new": [*range(5)]}
    assert await runs.metrics() == {(path, 10_000, "loss"): steps for path, steps in expected.items()}
    assert set(await runs.events()) == {forbidden}


@pytest.mark.usefixtures("commands_find_it")
async def test_an_import_says_what_was_read_and_which_files_are_damaged(
    own_runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    begin_file(own_runs.base / "a", steps=range(10))
    damaged = begin_file(own_runs.base / "b", steps=range(10))

    async def run(*arguments: str) -> tuple[int, str, str]:
        return await asyncio.to_thread(tried, capsys, "summaries", "import", *arguments)

    code, out, err = await run(str(own_runs.base))
    assert code == 0 and out.startswith("2 new jobs, 2 files read, 20 points, 0 other values\n"), err
    assert "the log has it all; 2 records are not indexed yet" in out  # no summary-indexer runs here
    append(damaged, b"x" * 40)
    code, out, err = await run(str(own_runs.base))
    assert code == 1 and "; 1 with problems" in out and "damaged_length" in out
    code, out, err = await run(str(own_runs.base), "--json")
    answer = json.loads(out)
    assert (answer["points"], [each["job"] for each in answer["problems"]]) == (0, ["b"])
    code, out, err = await run(str(own_runs.base / "missing"))
    assert code == 2 and "is not a directory" in err


@pytest.mark.long
@pytest.mark.usefixtures("commands_find_it")
async def test_a_watch_reads_what_is_written_until_it_is_interrupted(own_runs: Runs) -> None:
    path = begin_file(own_runs.base / "a", steps=range(10))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN, "summaries", "watch", str(own_runs.base)),
        env=dict(os.environ),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        await _line_with(process.stdout, "10 points")
        points(path, range(10, 15))
        await _line_with(process.stdout, "15 points")
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 130


async def _line_with(output: asyncio.StreamReader, text: str) -> None:
    while text.encode() not in (line := await output.readline()):
        assert line
