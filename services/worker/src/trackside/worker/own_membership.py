"""What the fleet topic has about this worker, folded as every other reader folds it.

A worker that acted on each WorkerLost as it is would end its tasks for any user who may write to the topic.
"""

from trackside.contracts.envelope.message import Message
from trackside.contracts.streams.keys import KEYS_STREAM
from trackside.domain.fleet.fleet import Fleet, evolve
from trackside.domain.outcome import Outcome
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry


class OwnMembership:
    """Folds the events about one worker, and those about the keys that they are signed with."""

    def __init__(self, worker_id: str) -> None:
        self._streams = (worker_id.encode(), KEYS_STREAM.encode())
        self._fleet = Fleet()

    def take(self, entry: Entry) -> Message | None:
        """Takes an entry of the topic, in order from its beginning; returns its event if that counts."""
        own, keys = self._streams
        stream = next((octets for name, octets in entry.headers if name == "ce_partitionkey"), None) or b""
        if stream != own and not stream.startswith(keys):
            return None  # of other workers there may be very many
        record = decode(entry)
        if record is None or evolve(self._fleet, record) is not Outcome.APPLIED:
            return None
        return record.message
