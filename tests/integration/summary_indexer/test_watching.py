"""S17-S19: directories of event files are read into the log, each point once, whatever happens to them."""

import hashlib
import os
from pathlib import Path

import pytest

from tests.integration.summary_indexer.watched import (
    Runs,
    append,
    begin_file,
    event_file,
    frozen_clock,
    points,
    until,
    until_problem,
    until_read,
)
from trackside.aggregates.summary.messages import DeleteSummaryJob, RestoreSummaryJob, RetrySummaryFile
from trackside.summaries.event_files.values import Image, TextRows
from trackside.summaries.event_files.writing import record

pytestmark = pytest.mark.asyncio(loop_scope="module")

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000"
    "00000301010018dd8db00000000049454e44ae426082"
)


async def test_a_directory_is_imported_and_a_second_import_adds_only_what_is_new(runs: Runs) -> None:
    """S1, S19."""
    begin_file(runs.base / "a", steps=range(10_000))
    begin_file(runs.base / "b/c/d", steps=range(10))
    begin_file(runs.base / "a", number=2, steps=range(5, 15))
    report = await runs.read_in()
    assert (report.jobs, report.files, report.points, report.problems) == (2, 3, 10_020, {})
    points(event_file(runs.base / "a", 2), range(15, 20))
    report = await runs.read_in()
    assert (report.jobs, report.files, report.points) == (0, 1, 5)
    assert await runs.metrics() == {
        ("a", 10_000, "loss"): [*range(10_000)],
        ("a", 20_000, "loss"): [*range(5, 20)],
        ("b/c/d", 10_000, "loss"): [*range(10)],
    }


async def test_equal_pictures_are_in_the_store_once_and_small_values_in_the_log(runs: Runs) -> None:
    pictures = [record("picture", step, step, Image(PNG, 1, 1)) for step in range(3)]
    append(begin_file(runs.base / "a"), *pictures, record("note", 1, 1, TextRows(["a short text"])))
    report = await runs.read_in()
    assert (report.items, report.problems) == (4, {})
    digest = hashlib.sha256(PNG).hexdigest()
    items = [(item.kind, item.step, item.artifact and item.artifact.sha256) for item in await runs.items()]
    assert items == [*(("image", step, digest) for step in range(3)), ("text", 1, None)]
    (stored,) = (runs.folder / "store").rglob(digest)
    assert stored.read_bytes() == PNG


async def test_a_growing_file_is_read_on_while_it_is_watched(runs: Runs) -> None:
    """S18: without a search of the rest, which is an hour away here."""
    begin_file(runs.base / "a", steps=range(10))
    async with runs.watching() as report:
        await until_read(report, 10)
        for first in range(10, 40, 10):
            points(event_file(runs.base / "a"), range(first, first + 10))
            await until_read(report, first + 10)
        begin_file(runs.base / "new/job", steps=range(7))
        await until_read(report, 47)
        (runs.base / "new").rename(runs.base / "moved")
        await until_read(report, 54)
        await runs.until_event("SummaryJobVanished")
    found = await runs.metrics()
    assert found["a", 10_000, "loss"] == [*range(40)]
    assert found["moved/job", 10_000, "loss"] == found["new/job", 10_000, "loss"] == [*range(7)]


async def test_what_the_file_system_does_not_report_is_found_by_the_slow_look(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on network file systems: polling is what remains."""
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "true")
    monkeypatch.setenv("WATCHFILES_POLL_DELAY_MS", "3600000")
    async with runs.watching(0.05) as report:  # not there yet
        path = begin_file(runs.base / "a", steps=range(5))
        await until_read(report, 5)
        points(path, range(5, 10))
        await until_read(report, 10)


async def test_a_half_record_waits_and_after_600_seconds_it_is_marked_and_read_when_it_is_whole(
    runs: Runs,
) -> None:
    """S18."""
    path = begin_file(runs.base / "a", steps=range(3))
    size, whole = path.stat().st_size, record("loss", 3, 3, 1.5)
    append(path, whole[:-1])
    assert (await runs.read_in()).problems == {}
    os.utime(path, (1_600_000_000, 1_600_000_000))
    assert (await runs.read_in()).problems == {("a", path.name): "record_unfinished"}
    assert ("SummaryFileQuarantined", path.name, size, "record_unfinished") in await runs.events()
    append(path, whole[-1:])
    report = await runs.read_in()
    assert (report.points, report.problems) == (1, {})
    assert (await runs.metrics())["a", 10_000, "loss"] == [*range(4)]


async def test_each_kind_of_damage_stops_its_file_alone_and_is_said(runs: Runs) -> None:
    """S18."""
    names = ("record", "length", "gone", "shrunk", "replaced", "good", "empty", "other")
    files = {name: begin_file(runs.base / name, steps=range(5)) for name in names}
    await runs.read_in()
    for name in ("record", "length"):
        points(files[name], range(5, 10))
        data = bytearray(files[name].read_bytes())
        data[-1 if name == "record" else -len(record("loss", 9, 9, 4.5))] ^= 1
        files[name].write_bytes(data)
    files["gone"].unlink()
    begin_file(runs.base / "gone", 2)
    os.truncate(files["shrunk"], files["shrunk"].stat().st_size - 1)
    points(begin_file(runs.base / "replaced"), range(100, 109), tag="another tag")
    event_file(runs.base / "empty", 2).touch()
    os.utime(event_file(runs.base / "empty", 2), (0, 0))
    event_file(runs.base / "other", 2).write_bytes(b"this is no event file at all")
    points(files["good"], range(5, 10))
    report = await runs.read_in()
    assert {path: code for (path, _), code in report.problems.items()} == {
        "record": "damaged_record",
        "length": "damaged_length",
        "gone": "file_vanished",
        "shrunk": "file_shrunk",
        "replaced": "file_replaced",
        "empty": "file_empty",
        "other": "damaged_length",
    }
    found = await runs.metrics()
    assert found["good", 10_000, "loss"] == [*range(10)]
    assert found["record", 10_000, "loss"] == found["length", 10_000, "loss"] == [*range(9)]
    assert found["shrunk", 10_000, "loss"] == found["replaced", 10_000, "loss"] == [*range(5)]


def damaged_file(runs: Runs) -> tuple[Path, bytes]:
    """Writes a file with a damaged record; returns its path, and what it should have."""
    path = begin_file(runs.base / "a", steps=range(5))
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    return path, right


async def test_a_damaged_file_that_is_repaired_is_read_after_its_pause(runs: Runs) -> None:
    """S18: looked at again after 1 s, 2 s and so on, without anything that changes but its bytes."""
    path, right = damaged_file(runs)
    async with runs.watching() as report:
        await until_problem(report, "a", "damaged_record")
        path.write_bytes(right)
        await until(lambda: report.points == 5 and not report.problems)


async def test_a_quarantined_file_is_read_at_once_on_command(runs: Runs) -> None:
    """S18: the clock stands still, so that no pause is ever over."""
    path, right = damaged_file(runs)
    with frozen_clock():
        async with runs.watching() as report:
            await until_problem(report, "a", "damaged_record")
            path.write_bytes(right)
            await runs.command("a", RetrySummaryFile(file=path.name))
            await until_read(report, 5)


async def test_restarts_are_sessions_within_a_file_and_between_files(runs: Runs) -> None:
    """S17: how the reading was interrupted makes no difference."""
    path = begin_file(runs.base / "a")
    for first in (0, 3, 1, 2):
        points(path, range(first, first + 3))
        await runs.read_in()
    begin_file(runs.base / "a", 2, steps=range(4, 6))
    await runs.read_in()
    assert await runs.metrics() == {
        ("a", 10_000, "loss"): [*range(6)],
        ("a", 10_001, "loss"): [*range(1, 4)],
        ("a", 10_002, "loss"): [*range(2, 5)],
        ("a", 20_000, "loss"): [*range(4, 6)],
    }


async def test_two_watchers_of_a_directory_agree(runs: Runs) -> None:
    """The log decides which positions count; a row has the key of its point, so there is one of each."""
    paths = [begin_file(runs.base / f"run-{number}", number) for number in range(3)]
    async with runs.watching(), runs.watching():
        for first in (0, 10):
            for path in paths:
                points(path, range(first, first + 10))
            await runs.until_has(paths)
    assert {key: sorted(set(each)) for key, each in (await runs.metrics()).items()} == {
        (path.parent.name, 10_000, "loss"): [*range(20)] for path in paths
    }


async def test_tags_over_the_limit_are_counted_in_one_dead_letter_and_the_rest_is_read(runs: Runs) -> None:
    tags = [record(f"tag/{number}", 1, 1, 1.0) * 2 for number in range(10_003)]
    more = [record(tag, 2, 2, 1.0) for tag in ("tag/0", "line\nbreak")]
    append(begin_file(runs.base / "a"), *tags, *more)
    assert (await runs.read_in()).points == 20_001
    letters = await runs.letters()
    assert [code for code, _ in letters] == ["bad_tag", "too_many_tags"]
    assert letters[1][1].startswith("6 values have tags after the first 10,000 of their job")


async def test_a_directory_that_is_a_link_or_without_event_files_is_no_job(runs: Runs) -> None:
    """S19."""
    outside = runs.base.with_name("outside")
    begin_file(outside, steps=range(5))
    (runs.base / "empty").mkdir(parents=True)
    (runs.base / "link").symlink_to(outside)
    assert (await runs.read_in()).jobs == 0
    with pytest.raises(NotADirectoryError):
        await runs.read_in(runs.base / "missing")


async def test_a_deleted_job_is_passed_over_until_it_is_restored(runs: Runs) -> None:
    """S13: not brought back by the next scan, nor by a file that grows."""
    path = begin_file(runs.base / "a", steps=range(5))
    async with runs.watching(0.05) as report:
        await until_read(report, 5)
        job = await runs.command("a", DeleteSummaryJob())
        await runs.until_event("SummaryJobDeleted")
        points(path, range(5, 10))
        begin_file(runs.base / "b", steps=range(5))
        await until_read(report, 10)
        await until(lambda: report.deleted == {job})
        assert report.points == 10
        await runs.command("a", RestoreSummaryJob())
        await until_read(report, 15)
        await until(lambda: report.deleted == set())
    assert (await runs.metrics())["a", 10_000, "loss"] == [*range(10)]


async def test_the_files_of_a_purged_job_that_is_restored_are_read_again(runs: Runs) -> None:
    """S13: their points have the number of another session, since the rows of the first are gone."""
    begin_file(runs.base / "a", steps=range(5))
    async with runs.watching(0.05) as report:
        await until_read(report, 5)
        await runs.command("a", DeleteSummaryJob(purge=True))
        await runs.until_event("SummaryJobDeleted")
        await runs.command("a", RestoreSummaryJob())
        await until_read(report, 10)
    assert (await runs.metrics())["a", 20_000, "loss"] == [*range(5)]


async def test_a_file_that_comes_back_is_well_again(runs: Runs) -> None:
    """S18: also without a byte more than the log has."""
    path = begin_file(runs.base / "a", steps=range(5))
    begin_file(runs.base / "a", 2, steps=range(5))
    await runs.read_in()
    away = path.rename(runs.base.with_name("away"))
    assert (await runs.read_in()).problems == {("a", path.name): "file_vanished"}
    away.rename(path)
    assert (await runs.read_in()).problems == {}
    assert (await runs.read_in()).files == 0


async def test_jobs_of_a_directory_that_is_not_mounted_have_not_vanished(runs: Runs) -> None:
    begin_file(runs.base / "a", steps=range(5))
    await runs.read_in()
    away = runs.base.rename(runs.base.with_name("away"))
    async with runs.watching(0.05) as report:
        await until_problem(report, ".", "file_vanished")
        away.rename(runs.base)
        points(event_file(runs.base / "a"), range(5, 10))
        await until_read(report, 5)
    assert await runs.events() == []
