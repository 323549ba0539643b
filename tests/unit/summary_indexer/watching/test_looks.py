"""S18: when a file is read, how long one that can't be read waits, and when an unfinished one is marked."""

from dataclasses import replace

from trackside.summaries.directories import FoundFile
from trackside.summary_indexer.watching import scan_rules as looks

NOW_MS = 1_700_000_000_000


def found(size: int, modified_ms: int = NOW_MS) -> FoundFile:
    time_ns = modified_ms * 1_000_000
    return FoundFile("events.out.tfevents.1", "tensorboard", 7, 1, size, time_ns, time_ns)


def seen(file: FoundFile) -> looks.ScanHistory:
    return looks.ScanHistory(looks.version_of(file))


def test_after_a_start_a_file_is_read_if_the_log_ends_elsewhere_else_compared_once() -> None:
    assert looks.should_read(looks.LogPosition(0), looks.ScanHistory(), found(10), NOW_MS)
    assert looks.should_read(looks.LogPosition(20), looks.ScanHistory(), found(10), NOW_MS)
    assert not looks.should_read(looks.LogPosition(10), looks.ScanHistory(), found(10), NOW_MS)
    file, read = found(10), looks.LogPosition(10, fingerprint="ab")
    assert looks.should_compare(read, looks.ScanHistory(), file)
    assert not looks.should_compare(read, seen(file), file)
    assert not looks.should_compare(read, looks.ScanHistory(), found(11))
    assert not looks.should_compare(looks.LogPosition(10), looks.ScanHistory(), file)
    assert not looks.should_compare(
        looks.LogPosition(10, "no_rights", NOW_MS, fingerprint="ab"), looks.ScanHistory(), file
    )
    assert looks.should_read(read, looks.ScanHistory(looks.ANOTHER_VERSION), file, NOW_MS)


def test_a_file_that_did_not_change_is_not_read_again() -> None:
    file = found(10)
    assert not looks.should_read(looks.LogPosition(8), seen(file), file, NOW_MS)
    assert looks.should_read(looks.LogPosition(8), seen(file), found(11), NOW_MS)
    assert looks.should_read(looks.LogPosition(10), seen(file), found(10, NOW_MS + 1), NOW_MS)
    with_other_rights = replace(file, changed_ns=file.changed_ns + 1)
    assert looks.should_read(looks.LogPosition(10), seen(file), with_other_rights, NOW_MS)
    refused = looks.LogPosition(8, "no_rights", NOW_MS + 5)
    assert looks.should_read(refused, seen(file), with_other_rights, NOW_MS)


def test_a_damaged_file_waits_for_its_pause_and_an_unfinished_record_until_the_file_grows() -> None:
    file, position = found(10), looks.LogPosition(8, "damaged_record", NOW_MS + 5)
    assert not looks.should_read(position, seen(file), found(11), NOW_MS)
    assert looks.should_read(position, seen(file), file, NOW_MS + 5)
    file, position = found(10), looks.LogPosition(8, "record_unfinished", NOW_MS + 5)
    assert looks.should_read(position, seen(file), found(11), NOW_MS)
    assert not looks.should_read(position, seen(file), file, NOW_MS)


def test_a_tail_that_does_not_move_for_600_seconds_is_marked_and_pauses_double_up_to_an_hour() -> None:
    file = found(10, NOW_MS - looks.UNFINISHED_MS)
    assert looks.tail_due_ms(file) == NOW_MS
    assert looks.tail_problem(file, 8, NOW_MS) == "record_unfinished"
    assert looks.tail_problem(file, 8, NOW_MS - 1) == ""
    assert looks.tail_problem(file, 10, NOW_MS) == ""
    assert looks.tail_problem(found(0, NOW_MS - looks.UNFINISHED_MS), 0, NOW_MS) == "file_empty"
    assert [looks.pause_ms(n) for n in (1, 2, 3, 12)] == [1_000, 2_000, 4_000, 2_048_000]
    assert {looks.pause_ms(n) for n in (13, 100, 10**9)} == {looks.LONGEST_PAUSE_MS}
