"""Bytes that an ended trial takes while its search continues: in memory and in a snapshot of its stream.

The reference is a reader that never forgets, of the same log in the same run.
"""

import gc
import tracemalloc

from bench import synthetic_log
from bench.measurements import Figure, Measurements, check_count
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.state import search_of
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.domain.folding.streams import Streams, pack
from trackside.domain.streams.stream import Stream, shrink
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.memory import MemoryLog

STREAM, TRIALS, READ_RECORDS = "digits-0000", 2_000, 1_000


async def measure() -> Measurements:
    """Folds an open search with ended trials twice: a reader forgets settled tasks, the other one nothing."""
    log, topics = MemoryLog(), Topics()
    await log.ensure(topics.shared)
    start_search = synthetic_log.command().model_copy(update={"max_trials": 10 * TRIALS})
    events = await synthetic_log.write_open_search(log, topics, STREAM, TRIALS, start_search)
    kept, whole = await _folded(log, topics, events, forgets=False)
    forgotten, small = await _folded(log, topics, events, forgets=True)
    figures = [
        _figure("an ended trial in memory", forgotten, kept),
        _figure("an ended trial in a snapshot", len(pack(small)), len(pack(whole))),
    ]
    counted = [
        check_count("ended trials, nothing forgotten", _ended(whole), TRIALS),
        check_count("ended trials, settled tasks forgotten", _ended(small), TRIALS),
    ]
    return Measurements(figures, counted)


def _figure(what: str, size: int, reference: int) -> Figure:
    return Figure("-", what, size / TRIALS, "B", reference / TRIALS, "nothing forgotten")


async def _folded(log: MemoryLog, topics: Topics, events: int, *, forgets: bool) -> tuple[int, Stream]:
    """Returns the bytes that the state of the stream takes, and the stream."""
    place = (topics.events.name, partition_of(STREAM, topics.events.partitions))
    streams, read, reader = Streams(AGGREGATES), 0, log.reader({place: 0})
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    while read < events:
        entries = await reader.read(1.0, READ_RECORDS)
        read += len(entries)
        for entry in entries:
            record = decode(entry)
            assert record is not None
            streams.fold(record)
        if forgets:
            shrink(streams.by_id[STREAM])
    del entries, entry, record
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await reader.close()
    return after - before, streams.by_id[STREAM]


def _ended(stream: Stream) -> int:
    search = search_of(stream)
    return 0 if search is None else len(search.ends)
