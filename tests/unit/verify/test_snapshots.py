"""A snapshot is compared with all states that it may have been taken of."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from trackside.contracts.topics import Topics
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.domain.streams import pack
from trackside.domain.table import RowValues
from trackside.projections.snapshots import fold_name
from trackside.verify.postgres import SnapshotChecks

AT_3 = Stream("s", 0, last_offset=3, commands_at=2)


async def checks_of(kept: Stream) -> SnapshotChecks:
    """Returns the checks of one snapshot: of offset 3, at which the last event was applied."""

    async def rows() -> AsyncIterator[RowValues]:
        yield "s", 0, 3, fold_name(), pack(kept).decode()

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
