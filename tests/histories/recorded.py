"""Logs recorded once, a file each: its entries, and the state that they folded to.

The first line of a file says how many partitions the events have, and has the private keys of encrypted
streams by their public ones. Each further line is an entry, partition by partition; the last one is the state
of all streams and of the fleet, and the outcome of each record, in the order of folding.
"""

import base64
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.topics import Topics
from trackside.domain.fleet import fleet
from trackside.domain.folding.streams import Streams, dump
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.encryption import Decryption
from trackside.eventlog.log import Entry, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.released_streams import read_again

FOLDER = Path(__file__).parent
CAUSES = {
    *("changed_at", "asked_at", "reported_at", "control_at", "failed_at", "started_at", "stopped_at"),
    *("unended", "settled", "trimmed", "unfinished", "commands_at", "incarnations"),
}
"""Fields that say why something was decided, not what is so, or that are kept for speed or to be shown."""
FLEET = TypeAdapter(fleet.Fleet)
MANY = 1_000_000
"""More entries than a history has."""
Json = dict[str, Any]


@dataclass(frozen=True)
class History:
    """A recorded log; `keys` are the private keys of its encrypted streams, by public key."""

    name: str
    topics: Topics
    entries: list[Entry]
    keys: dict[str, str]
    end: Json
    """What it folded to when it was recorded; empty if it has not been folded yet."""

    def clock(self) -> Callable[[], int]:
        """Returns a clock that says the append time of one entry after the other."""
        times = iter([entry.append_time_ms for entry in self.entries])
        return lambda: next(times)

    async def append_to(self, log: MemoryLog) -> None:
        """Appends the entries to an empty log that has this clock; those with a known key are decrypted."""
        await log.ensure(self.topics.shared)
        for entry in self.entries:
            outgoing = Outgoing(entry.key, entry.value, list(entry.headers))
            await log.append(entry.topic, entry.partition, [outgoing])
        starts = {(entry.topic, entry.partition): 0 for entry in self.entries}
        await Decryption(KnownKeys(self.keys)).decrypt(await log.reader(starts).read(1, MANY))


@dataclass(frozen=True)
class KnownKeys:
    """Private keys by public key, base64."""

    keys: Mapping[str, str]

    async def load(self, public_keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        known = {base64.b64decode(public): base64.b64decode(key) for public, key in self.keys.items()}
        return {public: known[public] for public in public_keys if public in known}

    def close(self) -> None: ...


def names() -> list[str]:
    """Returns the names of all recorded histories."""
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def read(name: str, folder: Path = FOLDER) -> History:
    first, *lines, end = [
        json.loads(line) for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    offsets: Counter[tuple[str, int]] = Counter()
    entries = []
    for line in lines:
        place = (line["topic"], line["partition"])
        headers = [(header, text.encode()) for header, text in line["headers"]]
        key = dict(headers).get("ce_partitionkey")
        entries.append(Entry(*place, offsets[place], line["time_ms"], key, _octets(line), headers))
        offsets[place] += 1
    topics = Topics(event_partitions=first["event_partitions"])
    return History(name, topics, entries, first["keys"], end)


def write(history: History, folder: Path = FOLDER) -> None:
    first = {"event_partitions": history.topics.event_partitions, "keys": history.keys}
    lines = [first, *(_line(entry) for entry in history.entries), history.end]
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    (folder / f"{history.name}.jsonl").write_text(text, "utf-8")


def _line(entry: Entry) -> Json:
    place = {"topic": entry.topic, "partition": entry.partition, "time_ms": entry.append_time_ms}
    line = {**place, "headers": [(name, (octets or b"").decode()) for name, octets in entry.headers]}
    try:
        return line | {"value": None if entry.value is None else entry.value.decode()}
    except UnicodeDecodeError:
        return line | {"base64": base64.b64encode(entry.value or b"").decode()}


def _octets(line: Json) -> bytes | None:
    if "base64" in line:
        return base64.b64decode(line["base64"])
    text: str | None = line["value"]
    return None if text is None else text.encode()


@dataclass
class Folded:
    """A history folded: its streams and fleet, and the outcomes and types of its records."""

    streams: Streams
    fleet: fleet.Fleet
    outcomes: list[str]
    effective: set[type[Event]]
    """The types of the events that changed a state, parked a stream, or are of a topic that nothing folds."""

    def end(self) -> Json:
        states = {name: meaning(json.loads(dump(each))) for name, each in self.streams.by_id.items()}
        fleet = json.loads(json.dumps(FLEET.dump_python(self.fleet), default=_in_order))
        return {"outcomes": self.outcomes, "states": states, "fleet": fleet}


def _in_order(value: Any) -> Any:
    """Returns what JSON has for a set, in one order, and for bytes."""
    return value.hex() if isinstance(value, bytes) else sorted(value)


async def fold(history: History) -> Folded:
    """Folds the events and the fleet of a history, partition by partition."""
    streams = Streams(AGGREGATES, partitions=history.topics.event_partitions)
    folded, topics = Folded(streams, fleet.Fleet(), [], set()), history.topics
    log = MemoryLog(history.clock())
    await history.append_to(log)

    def count(_: Stream | None, outcome: Outcome, record: Record) -> None:
        folded.outcomes.append(outcome.value)
        if outcome in (Outcome.APPLIED, Outcome.PARKED) and isinstance(record.message, Event):
            folded.effective.add(type(record.message))

    for topic, partition in dict.fromkeys((entry.topic, entry.partition) for entry in history.entries):
        for entry in await log.reader({(topic, partition): 0}).read(1, MANY):
            record = decode(entry, lambda *_: None)
            if record is None:
                folded.outcomes.append("unreadable")
            elif topic == topics.events.name:
                count(*streams.fold(record), record)
                if streams.released:
                    await read_again(log, topic, streams, count)
            elif topic == topics.fleet.name:
                count(None, fleet.evolve(folded.fleet, record), record)
            elif isinstance(record.message, Event):
                folded.effective.add(type(record.message))
    return folded


def meaning(state: Any) -> Any:
    """Returns what a state says, without causes."""
    if isinstance(state, list):
        return [meaning(each) for each in state]
    if not isinstance(state, dict):
        return state
    return {name: meaning(value) for name, value in state.items() if name not in CAUSES}


def differences(was: Any, now: Any, path: str = "$") -> Iterable[str]:
    """Yields where a state is another one than it was; a later release may have more fields."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name, value in was.items():
            yield from differences(value, now.get(name, "nothing"), f"{path}.{name}")
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for at, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from differences(one, other, f"{path}[{at}]")
    elif was != now:
        yield f"{path} was {was}, is {now}"
