"""Reports that have no effect are rows with their reason, the same in a rebuild and after a restart."""

from typing import Any

from tests.integration.projections.harness import TOPICS, query, running_projections
from tests.unit.projections.given import WORKER, HistoryWriter, search_decisions, write_small_history
from trackside.contracts.tasks import MetricReported
from trackside.eventlog.memory import MemoryLog
from trackside.replay.rebuild.rebuild import rebuild


async def stray(history: HistoryWriter, stream: str, **fields: Any) -> None:
    known = {"attempt": 1, "placement": 1, "kind": "PERIODICAL", "step": 0, "value": 0.5}
    report = MetricReported.model_validate({**known, **fields})
    await history.append(stream, [WORKER.single(stream, report)])


async def test_d16_d30_reports_without_effect_are_kept_with_their_reason(tables: str) -> None:
    log = MemoryLog()
    history = await write_small_history(log, TOPICS)
    strays: list[tuple[str, dict[str, Any], str]] = [
        ("one", {"task_id": "one.0"}, "late"),
        ("nobody", {"task_id": "nobody.0"}, "orphan"),
        ("open", {"task_id": "open.9"}, "orphan"),
        ("open", {"task_id": "open.0", "step": 2**70, "value": None, "non_finite": "inf"}, "late"),
    ]
    async with running_projections(log, tables, "dispatcher", "scheduler", "summary-indexer") as rows:
        for stream, fields, _ in strays[:2]:
            await stray(history, stream, **fields)
        await rows.caught_up()
    for stream, fields, _ in strays[2:]:
        await stray(history, stream, **fields)
    begun = [decision for at, decision in enumerate(search_decisions("mid", reports=4)) if at < 12]
    for decision in begun:
        await history.append("mid", decision)
    await stray(history, "mid", task_id="mid.0", kind="FINAL", step=4, value=9.0)
    await stray(history, "mid", task_id="mid.0", kind="FINAL", step=4, value=7.0)
    await stray(history, "mid", task_id="mid.0", attempt=2)
    await stray(history, "mid", task_id="mid.0", step=1)
    async with running_projections(log, tables, "dispatcher", "scheduler", "summary-indexer") as rows:
        await rows.caught_up()
    found = await query(
        tables, 'SELECT task_id, reason FROM dashboards.uncounted_metrics ORDER BY stream_id, "offset"'
    )
    expected = [(fields["task_id"], reason) for _, fields, reason in strays]
    expected += [("mid.0", "repeat"), ("mid.0", "stale"), ("mid.0", "repeat")]
    assert sorted(found) == sorted(expected)
    assert await query(tables, "SELECT objective FROM tasks WHERE task_id = 'mid.0'") == [(9.0,)]
    odd = "SELECT step, value, non_finite FROM uncounted_metrics WHERE task_id = 'open.0'"
    assert await query(tables, odd) == [(2**63 - 1, None, "inf")]
    assert (await rebuild(log, TOPICS, tables)).equal
