"""Makes keys known to the log: the events about keys of each partition, signed by the installation.

Each partition of the events and of the fleet has its own, so that all readers meet them at the same place
among its other events. What a partition has already is not written again: a set-up that was interrupted is
repeated.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.topics import Topic, Topics
from trackside.contracts.envelope.trusted_keys import SignatureMode, Trust, TrustedKey
from trackside.contracts.streams.keys import (
    KeyRevoked,
    KeyTrusted,
    SignatureModeChanged,
    keys_stream,
)
from trackside.domain.fleet.fleet import Fleet, evolve
from trackside.domain.folding.streams import Streams
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.keys.decision_signer import DecisionSigner
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.key_folder import SERVICES, SETUP, WORKER, KeyFolder, trusted_key
from trackside.eventlog.keys.noted_keys import is_about_keys
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.eventlog.retry import retry_with_timeout

SILENCE_LIMIT_S = 30.0
Trusts = Mapping[TopicPartition, Trust]


class AnotherKeyError(Exception):
    """The log trusts an installation's key that is not this one: nothing that it signs would count."""


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """What is to be so in every partition: keys to trust by id, keys to revoke, and the mode."""

    trusted: Mapping[str, TrustedKey] = field(default_factory=dict)
    revoked: Sequence[str] = ()
    mode: SignatureMode | None = None


async def set_up_keys(
    log: Log, topics: Topics, folder: KeyFolder, workers: Iterable[str] = (), *, require: bool = False
) -> int:
    """Makes the keys that a folder lacks, for each service and these workers, and makes them known.

    With `require` events need a signature from then on: services must have their keys before that. Returns
    how many events were written. Raises AnotherKeyError, BadKeyFileError, TransientError.
    """
    names = (SETUP, *SERVICES, *(f"{WORKER}{worker}" for worker in workers))
    signers = {name: folder.make(name) for name in names}
    keys = {signer.key_id: trusted_key(name, signer) for name, signer in signers.items()}
    folder.list_keys(keys)
    changes = KeyChanges(keys, mode="require" if require else None)
    return await change_keys(log, topics, signers[SETUP], changes)


async def change_keys(log: Log, topics: Topics, root: DecisionSigner, changes: KeyChanges) -> int:
    """Writes the events that a partition lacks for these changes; returns how many.

    Raises AnotherKeyError, TransientError.
    """
    found, written = await read_trust(log, topics), 0
    for place, trust in found.items():
        _check_root(place, trust, root)
    for topic in (topics.events, topics.fleet):
        places = sorted(place for place in found if place[0] == topic.name)
        for place in places:
            events = list(_missing(place, found[place], root, changes))
            written += len(events)
            await _append(log, topic, place[1], len(places), root, events)
    return written


async def read_trust(log: Log, topics: Topics) -> dict[TopicPartition, Trust]:
    """Returns the keys that each partition of the events and the fleet trusts now; raises TransientError."""
    found: dict[TopicPartition, Trust] = {}
    streams, fleet = Streams(AGGREGATES), Fleet()

    def take(entry: Entry) -> None:
        record = decode(entry)
        if record is not None and entry.topic == topics.events.name:
            streams.fold(record)
        elif record is not None:
            evolve(fleet, record)

    for topic in (topics.events, topics.fleet):
        ends = await retry_with_timeout(partial(log.ends, topic.name), topic.name)
        await _read(log, topic, ends, take)
        for partition in sorted(ends):
            known = streams.trust_in(partition) if topic is topics.events else fleet.trust
            found[topic.name, partition] = known or Trust()
    return found


async def _read(log: Log, topic: Topic, ends: Mapping[int, int], take: Callable[[Entry], None]) -> None:
    """Reads a topic up to these ends; takes the entries that are about keys."""
    missing = {(topic.name, partition): end for partition, end in ends.items() if end}
    reader, last_read_s = log.reader(dict.fromkeys(missing, 0)), monotonic_s()
    try:
        while missing:
            entries = await reader.read(1.0)
            last_read_s = monotonic_s() if entries else last_read_s
            if monotonic_s() - last_read_s > SILENCE_LIMIT_S:
                raise TransientError(f"nothing more came from {topic.name} for {SILENCE_LIMIT_S:.0f} s")
            for entry in entries:
                place = (entry.topic, entry.partition)
                if is_about_keys(entry) and entry.offset < missing.get(place, 0):
                    take(entry)
                if entry.offset + 1 >= missing.get(place, entry.offset + 2):
                    del missing[place]
    finally:
        await reader.close()


def _check_root(place: TopicPartition, trust: Trust, root: DecisionSigner) -> None:
    key = trust.keys.get(root.key_id)
    if trust.keys and (key is None or key.revoked_at is not None or key.role != SETUP):
        known = [name for name, each in trust.keys.items() if each.role == SETUP and each.revoked_at is None]
        raise AnotherKeyError(
            f"{place[0]}-{place[1]} trusts the installation's key {', '.join(known)}, this one is "
            f"{root.key_id}: use the folder of keys that the installation was set up with"
        )


def _missing(
    place: TopicPartition, trust: Trust, root: DecisionSigner, changes: KeyChanges
) -> Iterable[Event]:
    """Yields the events that a partition lacks, the installation's own key first."""
    of = {"topic": place[0], "partition": place[1]}
    keys = {root.key_id: trusted_key(SETUP, root), **changes.trusted}
    for key_id, key in keys.items():
        if key_id not in trust.keys:
            yield KeyTrusted(
                **of, key_id=key_id, public_key=key.public_key, role=key.role, worker_id=key.worker_id
            )
    for key_id in changes.revoked:
        if key_id in trust.keys and trust.keys[key_id].revoked_at is None:
            yield KeyRevoked(**of, key_id=key_id)
    if changes.mode is not None and changes.mode != trust.mode:
        yield SignatureModeChanged(**of, number=len(trust.modes) + 1, mode=changes.mode)


async def _append(
    log: Log, topic: Topic, partition: int, partitions: int, root: DecisionSigner, events: Sequence[Event]
) -> None:
    if not events:
        return
    writer = RecordWriter(SETUP, root.key_id, root)
    stream = keys_stream(partition, partitions)
    records = [writer.signed(topic, writer.single(stream, event)) for event in events]
    await log.append(topic.name, partition, records)
