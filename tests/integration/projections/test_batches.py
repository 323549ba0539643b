"""Rows of batches, their groups, tasks, attempts and placements, as the views give them."""

import json

import pytest

from tests.integration.projections.harness import TOPICS, Written, events_of, query, running_projections
from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.fleet.fleet import DeviceUnhealthy
from trackside.domain.folding.streams import Streams, load, pack
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.projections.writing.snapshots import PostgresSnapshots
from trackside.replay.rebuild.rebuild import rebuild

GIB = 2**30


@pytest.fixture
def rows(kept: Written) -> str:
    return kept.dsn


async def test_batches_and_their_groups_are_counted(rows: str) -> None:
    found = await query(
        rows,
        "SELECT batch_id, status, tasks, submitted, open_tasks, finished_tasks, unfinished_tasks, "
        "stop_reason FROM dashboards.batches ORDER BY 1",
    )
    assert found == [
        ("going", "RUNNING", 4, 3, 3, 0, 0, ""),
        ("halted", "STOPPED", 4, 3, 0, 0, 3, "enough\ufffd"),
        ("serving", "RUNNING", 3, 3, 3, 0, 0, ""),
        ("tasks", "DONE", 4, 4, 0, 2, 2, ""),
    ]
    groups = await query(
        rows,
        "SELECT batch_id, group_number, name, status, device, submitted, ends, started_at <= ended_at "
        "FROM dashboards.groups ORDER BY 1, 2",
    )
    ends = {"cancelled": 1, "finished": 1, "timed_out_run": 1}
    assert [(*row[:6], json.loads(str(row[6])), row[7]) for row in groups] == [
        ("going", 1, "warm-up", "RUNNING", "gpu0", 3, {}, None),
        ("going", 2, "group-2", "WAITING", None, 0, {}, None),
        ("halted", 1, "warm-up", "STOPPED", "gpu0", 3, {"cancelled": 3}, True),
        ("halted", 2, "group-2", "SKIPPED", None, 0, {}, None),
        ("serving", 1, "group-1", "RUNNING", None, 3, {}, None),
        ("tasks", 1, "warm-up", "DONE", "gpu0", 3, ends, True),
        ("tasks", 2, "group-2", "DONE", None, 1, {"finished": 1}, True),
    ]


async def test_a_task_has_its_group_its_name_and_what_it_asks_for(rows: str) -> None:
    found = await query(
        rows,
        "SELECT group_number, name, state, ending, objective, priority, fixed_device, estimate_memory_bytes, "
        "estimate_cuda_memory_bytes, queue_timeout_s, unschedulable FROM dashboards.tasks "
        "WHERE stream_id = 'tasks' ORDER BY 1, 2",
    )
    assert found == [
        (1, "2", "ended", "cancelled", None, 5, "gpu0", GIB, None, 60.0, "too large\ufffd"),
        (1, "a", "ended", "finished", None, 9, "gpu0", GIB, None, None, None),
        (1, "c", "ended", "timed_out_run", None, 5, "gpu0", GIB, 2 * 10**9, None, None),
        (2, "1", "ended", "finished", None, 5, None, None, None, None, None),
    ]


async def test_every_placement_has_a_row_also_those_that_came_to_nothing(rows: str) -> None:
    found = await query(
        rows,
        "SELECT attempt, placement, ending, code, message, accepted_at IS NOT NULL, ended_at >= assigned_at "
        "FROM dashboards.placements WHERE task_id = 'tasks.1.a' ORDER BY 1, 2",
    )
    assert found == [
        (1, 1, "refused", "out_of_memory", "1 GiB more than is free\ufffd", False, True),
        (1, 2, "returned", None, None, False, True),
        (1, 3, "preempted", None, None, True, True),
        (1, 4, "oom_device", None, None, True, True),
        (2, 1, "finished", None, None, True, True),
    ]
    use = await query(rows, "SELECT count(*) FROM dashboards.device_use WHERE task_id = 'tasks.1.a'")
    assert use == [(10,)], "two devices each"


async def test_an_attempt_says_what_it_reserved_and_what_it_took(rows: str) -> None:
    found = await query(
        rows,
        "SELECT attempt, reserved_memory_bytes, reserved_cuda_memory_bytes, estimated_by, peak_memory_bytes, "
        "peak_cuda_memory_bytes, interrupts, leftovers FROM dashboards.attempts WHERE task_id = 'tasks.1.a' "
        "ORDER BY 1",
    )
    assert found == [
        (1, 0, 3 * GIB, "raised", GIB // 2, GIB, 1, ["sleep 60 (17)\ufffd"]),
        (2, GIB, 2 * GIB, "group", GIB // 2, GIB, 0, []),
    ]


async def test_an_attempt_says_which_incarnation_started_it_and_which_have_adopted_it(rows: str) -> None:
    found = await query(
        rows,
        "SELECT attempt, started_by, adopted_by FROM dashboards.attempts WHERE stream_id = 'tasks' "
        "AND (task_id = 'tasks.1.a' OR started_by IS NULL) ORDER BY task_id DESC, 1",
    )
    assert found == [(1, "i2", []), (2, "i2", ["i3", "i4\ufffd"]), (1, None, [])]


async def test_t21_what_tasks_of_a_type_took_stands_beside_what_was_said(rows: str) -> None:
    found = await query(
        rows,
        "SELECT runs, finished, out_of_memory, interrupts, load_time_p50_ms, train_time_max_ms, "
        "peak_memory_p50_bytes, estimate_memory_bytes, peak_cuda_memory_max_bytes, "
        "estimate_cuda_memory_bytes FROM dashboards.task_types WHERE task_type = 'faces'",
    )
    assert found == [(1, 0, 0, 0, 12, 345, GIB // 2, GIB, GIB, 2 * 10**9)]


async def test_a_device_shows_what_runs_there_and_what_that_reserves(written: Written) -> None:
    statement = (
        "SELECT device_id, state, task_ids, reserved_bytes, unhealthy FROM dashboards.devices "
        "WHERE worker_id = 'w2' ORDER BY 1"
    )
    found = await query(written.dsn, statement)
    assert [(row[0], row[1], *row[3:]) for row in found] == [
        ("cpu0", "busy", GIB, None),
        ("cpu1", "busy", GIB, None),
    ], "what waits behind another task reserves nothing yet"
    assert [set(map(str, row[2])) for row in found if isinstance(row[2], list)] == [
        {"going.1.a", "going.1.c"}
    ] * 2
    token = {"worker_id": "w2", "incarnation": "i2", "device_id": "cpu1"}
    failed = DeviceUnhealthy(**token, reason="fell off the bus\x00")
    writer = RecordWriter("worker", "w2")
    async with running_projections(written.log, written.dsn, "scheduler") as following:
        await written.log.append(TOPICS.fleet.name, 0, [writer.single("w2", failed)])
        await following.caught_up()
    found = await query(written.dsn, statement)
    assert [(row[1], row[4]) for row in found] == [("busy", None), ("failed", "fell off the bus\ufffd")]


async def test_snapshots_of_streams_with_a_batch_load_as_they_were(kept: Written) -> None:
    streams = Streams(AGGREGATES)
    for record in await events_of(kept.log):
        streams.fold(record)
    recovered = await PostgresSnapshots(kept.dsn).load()
    assert recovered is not None
    found = {stream.stream_id: stream for stream in recovered.streams}
    for batch_id in ("tasks", "halted", "going"):
        stream = streams.by_id[batch_id]
        assert load(pack(stream), AGGREGATES) == stream
        assert stream.root is not None and stream.root.spec.groups[0].tasks[2].resources is not None
    assert batch_of(found["going"]) == batch_of(streams.by_id["going"])


async def test_a_rebuild_of_batches_is_equal(kept: Written) -> None:
    report = await rebuild(kept.log, TOPICS, kept.dsn)
    assert report.equal, str(report)
    assert (report.rows["batches"], report.rows["groups"], report.rows["placements"]) == (4, 7, 26)


async def test_services_are_ready_waiting_or_starting_and_say_what_they_have_acknowledged(rows: str) -> None:
    found = await query(
        rows,
        "SELECT task_id, state, ready_since IS NOT NULL, detail IS NOT NULL, not_before IS NOT NULL, "
        "attempts, restarts, worker_id, instruction_number, acknowledged_number, acknowledged_ok, "
        "acknowledged_detail ->> 'why' FROM dashboards.services ORDER BY 1",
    )
    assert found == [
        ("serving.1.down", "waiting", False, False, True, 2, 1, "w2", 1, None, None, None),
        ("serving.1.new", "starting", False, False, False, 1, 0, "w2", None, None, None, None),
        ("serving.1.up", "ready", True, True, False, 1, 0, "w2", 2, 2, False, "no such model\ufffd"),
    ]
