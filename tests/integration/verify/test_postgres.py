"""Snapshots and read models are verified too: they are what the log says, or it is said which are not."""

import json

from tests.integration.projections.harness import TOPICS, Written, query
from trackside.verify.postgres import verify_with_postgres


async def test_what_is_kept_is_what_the_log_says(kept: Written) -> None:
    verdict = await verify_with_postgres(kept.log, TOPICS, kept.dsn)
    assert verdict.findings == []
    assert verdict.skipped.keys() == {"INV-22"}
    assert verdict.checked["INV-13"] == verdict.streams == 8
    assert verdict.checked["INV-15"] > 100


async def test_a_snapshot_that_is_not_what_the_log_folds_to_is_found(written: Written) -> None:
    ((state,),) = await query(written.dsn, "SELECT state FROM snapshots WHERE stream_id = 'open'")
    other = json.loads(str(state))
    other["root"]["seed"] += 1
    await query(written.dsn, "UPDATE snapshots SET state = $1 WHERE stream_id = 'open'", json.dumps(other))
    await query(written.dsn, "UPDATE snapshots SET log_offset = 1 WHERE stream_id = 'one'")
    await query(written.dsn, "UPDATE snapshots SET log_offset = 999 WHERE stream_id = 'two'")
    verdict = await verify_with_postgres(written.log, TOPICS, written.dsn)
    found = {finding.stream: finding for finding in verdict.findings}
    assert {finding.invariant for finding in verdict.findings} == {"INV-13"}
    assert "not what the log folds to" in found["open"].message
    assert found["one"].offset == 1
    assert "which the log does not have" in found["two"].message
    alone = await verify_with_postgres(written.log, TOPICS, written.dsn, stream="open")
    assert alone.findings == [found["open"]]
    assert alone.skipped["INV-15"] == "of the whole log alone"


async def test_a_snapshot_of_another_fold_is_not_compared(written: Written) -> None:
    await query(written.dsn, "UPDATE snapshots SET fold = '0', state = '{}'")
    verdict = await verify_with_postgres(written.log, TOPICS, written.dsn)
    assert verdict.findings == []
    assert verdict.skipped["INV-13"] == "8 snapshots are of another release"


async def test_a_row_that_is_not_what_the_log_says_is_found(written: Written) -> None:
    await query(written.dsn, "UPDATE trials SET value = 0.25 WHERE task_id = 'one.2'")
    (found,) = (await verify_with_postgres(written.log, TOPICS, written.dsn)).findings
    assert str(found).startswith("INV-15 table trials: table trials, key (one, 2), column value: live 0.25")
