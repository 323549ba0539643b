"""Records the logs that tests write, each as a history: `python -m tests.histories.record FOLDER TEST...`.

Choose one of them, name it after what is special in it, put it in this folder, and write the digests of its
rows: `TRACKSIDE_WRITE_HISTORIES=1 python -m pytest tests/integration/projections/test_recorded_rows.py`.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.histories.recorded import History, fold, write
from tests.unit.domain.given import Told
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.eventlog.log import Entry
from trackside.eventlog.memory import MemoryLog
from trackside.simulation.virtual.log import VirtualLog

COUNTS: Final[tuple[int, ...]] = (1, 3, 12, *range(2, 64))
"""How many partitions the events of a test's log may have, those that are usual first."""


class Recording:
    """Writes the logs that a test has made into a folder, after the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[Any] = []
        for kind in (MemoryLog, VirtualLog, Told):
            self._watch(kind)

    def _watch(self, kind: Any) -> None:
        begin = kind.__init__

        def init(log: Any, *given: Any, **named: Any) -> None:
            begin(log, *given, **named)
            self._made.append(log)

        kind.__init__ = init

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        made, self._made[:] = list(self._made), []
        for number, log in enumerate(made):
            name = re.sub(r"[^a-z0-9]+", "-", f"{item.name}-{number}".lower())
            asyncio.run(self._write(name, list(_entries(log))))
        self._made.clear()  # those that were made to fold what is written
        return (yield)

    async def _write(self, name: str, entries: list[Entry]) -> None:
        partitions = _partitions(entries)
        if partitions is None:  # events are in a partition that is not their stream's: no service wrote it
            return
        topics = Topics(event_partitions=partitions)
        kept = {topic.name for topic in (topics.events, topics.fleet, topics.metrics, topics.dead_letters)}
        entries = [entry for entry in entries if entry.topic in kept]
        if entries:
            history = History(name, topics, entries, keys={}, end={})
            end = json.loads(json.dumps((await fold(history)).end()))
            write(History(name, topics, entries, keys={}, end=end), self._folder)


def _entries(log: Any) -> Iterator[Entry]:
    """Yields the entries of a log, partition by partition."""
    if isinstance(log, Told):
        for each in log.records:
            value, headers = each.message.model_dump_json().encode(), list(each.envelope.headers.items())
            yield Entry(each.topic, each.partition, each.offset, each.append_time_ms, None, value, headers)
        return
    held = log.entries if isinstance(log, VirtualLog) else log._entries
    for place in sorted(held):
        yield from held[place]


def _partitions(entries: Iterable[Entry]) -> int | None:
    """Returns how many partitions the events have if each stream is in that of its name, else None."""
    places = {
        ((dict(entry.headers).get("ce_partitionkey") or b"").decode(), entry.partition)
        for entry in entries
        if entry.topic == Topics().events.name
    }
    for count in COUNTS:
        if all(at == (partition_of(stream, count) if stream else at % count) for stream, at in places):
            return count
    return None


if __name__ == "__main__":
    into = Path(sys.argv[1])
    into.mkdir(parents=True, exist_ok=True)
    sys.exit(pytest.main(["-q", "-p", "no:xdist", *sys.argv[2:]], plugins=[Recording(into)]))
