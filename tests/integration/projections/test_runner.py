"""The runner against a real Postgres: rows, also of reports without effect, positions, rivals."""

import asyncio
from typing import Any

from tests.integration.projections.harness import (
    TOPICS,
    Written,
    all_rows,
    events_of,
    query,
    rows_of_the_whole_log,
    running_projections,
)
from tests.unit.projections.given import WORKER, HistoryWriter, search_decisions, write_small_history
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.streams.commands import RecordDeadLettered, Source
from trackside.contracts.tasks.tasks import MetricReported
from trackside.domain.folding.streams import Streams, dump
from trackside.domain.streams.stream import shrink
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.memory import MemoryLog
from trackside.projections.writing.snapshots import PostgresSnapshots
from trackside.replay.rebuild.rebuild import rebuild

OWNERS = ("dispatcher", "scheduler", "summary-indexer")


async def test_rows_say_what_the_log_says(log: MemoryLog, tables: str) -> None:
    await write_small_history(log, TOPICS)
    async with running_projections(log, tables, *OWNERS) as rows:
        await rows.caught_up()
    searches = await query(tables, "SELECT search_id, status, trials, ended_trials FROM searches ORDER BY 1")
    assert searches == [("one", "DONE", 3, 3), ("open", "NO_MORE_TRIAL", 5, 5), ("two", "DONE", 4, 4)]
    failed = await query(
        tables,
        "SELECT status, value, ended_ms > 0, cardinality(report_steps) FROM trials WHERE task_id = 'two.2'",
    )
    assert failed == [("FAILED", None, True, 5)]
    attempts = await query(
        tables,
        "SELECT attempt, status, ending, exit_code, worker_id FROM attempts WHERE task_id = $1 ORDER BY 1",
        "one.1",
    )
    assert attempts == [(1, "EXITED", "lost", 1, "w1"), (2, "FINISHED", "finished", 0, "w1")]
    error = await query(
        tables,
        "SELECT error_stage, error_message FROM attempts WHERE ending = 'failed' AND stream_id = $1",
        "two",
    )
    assert error == [("TRAIN", "bad\ufffdvalue")]
    commands = await query(
        tables,
        "SELECT command_id, status, code, publisher, received_at <= answered_at FROM dashboards.commands "
        "WHERE stream_id = 'two' ORDER BY 1",
    )
    assert commands == [
        ("late", "refused", "unknown_field", "cli", True),
        ("two-start", "accepted", None, "cli", True),
    ]
    devices = "SELECT device_id, state FROM dashboards.devices WHERE worker_id = 'w1' ORDER BY 1"
    assert await query(tables, devices) == [("cpu0", "free"), ("cpu1", "free")]
    assert len(await query(tables, "SELECT * FROM dashboards.reports WHERE search_id = 'one'")) == 15


async def test_a_batch_read_again_changes_nothing(written: Written) -> None:
    before = await all_rows(written.dsn)
    await query(written.dsn, "UPDATE positions SET position = greatest(0, position - 20)")
    async with running_projections(written.log, written.dsn, *OWNERS) as rows:
        await rows.caught_up()
    assert await all_rows(written.dsn) == before


async def test_two_runners_of_one_owner_write_the_same_rows_as_one(log: MemoryLog, tables: str) -> None:
    await log.ensure(TOPICS.shared)
    history = HistoryWriter(log, TOPICS)
    owners = ("dispatcher", "scheduler")
    async with running_projections(log, tables, *owners, *owners) as rows:
        for name in ("a", "b", "c", "d"):
            for decision in search_decisions(name, lost=1):
                await history.append(name, decision)
                await asyncio.sleep(0)
            await rows.caught_up()
    found = await all_rows(tables)
    assert await rows_of_the_whole_log(log, tables) == found


async def test_wiped_read_models_come_back_while_it_runs(written: Written) -> None:
    before = await all_rows(written.dsn)
    async with running_projections(written.log, written.dsn, *OWNERS) as rows:
        await rows.caught_up()
        await query(written.dsn, "DROP SCHEMA trackside CASCADE")
        await rows.caught_up()
    assert await all_rows(written.dsn) == before


async def test_snapshots_hold_what_a_fold_of_the_whole_log_gives(kept: Written) -> None:
    log, recovered = kept.log, await PostgresSnapshots(kept.dsn).load()
    assert recovered is not None
    folded = Streams(AGGREGATES)
    tail = Streams(AGGREGATES, {stream.stream_id: stream for stream in recovered.streams})
    for record in await events_of(log):
        folded.fold(record)
        if record.offset >= recovered.positions.get(record.partition, 0):
            tail.fold(record)
    for stream_id, stream in folded.by_id.items():
        found = tail.by_id[stream_id]
        if stream.closed:
            assert found.commands == stream.commands
            assert found.tasks == {}
        else:
            shrink(found)  # the snapshot has forgotten what had settled by then
            shrink(stream)
            assert dump(found) == dump(stream)


async def test_snapshots_that_cannot_be_trusted_are_not_used(kept: Written) -> None:
    assert await PostgresSnapshots(kept.dsn).load() is not None
    for harm in (
        "UPDATE snapshots SET fold = 'another' WHERE stream_id = 'open'",
        "UPDATE snapshot_positions SET fold = 'another'",
        "DELETE FROM snapshots WHERE stream_id = 'open'",
        "UPDATE snapshots SET state = '{}' WHERE stream_id = 'open'",
        "DROP TABLE snapshots",
    ):
        with kept.copied() as harmed:
            await query(harmed.dsn, harm)
            assert await PostgresSnapshots(harmed.dsn).load() is None, harm
    assert await PostgresSnapshots("postgresql://127.0.0.1:1/none").load() is None, "nor without Postgres"


async def test_a_runner_that_starts_again_goes_on_from_its_snapshots(written: Written) -> None:
    await HistoryWriter(written.log, TOPICS).search("later", lost=0)
    async with running_projections(written.log, written.dsn, *OWNERS) as rows:
        await rows.caught_up()
    found = await all_rows(written.dsn)
    assert await rows_of_the_whole_log(written.log, written.dsn) == found


class ForgetfulLog(MemoryLog):
    """A log whose first dead letter is kept no longer."""

    async def beginnings(self, topic: str) -> dict[int, int]:
        found = await super().beginnings(topic)
        return {0: 1} if topic == TOPICS.dead_letters.name else found


async def test_dead_letters_that_are_gone_stop_nothing(tables: str) -> None:
    log = ForgetfulLog()
    await log.ensure(TOPICS.shared)
    writer = RecordWriter("dispatcher", "1")
    for offset in range(3):
        source = Source(topic="trackside.commands", partition=0, offset=offset)
        letter = RecordDeadLettered(
            source=source, code="not_json", message="no", reader="dispatcher", sha256="", head_base64=""
        )
        await log.publish(TOPICS.dead_letters.name, 0, writer.single("x", letter))
    async with running_projections(log, tables, "summary-indexer") as rows:
        await rows.caught_up()
    found = await query(tables, 'SELECT topic, "offset", code FROM dashboards.dead_letters ORDER BY 2')
    assert found == [("trackside.commands", 1, "not_json"), ("trackside.commands", 2, "not_json")]
    report = await rebuild(log, TOPICS, tables)
    assert report.equal
    assert report.rows == {"dead_letters": 2}


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
    async with running_projections(log, tables, *OWNERS) as rows:
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
    async with running_projections(log, tables, *OWNERS) as rows:
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
