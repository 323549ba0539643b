"""S17, S18: a file is read on from where the log ends only while it is the one that was read before."""

import shutil

import pytest

from tests.integration.summary_indexer.watched import Runs, begin_file, event_file, points, until_read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_files_that_were_replaced_while_nobody_watched_are_read_from_their_start(runs: Runs) -> None:
    """S18: also one as long as the other or longer, whose records end at the same bytes."""
    for path in ("as-long", "longer", "copied", "grown"):
        begin_file(runs.base / path, steps=range(5))
    assert (await runs.read_in()).points == 20
    for path, count in (("as-long", 5), ("longer", 9)):
        begin_file(runs.base / path, time_ms=77_000, steps=range(100, 100 + count))
    shutil.copytree(runs.base / "copied", runs.base / "another inode")
    shutil.rmtree(runs.base / "copied")
    (runs.base / "another inode").rename(runs.base / "copied")
    points(event_file(runs.base / "grown"), range(5, 9))
    name = event_file(runs.base / "grown").name
    report = await runs.read_in()
    assert report.problems == {(path, name): "file_replaced" for path in ("as-long", "longer")}
    assert report.points == 4
    async with runs.watching(0.05) as report:
        await until_read(report, 14)
    found = await runs.metrics()
    assert found["as-long", 20_000, "loss"] == [*range(100, 105)]
    assert found["longer", 20_000, "loss"] == [*range(100, 109)]
    assert found["copied", 10_000, "loss"] == [*range(5)]
    assert found["grown", 10_000, "loss"] == [*range(9)]
    assert len(found) == 6
    report = await runs.read_in()
    assert (report.files, report.problems) == (0, {})


async def test_a_file_that_is_written_again_is_noticed_also_by_a_watcher_that_never_read_it(
    runs: Runs,
) -> None:
    """S17, S18: the log has it whole, so the watcher only compared it; then as many bytes replace it."""
    outside = begin_file(runs.base.with_name("outside"), time_ms=77_000, steps=range(3, 8))
    begin_file(runs.base / "a", steps=range(5))
    await runs.read_in()
    async with runs.watching() as report:
        begin_file(runs.base / "b", steps=range(5))
        await until_read(report, 5)
        for name, read in (("a", 10), ("b", 15)):
            shutil.copyfile(outside, event_file(runs.base / name))
            await until_read(report, read)
    found = await runs.metrics()
    assert found["a", 20_000, "loss"] == found["b", 20_000, "loss"] == [*range(3, 8)]
    codes = {event[3] for event in await runs.events() if event[0] == "SummaryFileQuarantined"}
    assert codes and codes <= {"file_replaced", "file_shrunk"}


async def test_another_directory_in_the_place_of_one_that_had_vanished_has_other_files(runs: Runs) -> None:
    runs.base.mkdir()
    first, second = runs.base.with_name("first"), runs.base.with_name("second")
    begin_file(first, steps=range(5))
    begin_file(second, time_ms=77_000, steps=range(100, 105))
    async with runs.watching(0.05) as report:
        first.rename(runs.base / "a")
        await until_read(report, 5)
        (runs.base / "a").rename(first)
        await runs.until_event("SummaryJobVanished")
    second.rename(runs.base / "a")
    async with runs.watching(0.05) as report:
        await until_read(report, 5)
    assert await runs.metrics() == {
        ("a", 10_000, "loss"): [*range(5)],
        ("a", 20_000, "loss"): [*range(100, 105)],
    }
    assert [event[0] for event in await runs.events()].count("SummaryJobVanished") == 1


async def test_a_directory_that_becomes_a_link_or_is_moved_out_has_vanished_and_is_followed_nowhere(
    runs: Runs,
) -> None:
    """S19: what its files get after that is not indexed."""
    outside = runs.base.with_name("outside")
    outside.mkdir()
    for path in ("a", "b/c"):
        begin_file(runs.base / path, steps=range(5))
    async with runs.watching(0.05) as report:
        await until_read(report, 10)
        (runs.base / "a").rename(outside / "a")
        (runs.base / "a").symlink_to(outside / "a")
        (runs.base / "b").rename(outside / "b")
        await runs.until_event("SummaryJobVanished", 2)
        for path in ("a", "b/c"):
            points(event_file(outside / path), range(5, 10))
        begin_file(runs.base / "d", steps=range(5))
        await until_read(report, 15)
    assert [event[0] for event in await runs.events()] == ["SummaryJobVanished"] * 2
    assert await runs.metrics() == {(path, 10_000, "loss"): [*range(5)] for path in ("a", "b/c", "d")}
