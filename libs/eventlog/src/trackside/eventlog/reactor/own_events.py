"""The events that a process has sent to the log, by the ids of their records: what is read back of them."""

from collections.abc import Iterable
from typing import Final

from trackside.contracts.envelope.message import Record
from trackside.eventlog.log import Outgoing

MOST_EVENTS: Final = 100_000
"""How many events are remembered; of appends with an unknown outcome some may never be in the log."""
_ID: Final = "ce_id"


class DistrustedError(Exception):
    """What this process writes has no effect: to decide the same again would fill the log."""


class OwnEvents:
    """The events that are not folded yet.

    A source names an instance, not a process: after a restart the log has events of that name that another
    process decided. An id is of one event.
    """

    def __init__(self) -> None:
        self._ids: dict[bytes | None, None] = {}

    def add(self, records: Iterable[Outgoing]) -> None:
        """Remembers the records of a batch that is sent."""
        for record in records:
            self._ids[next((octets for name, octets in record.headers if name == _ID), None)] = None
        while len(self._ids) > MOST_EVENTS:
            del self._ids[next(iter(self._ids))]

    def take(self, record: Record) -> bool:
        """Returns whether this process sent a record that was read: true once for each event.

        Raises DistrustedError for one whose signature does not count.
        """
        if not self._ids:
            return False
        octets = record.envelope.headers.get(_ID)
        if octets not in self._ids:
            return False
        del self._ids[octets]
        if record.distrust:
            raise DistrustedError(
                f"events of {record.envelope.source} have no effect ({record.distrust}): this log requires "
                "signatures; set TRACKSIDE_SIGNING_KEY_FILE to a key that `trackside setup keys` lists for it"
            )
        return True
