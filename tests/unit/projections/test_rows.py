import json
import math
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from tests.unit.domain.given import STREAM, over, spec, task_active
from tests.unit.domain.plausible import Chance
from tests.unit.domain.test_task_reuse import asked, goes_on, one_running, taken, within
from tests.unit.projections.given import write_small_history
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet.draining import DeviceDrained
from trackside.contracts.fleet.fleet import Device, WorkerJoined
from trackside.contracts.tasks.summaries import MetricPointsReported, Series
from trackside.domain.fleet.fleet import Fleet, Worker
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.rows.cells import BIGINT_MAX, bigints, json_text, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.draining import DrainedDevice
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.memory import MemoryLog
from trackside.projections.tables.draining import DrainedDeviceRows
from trackside.projections.tables.fleet import DeviceRows
from trackside.projections.tables.metrics import rows_of, series_id
from trackside.projections.tables.owners import OWNERS, SCHEDULER
from trackside.projections.writing.pending import PendingChanges
from trackside.projections.writing.row_changes import RowChanges

TOPICS = Topics(event_partitions=3)
OF_STREAMS = [projection for owner in OWNERS.values() for projection in owner.of_streams]
GROUPED = {projection.table.name for projection in OF_STREAMS if projection.table.grouped}


def all_rows(stream: Stream) -> dict[tuple[str, RowKey], RowValues]:
    return {(each.table.name, key): each.row(stream, key) for each in OF_STREAMS for key in each.keys(stream)}


async def small_history() -> list[Record]:
    log = MemoryLog()
    await write_small_history(log, TOPICS)
    reader = log.reader({(TOPICS.events.name, partition): 0 for partition in range(3)})
    return [record for entry in await reader.read(1.0) if (record := decode(entry)) is not None]


async def test_an_event_changes_only_rows_that_it_touches_and_they_have_a_cell_for_every_column() -> None:
    records, streams = await small_history(), Streams(AGGREGATES)
    assert changed_rows(records) > 200
    for record in records:
        streams.fold(record)
    for stream in streams.by_id.values():
        for projection in OF_STREAMS:
            for key in projection.keys(stream):
                row = projection.row(stream, key)
                assert len(row) == len(projection.table.columns)
                assert row[: projection.table.key_width] == key


@pytest.mark.parametrize("seed", range(8))
def test_an_event_of_a_random_log_changes_only_rows_that_it_touches(seed: int) -> None:
    assert changed_rows(Chance(Random(seed)).history(150).records) > 10


@pytest.mark.parametrize("answer", [[within(1), goes_on(1)], [within(1)]], ids=["now", "of an older release"])
def test_an_event_that_gives_a_task_its_next_trial_touches_its_row(answer: list[Event]) -> None:
    told = one_running()
    for events in ([asked()], [over(0, 0.5)], answer, [taken()]):
        told.tell(*events)
    assert changed_rows(told.records) > 20


def changed_rows(records: Iterable[Record]) -> int:
    """Returns how many rows the records change, all of which they touch."""
    streams, rows, count = Streams(AGGREGATES), dict[tuple[str, RowKey], RowValues](), 0
    for record in records:
        stream, outcome = streams.fold(record)
        if outcome is not Outcome.APPLIED:
            continue
        assert isinstance(record.message, Event)
        now = all_rows(stream)
        changed = {group_of(at) for at in now if rows.get(at) != now[at]}
        message = record.message
        touched = {(each.table.name, key) for each in OF_STREAMS for key in each.touched(stream, message)}
        assert changed <= touched
        assert {at for at in touched if at[0] not in GROUPED} <= now.keys()
        rows.update(now)
        count += len(changed)
    return count


def group_of(at: tuple[str, RowKey]) -> tuple[str, RowKey]:
    """Returns what an event touches if this row changes: of a grouped table all rows of a stream."""
    name, key = at
    return (name, key[:1]) if name in GROUPED else at


def test_a_kept_column_keeps_its_first_value() -> None:
    table = Table("t", ("key", "first", "last"), key_width=1, keeps_first=frozenset({"first"}))
    assert table.merged((1, "a", "x"), (1, "b", "y")) == (1, "a", "y")
    assert table.merged((1, None, "x"), (1, "b", "y")) == (1, "b", "y")
    assert Table("t", ("key", "only"), key_width=1, insert_only=True).merged((1, 2), (1, 3)) == (1, 2)


def test_a_join_replaces_all_devices_of_its_worker() -> None:
    device = Device(device_id="cpu0", kind="cpu", name="slot", memory_bytes=2**70)
    worker = Worker("w", "i", "h", {}, frozenset(), frozenset(), {}, 1)
    other = Worker("other", "i", "h", {"cpu0": device}, frozenset(), frozenset(), {}, 1)
    fleet = Fleet({"w": worker, "other": other})
    about: Any = {"host": "h", "devices": [], "task_types": [], "queues": [], "after": {}}
    joined = WorkerJoined(worker_id="w", incarnation="i", **about)
    pending = PendingChanges(0, 0)
    pending.note("", fleet, (DeviceRows(),), joined)
    (write,) = pending.writes()
    assert (write.rows, write.groups) == ([], ["w"])
    worker.devices["cpu0"] = device
    (write,) = pending.writes()
    assert write.rows == [("w", "cpu0", "cpu", "slot", BIGINT_MAX, None, None, None)]


def test_rows_of_several_streams_are_replaced_in_one_batch() -> None:
    drained = DeviceDrained(command_id="c", device_id="cpu0")
    pending, rows = PendingChanges(0, 0), (DrainedDeviceRows(),)
    for name in ("w1", "w2", "w3"):
        stream = Stream(name, 0, drained={"cpu0": DrainedDevice("", 7)} if name != "w3" else {})
        pending.note(name, stream, rows, drained)
    (write,) = pending.writes()
    assert write.groups == ["w1", "w2", "w3"]
    assert write.rows == [("w1", "cpu0", "", 7), ("w2", "cpu0", "", 7)]


def test_changes_that_turn_out_too_many_when_they_are_taken_are_not_taken_for_written() -> None:
    streams, changes = Streams(AGGREGATES), RowChanges(OWNERS[SCHEDULER], TOPICS, most_pending=0)
    records = task_active().records
    place = (TOPICS.events.name, records[0].partition)
    changes.start({place: 0})
    for record in records:
        stream, outcome = streams.fold(record)
        changes.note(stream, outcome, record)
    assert STREAM in streams.by_id and changes.noting
    assert changes.take({place: len(records)}) == {}
    assert not changes.noting
    assert changes.bases == {place: 0}


def test_what_is_noted_of_a_partition_that_is_not_taken_waits() -> None:
    streams, changes = Streams(AGGREGATES), RowChanges(OWNERS[SCHEDULER], TOPICS)
    records = task_active().records
    places = [(TOPICS.events.name, partition) for partition in (records[0].partition, 5)]
    changes.start(dict.fromkeys(places, 0))
    for record in records:
        changes.note(*streams.fold(record), record)
    assert list(changes.take({places[1]: 7})) == [places[1]]
    assert changes.bases == {places[0]: 0, places[1]: 7}
    (taken,) = changes.take({places[0]: len(records), places[1]: 7}).values()
    assert taken.size and taken.end == len(records)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ({"a": 1.5}, '{"a":1.5}'),
        ({"a\x00": ["\x00", 1]}, '{"a�":["�",1]}'),
        ({"a": math.nan, "b": math.inf, "c": "\x00"}, '{"a":null,"b":null,"c":"�"}'),
        ("\\u0000", '"\\\\u0000"'),
    ],
)
def test_json_holds_only_what_postgres_can(value: Any, text: str | None) -> None:
    assert json_text(value) == text


def test_texts_and_whole_numbers_are_made_to_fit() -> None:
    assert without_nul("a\x00b") == "a\ufffdb"
    assert bigints([1, 2**80, -(2**80)]) == [1, BIGINT_MAX, -BIGINT_MAX]


def test_a_specification_is_written_as_it_was_given() -> None:
    assert json.loads(json_text(spec()) or "") == spec().model_dump(mode="json")


def test_points_of_one_series_share_its_number_and_repeats_stay_in_order() -> None:
    columns = Series(tag="loss", steps=[1, 1, 2**70], times_ms=[5, 6, 7], values=[0.5, None, 1.0])
    message = MetricPointsReported(stream="s", task_id="s.0", attempt=1, series=[columns, columns])
    rows = rows_of([message])
    number = series_id("s.0", 1, "loss")
    assert rows.series == {number: (number, "s", "s.0", 1, "loss", "scalar")}
    first = [(number, 1, 5, 0.5, None), (number, 1, 6, None, None), (number, BIGINT_MAX, 7, 1.0, None)]
    assert rows.points == first * 2
    assert -(2**63) <= number < 2**63
    assert rows_of([message, message]).series == rows.series
    assert number != series_id("s.0", 2, "loss") != series_id("s.0", 1, "lo\0ss")
