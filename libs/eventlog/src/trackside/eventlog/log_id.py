"""Which log this is: its id, made by the set-up, and where its records end.

What comes from a log (rows, the folder of a worker, a backup) has the name of the log, and is refused to any
other. The name rests on the id in the log's first record, since a deployment may give all of its clusters one
id. It has the cluster's id too, as a copy of a broker's files has the same records. A log that an earlier
release began has no id of its own, and is named by its cluster alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import Topic, Topics
from trackside.contracts.fleet.fleet import LogBegun
from trackside.eventlog.errors import AnotherLogError, OffsetGoneError, PreflightError, TransientError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.key_folder import SETUP
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.eventlog.retry import retry_with_timeout

NOTE = "log-id"
"""The file in a folder with the name of the log that it belongs to."""
STREAM = "log/"
"""The stream of the first record: no identifier ends so, thus no command is about it."""
SILENCE_TRIES = 5


@dataclass(frozen=True, slots=True)
class NamedLog:
    """A log and its name, for those who compare what they have with it."""

    log: Log
    name: str
    topics: frozenset[str]
    """The names of the topics that the reader may see, and compares."""

    async def ends(self) -> Mapping[TopicPartition, int]:
        """Returns the offset after the last record by partition; raises TransientError after a minute."""
        found = await retry_with_timeout(partial(self.log.ends_of, self.topics), "all")
        return {(topic, partition): end for topic in found for partition, end in found[topic].items()}


async def named_log(log: Log, topics: Topics, *others: Topic) -> NamedLog:
    """Returns a log with its name; events, fleet and `others` are compared. Raises TransientError."""
    names = frozenset(topic.name for topic in (topics.events, topics.fleet, *others))
    return NamedLog(log, await log_name(log, topics), names)


async def log_name(log: Log, topics: Topics) -> str:
    """Returns `<id>@<cluster>/<prefix>`, without the id, or the prefix, where there is none.

    Raises TransientError.
    """
    cluster, own = await log.cluster_id(), await id_in_log(log, topics)
    name = f"{own}@{cluster}" if own else cluster
    return f"{name}/{topics.prefix}" if topics.prefix else name


def cluster_in(name: str) -> str:
    """Returns the id of the cluster in the name of a log."""
    return name.partition("/")[0].rpartition("@")[2]


async def id_in_log(log: Log, topics: Topics) -> str:
    """Returns the id in the first record of a log; empty if it begins with another one, or has none yet."""
    place = (topics.fleet.name, 0)
    if not (await log.ends(topics.fleet.name)).get(0):
        return ""
    reader = log.reader({place: 0})
    try:
        for _ in range(SILENCE_TRIES):
            if entries := await reader.read(1.0, 1):
                return _id_of(entries[0])
    except OffsetGoneError:
        return ""
    finally:
        await reader.close()
    raise TransientError(f"the first record of {topics.fleet.name} did not come")


def is_begin(entry: Entry, topics: Topics) -> bool:
    """Returns whether a record is the one that has the id of its log."""
    return (entry.topic, entry.partition, entry.offset) == (topics.fleet.name, 0, 0) and bool(_id_of(entry))


def _id_of(entry: Entry) -> str:
    record = decode(entry) if entry.offset == 0 else None
    if record is None or not isinstance(record.message, LogBegun):
        return ""
    return record.message.log_id if record.envelope.role in LogBegun.written_by else ""


async def begin_log(log: Log, topics: Topics) -> None:
    """Writes the id of a log that has no record yet, as its first record; its topic of the fleet exists.

    Raises TransientError.
    """
    if not await _has_records(log, topics.fleet) and not await _has_records(log, topics.events):
        record = RecordWriter(SETUP, "log").single(STREAM, LogBegun(log_id=new_id()))
        await log.append(topics.fleet.name, 0, [record])


async def _has_records(log: Log, topic: Topic) -> bool:
    try:
        await log.preflight([topic])
    except PreflightError:  # it does not exist: the topic of the fleet is created first
        return False
    return any((await log.ends(topic.name)).values())


def claim_folder(folder: Path, name: str) -> None:
    """Writes the log's name into a folder that has none; raises AnotherLogError if it belongs to another log.

    Raises OSError.
    """
    note = folder / NOTE
    try:
        known = note.read_text("utf-8").strip()
    except FileNotFoundError:
        known = ""
    if known and known != name:
        raise AnotherLogError(
            f"{folder} belongs to the log {known}, but this log is {name}: a restored or copied "
            "installation is another one, and its workers have folders of their own; set "
            f"TRACKSIDE_KAFKA_BOOTSTRAP to the Kafka of {known}, or TRACKSIDE_WORKER_DATA_DIR to an empty "
            f"folder. If {name} replaces {known} for good, remove {folder}"
        )
    if not known:
        unfinished = note.with_suffix(".unfinished")
        unfinished.write_text(f"{name}\n", "utf-8")
        unfinished.replace(note)
