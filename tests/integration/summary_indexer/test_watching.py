"""S17-S19: directories of event files are read into the log, each point once, whatever happens to them."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.integration.summary_indexer.harness import Sandbox
from tests.integration.summary_indexer.watched import (
    begin_file,
    ends_of,
    event_file,
    frozen_clock,
    has,
    has_event,
    has_problem,
    letters_of,
    metrics_of,
    points,
    publish_command,
    read_in,
    summary_events,
    watching,
)
from tests.polling import poll_until
from trackside.aggregates.summary.messages import DeleteSummaryJob, RestoreSummaryJob, RetrySummaryFile
from trackside.eventlog.kafka import KafkaLog
from trackside.summaries.event_files.writing import record
from trackside.summary_indexer.watching.log_positions import job_id_of
from trackside.summary_indexer.watching.report import WatchReport

HOUR_S = 3_600

pytestmark = pytest.mark.usefixtures("dispatcher")


def steps(count: int, first: int = 0) -> list[int]:
    return list(range(first, first + count))


async def test_a_directory_is_imported_and_a_second_import_adds_only_what_is_new(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S1, S19."""
    base = tmp_path / "runs"
    points(begin_file(base / "a"), 0, 10_000)
    points(begin_file(base / "b/c/d"), 0, 10)
    points(begin_file(base / "a", number=2), 5, 10)
    report = await read_in(log, sandbox, base)
    assert (report.jobs, report.files, report.points, report.problems) == (2, 3, 10_020, {})
    points(event_file(base / "a", 2), 15, 5)
    report = await read_in(log, sandbox, base)
    assert (report.jobs, report.files, report.points) == (0, 1, 5)
    found = await metrics_of(log, sandbox)
    assert found["a", 10_000, "loss"] == steps(10_000)
    assert found["a", 20_000, "loss"] == steps(15, 5)
    assert found["b/c/d", 10_000, "loss"] == steps(10)


async def test_a_growing_file_is_read_on_while_it_is_watched(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S18: without a search of the rest, which is an hour away here."""
    base = tmp_path / "runs"
    points(begin_file(base / "a"), 0, 10)
    async with watching(log, sandbox, base, HOUR_S) as report:
        await poll_until(has(report, 10))
        for first in range(10, 60, 10):
            points(event_file(base / "a"), first, 10)
            await poll_until(has(report, first + 10))
        points(begin_file(base / "new/job"), 0, 7)
        await poll_until(has(report, 67))
        (base / "new").rename(base / "moved")
        await poll_until(has(report, 74))
        await poll_until(has_event(log, sandbox, "SummaryJobVanished"))
    found = await metrics_of(log, sandbox)
    assert found["a", 10_000, "loss"] == steps(60)
    assert found["moved/job", 10_000, "loss"] == found["new/job", 10_000, "loss"] == steps(7)


async def test_what_the_file_system_does_not_report_is_found_by_the_slow_look(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on network file systems: polling is what remains."""
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "true")
    monkeypatch.setenv("WATCHFILES_POLL_DELAY_MS", "3600000")
    base = tmp_path / "runs"
    async with watching(log, sandbox, base, 0.05) as report:  # not there yet
        points(begin_file(base / "a"), 0, 5)
        await poll_until(has(report, 5))
        points(event_file(base / "a"), 5, 5)
        await poll_until(has(report, 10))


async def test_a_half_record_waits_and_after_600_seconds_it_is_marked_and_read_when_it_is_whole(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S18."""
    base = tmp_path / "runs"
    path = begin_file(base / "a")
    points(path, 0, 3)
    size = path.stat().st_size
    whole = record("loss", 3, 3, 1.5)
    with path.open("ab") as file:
        file.write(whole[:-1])
    assert (await read_in(log, sandbox, base)).problems == {}
    os.utime(path, (1_600_000_000, 1_600_000_000))
    assert (await read_in(log, sandbox, base)).problems == {("a", path.name): "record_unfinished"}
    assert ("SummaryFileQuarantined", path.name, size, "record_unfinished") in await summary_events(
        log, sandbox
    )
    with path.open("ab") as file:
        file.write(whole[-1:])
    report = await read_in(log, sandbox, base)
    assert (report.points, report.problems) == (1, {})
    assert (await metrics_of(log, sandbox))["a", 10_000, "loss"] == steps(4)


async def test_each_kind_of_damage_stops_its_file_alone_and_is_said(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S18."""
    base = tmp_path / "runs"
    for name in ("record", "length", "gone", "shrunk", "replaced", "good", "empty", "other"):
        points(begin_file(base / name), 0, 5)
    await read_in(log, sandbox, base)
    for name in ("record", "length"):
        points(event_file(base / name), 5, 5)
        data = bytearray(event_file(base / name).read_bytes())
        data[-1 if name == "record" else -len(record("loss", 9, 9, 4.5))] ^= 1
        event_file(base / name).write_bytes(data)
    event_file(base / "gone").unlink()
    begin_file(base / "gone", 2)
    shrunk = event_file(base / "shrunk")
    os.truncate(shrunk, shrunk.stat().st_size - 1)
    begin_file(base / "replaced")
    points(event_file(base / "replaced"), 100, 9, tag="another tag")
    event_file(base / "empty", 2).touch()
    os.utime(event_file(base / "empty", 2), (0, 0))
    event_file(base / "other", 2).write_bytes(b"this is no event file at all")
    points(event_file(base / "good"), 5, 5)
    report = await read_in(log, sandbox, base)
    codes = {path: code for (path, _), code in report.problems.items()}
    assert codes == {
        "record": "damaged_record",
        "length": "damaged_length",
        "gone": "file_vanished",
        "shrunk": "file_shrunk",
        "replaced": "file_replaced",
        "empty": "file_empty",
        "other": "damaged_length",
    }
    found = await metrics_of(log, sandbox)
    assert found["good", 10_000, "loss"] == steps(10)
    assert found["record", 10_000, "loss"] == found["length", 10_000, "loss"] == steps(9)
    assert found["shrunk", 10_000, "loss"] == found["replaced", 10_000, "loss"] == steps(5)


async def test_a_damaged_file_that_is_repaired_is_read_after_its_pause(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S18: looked at again after 1 s, 2 s and so on, without anything that changes but its bytes."""
    base = tmp_path / "runs"
    path = begin_file(base / "a")
    points(path, 0, 5)
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    async with watching(log, sandbox, base, HOUR_S) as report:
        await poll_until(has_problem(report, "a", "damaged_record"))
        path.write_bytes(right)

        async def is_read() -> bool:
            return report.points == 5 and not report.problems

        await poll_until(is_read)


async def test_restarts_are_sessions_within_a_file_and_between_files(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S17: how the reading was interrupted makes no difference."""
    base = tmp_path / "runs"
    for first in (0, 3, 1, 2):
        path = event_file(base / "a")
        if not path.exists():
            begin_file(base / "a")
        points(path, first, 3)
        await read_in(log, sandbox, base)
    points(begin_file(base / "a", 2), 4, 2)
    await read_in(log, sandbox, base)
    found = await metrics_of(log, sandbox)
    assert found == {
        ("a", 10_000, "loss"): steps(6),
        ("a", 10_001, "loss"): steps(3, 1),
        ("a", 10_002, "loss"): steps(3, 2),
        ("a", 20_000, "loss"): steps(2, 4),
    }


async def test_two_watchers_of_a_directory_agree(sandbox: Sandbox, log: KafkaLog, tmp_path: Path) -> None:
    """The log decides which positions count; a row has the key of its point, so there is one of each."""
    base = tmp_path / "runs"
    paths = [begin_file(base / f"run-{number}", number) for number in range(3)]
    async with watching(log, sandbox, base, HOUR_S), watching(log, sandbox, base, HOUR_S):
        for first in range(0, 20, 10):
            for path in paths:
                points(path, first, 10)
            sizes = {path.name: path.stat().st_size for path in paths}

            async def are_read(sizes: dict[str, int] = sizes) -> bool:
                return await ends_of(log, sandbox) == sizes

            await poll_until(are_read)
    found = await metrics_of(log, sandbox)
    assert {key: sorted(set(each)) for key, each in found.items()} == {
        (path.parent.name, 10_000, "loss"): steps(20) for path in paths
    }


async def test_tags_over_the_limit_are_counted_in_one_dead_letter_and_the_rest_is_read(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    base = tmp_path / "runs"
    path = begin_file(base / "a")
    with path.open("ab") as file:
        for number in range(10_003):
            file.write(record(f"tag/{number}", 1, 1, 1.0) * 2)
        file.write(record("tag/0", 2, 2, 1.0) + record("line\nbreak", 2, 2, 1.0))
    report = await read_in(log, sandbox, base)
    assert report.points == 20_001
    letters = await letters_of(log, sandbox)
    assert [code for code, _ in letters] == ["bad_tag", "too_many_tags"]
    assert letters[1][1].startswith("6 values have tags after the first 10,000 of their job")


async def test_a_directory_that_is_a_link_or_without_event_files_is_no_job(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S19."""
    base = tmp_path / "runs"
    points(begin_file(tmp_path / "outside"), 0, 5)
    (base / "empty").mkdir(parents=True)
    (base / "link").symlink_to(tmp_path / "outside")
    assert (await read_in(log, sandbox, base)).jobs == 0
    with pytest.raises(NotADirectoryError):
        await read_in(log, sandbox, tmp_path / "missing")


def _skips(report: WatchReport, jobs: set[str]) -> Callable[[], Awaitable[bool]]:
    async def skips() -> bool:
        return report.deleted == jobs

    return skips


async def test_a_deleted_job_is_passed_over_until_it_is_restored(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S13: not brought back by the next scan, nor by a file that grows."""
    base = tmp_path / "runs"
    points(begin_file(base / "a"), 0, 5)
    async with watching(log, sandbox, base, 0.05) as report:
        await poll_until(has(report, 5))
        job = job_id_of(str(base), "a")
        await publish_command(log, sandbox, job, DeleteSummaryJob())
        await poll_until(has_event(log, sandbox, "SummaryJobDeleted"))
        points(event_file(base / "a"), 5, 5)
        points(begin_file(base / "b"), 0, 5)
        await poll_until(has(report, 10))
        await poll_until(_skips(report, {job}))
        assert report.points == 10
        await publish_command(log, sandbox, job, RestoreSummaryJob())
        await poll_until(has(report, 15))
        await poll_until(_skips(report, set()))
    assert (await metrics_of(log, sandbox))["a", 10_000, "loss"] == steps(10)


async def test_the_files_of_a_purged_job_that_is_restored_are_read_again(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S13: their points have the number of another session, since the rows of the first are gone."""
    base = tmp_path / "runs"
    points(begin_file(base / "a"), 0, 5)
    async with watching(log, sandbox, base, 0.05) as report:
        await poll_until(has(report, 5))
        job = job_id_of(str(base), "a")
        await publish_command(log, sandbox, job, DeleteSummaryJob(purge=True))
        await poll_until(has_event(log, sandbox, "SummaryJobDeleted"))
        await publish_command(log, sandbox, job, RestoreSummaryJob())
        await poll_until(has(report, 10))
    assert (await metrics_of(log, sandbox))["a", 20_000, "loss"] == steps(5)


async def test_a_quarantined_file_is_read_at_once_on_command(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S18: an import marks the file, so that the pause has long been an hour when the command comes."""
    base = tmp_path / "runs"
    path = begin_file(base / "a")
    points(path, 0, 5)
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    with frozen_clock():
        async with watching(log, sandbox, base, HOUR_S) as report:
            await poll_until(has_problem(report, "a", "damaged_record"))
            path.write_bytes(right)
            await publish_command(log, sandbox, job_id_of(str(base), "a"), RetrySummaryFile(file=path.name))
            await poll_until(has(report, 5))


async def test_another_file_in_the_place_of_one_is_read_as_a_file_of_its_own(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S17, S18: said first, and read from its start under another number once it stays so."""
    base = tmp_path / "runs"
    points(begin_file(base / "a"), 0, 5)
    async with watching(log, sandbox, base, HOUR_S) as report:
        await poll_until(has(report, 5))
        points(begin_file(base / "a", number=1, time_ms=77_000), 2, 3)
        await poll_until(has(report, 8))
    found = await metrics_of(log, sandbox)
    assert found == {("a", 10_000, "loss"): steps(5), ("a", 20_000, "loss"): steps(3, 2)}
    codes = [event[3] for event in await summary_events(log, sandbox) if event[0] == "SummaryFileQuarantined"]
    assert set(codes) <= {"file_replaced", "file_shrunk"}
    assert codes


async def test_a_file_that_comes_back_is_well_again(sandbox: Sandbox, log: KafkaLog, tmp_path: Path) -> None:
    """S18: also without a byte more than the log has."""
    base = tmp_path / "runs"
    path = begin_file(base / "a")
    points(path, 0, 5)
    points(begin_file(base / "a", 2), 0, 5)
    await read_in(log, sandbox, base)
    path.rename(tmp_path / "away")
    assert (await read_in(log, sandbox, base)).problems == {("a", path.name): "file_vanished"}
    (tmp_path / "away").rename(path)
    assert (await read_in(log, sandbox, base)).problems == {}
    assert (await read_in(log, sandbox, base)).files == 0


async def test_jobs_of_a_directory_that_is_not_mounted_have_not_vanished(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    base = tmp_path / "runs"
    points(begin_file(base / "a"), 0, 5)
    await read_in(log, sandbox, base)
    base.rename(tmp_path / "away")
    async with watching(log, sandbox, base, 0.05) as report:
        await poll_until(has_problem(report, ".", "file_vanished"))
        (tmp_path / "away").rename(base)
        points(event_file(base / "a"), 5, 5)
        await poll_until(has(report, 5))
    assert await summary_events(log, sandbox) == []
