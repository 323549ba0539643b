"""A snapshot is compared with all states that it may have been taken of."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.unit.domain.given import STREAM
from tests.unit.replay.given import TOPICS
from tests.unit.replay.parked_log import EVENTS, long_log
from trackside.contracts.envelope.topics import Topics
from trackside.domain.folding.streams import pack
from trackside.domain.outcome import Outcome
from trackside.domain.rows.table import RowValues
from trackside.domain.streams.stream import Stream
from trackside.projections.writing.snapshots import fold_name
from trackside.replay.find_stream import find_stream
from trackside.replay.history.point_in_time import NOW
from trackside.replay.history.recorded_stream import state_at
from trackside.verify.log import verify_topics
from trackside.verify.postgres import SnapshotChecks

AT_3 = Stream("s", 0, last_offset=3, commands_at=2)


async def checks_of(kept: Stream, offset: int = 3) -> SnapshotChecks:
    """Returns the checks of one snapshot, of the offset at which the last event was applied."""

    async def rows() -> AsyncIterator[RowValues]:
        yield kept.stream_id, 0, offset, fold_name(), pack(kept).decode()

    checks = SnapshotChecks(Topics())
    await checks.read(rows(), "")
    return checks


async def test_a_snapshot_taken_after_a_second_answer_that_does_not_count_is_right() -> None:
    """Both dispatchers had answered a command: its place moved, and no event was applied."""
    for kept in (AT_3, replace(AT_3, commands_at=5)):
        checks = await checks_of(kept)
        checks.compare(AT_3, Outcome.APPLIED, 3)
        checks.compare(replace(AT_3, commands_at=5), Outcome.DUPLICATE, 5)
        checks.compare(replace(AT_3, commands_at=5, last_offset=7), Outcome.APPLIED, 7)
        assert (checks.finish(), checks.compared) == ([], 1)


@pytest.mark.parametrize("last", [Outcome.DUPLICATE, Outcome.APPLIED])
async def test_a_snapshot_like_no_state_since_its_offset_is_found(last: Outcome) -> None:
    checks = await checks_of(replace(AT_3, commands_at=9))
    checks.compare(AT_3, Outcome.APPLIED, 3)
    checks.compare(replace(AT_3, commands_at=5), Outcome.DUPLICATE, 5)
    checks.compare(replace(AT_3, commands_at=9 if last is Outcome.APPLIED else 6), last, 9)
    (found,) = checks.finish()
    assert (found.invariant, found.offset) == ("INV-13", 3)
    assert found.message == "the snapshot of this offset is not what the log folds to"


async def test_a_snapshot_of_a_stream_that_was_parked_has_what_was_read_again() -> None:
    log = await long_log(30)
    _, _, skipped, *_ = log._entries[EVENTS][-5:]
    log._entries[EVENTS] = log._entries[EVENTS][: skipped.offset + 1]
    report = await verify_topics(log, TOPICS)
    assert report.parked == []
    recorded = await find_stream(log, TOPICS, STREAM)
    kept = (await state_at(recorded, NOW)).stream
    assert kept.last_offset == skipped.offset
    checks = await checks_of(kept, kept.last_offset)
    await verify_topics(log, TOPICS, on_record=lambda *each: checks.compare(each[0], each[1], each[2].offset))
    assert (checks.finish(), checks.compared) == ([], 1)
