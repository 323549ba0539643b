"""S17, S18: a file is read on from where the log ends only while it is the one that was read before."""

import shutil
from pathlib import Path

import pytest

from tests.integration.summary_indexer.harness import Sandbox
from tests.integration.summary_indexer.watched import (
    begin_file,
    event_file,
    has,
    has_event,
    metrics_of,
    points,
    read_in,
    summary_events,
    watching,
)
from tests.polling import poll_until
from trackside.eventlog.kafka import KafkaLog

HOUR_S = 3_600

pytestmark = pytest.mark.usefixtures("dispatcher")


async def test_files_that_were_replaced_while_nobody_watched_are_read_from_their_start(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S18: also one as long as the other or longer, whose records end at the same bytes."""
    base = tmp_path / "runs"
    more = {"as-long": 5, "longer": 9, "copied": 5, "grown": 9}
    for path in more:
        points(begin_file(base / path), 0, 5)
    assert (await read_in(log, sandbox, base)).points == 20
    for path in ("as-long", "longer"):
        points(begin_file(base / path, time_ms=77_000), 100, more[path])
    shutil.copytree(base / "copied", base / "another inode")
    shutil.rmtree(base / "copied")
    (base / "another inode").rename(base / "copied")
    points(event_file(base / "grown"), 5, 4)
    name = event_file(base / "grown").name
    report = await read_in(log, sandbox, base)
    assert report.problems == {(path, name): "file_replaced" for path in ("as-long", "longer")}
    assert report.points == 4
    async with watching(log, sandbox, base, 0.05) as report:
        await poll_until(has(report, 14))
    found = await metrics_of(log, sandbox)
    assert found["as-long", 20_000, "loss"] == list(range(100, 105))
    assert found["longer", 20_000, "loss"] == list(range(100, 109))
    assert found["copied", 10_000, "loss"] == list(range(5))
    assert found["grown", 10_000, "loss"] == list(range(9))
    assert len(found) == 6
    report = await read_in(log, sandbox, base)
    assert (report.files, report.problems) == (0, {})


async def test_a_file_that_is_written_again_is_noticed_by_a_watcher_that_never_read_it(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S18: the log has it whole, so the watcher only compared it; then as many bytes are copied over it."""
    base = tmp_path / "runs"
    points(begin_file(base / "a"), 0, 5)
    points(begin_file(tmp_path / "outside", time_ms=77_000), 3, 5)
    await read_in(log, sandbox, base)
    async with watching(log, sandbox, base, HOUR_S) as report:
        points(begin_file(base / "b"), 0, 5)
        await poll_until(has(report, 5))
        shutil.copyfile(event_file(tmp_path / "outside"), event_file(base / "a"))
        await poll_until(has(report, 10))
    assert (await metrics_of(log, sandbox))["a", 20_000, "loss"] == list(range(3, 8))


async def test_another_directory_in_the_place_of_one_that_had_vanished_has_other_files(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    base = tmp_path / "runs"
    base.mkdir()
    points(begin_file(tmp_path / "first"), 0, 5)
    points(begin_file(tmp_path / "second", time_ms=77_000), 100, 5)
    async with watching(log, sandbox, base, 0.05) as report:
        (tmp_path / "first").rename(base / "a")
        await poll_until(has(report, 5))
        (base / "a").rename(tmp_path / "first")
        await poll_until(has_event(log, sandbox, "SummaryJobVanished"))
    (tmp_path / "second").rename(base / "a")
    async with watching(log, sandbox, base, 0.05) as report:
        await poll_until(has(report, 5))
    found = await metrics_of(log, sandbox)
    assert found == {("a", 10_000, "loss"): list(range(5)), ("a", 20_000, "loss"): list(range(100, 105))}
    assert [event[0] for event in await summary_events(log, sandbox)].count("SummaryJobVanished") == 1


async def test_a_directory_that_becomes_a_link_or_is_moved_out_has_vanished_and_is_followed_nowhere(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S19: what its files get after that is not indexed."""
    base, outside = tmp_path / "runs", tmp_path / "outside"
    outside.mkdir()
    points(begin_file(base / "a"), 0, 5)
    points(begin_file(base / "b/c"), 0, 5)
    async with watching(log, sandbox, base, 0.05) as report:
        await poll_until(has(report, 10))
        (base / "a").rename(outside / "a")
        (base / "a").symlink_to(outside / "a")
        (base / "b").rename(outside / "b")

        async def have_vanished() -> bool:
            return [event[0] for event in await summary_events(log, sandbox)] == ["SummaryJobVanished"] * 2

        await poll_until(have_vanished)
        for path in (outside / "a", outside / "b/c"):
            points(event_file(path), 5, 5)
        points(begin_file(base / "d"), 0, 5)
        await poll_until(has(report, 15))
    found = await metrics_of(log, sandbox)
    assert found == {(path, 10_000, "loss"): list(range(5)) for path in ("a", "b/c", "d")}
