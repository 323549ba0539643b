"""Incremental fetch sessions (KIP-227) for aiokafka, which asks for every partition in each fetch.

With a session the broker remembers what a consumer reads. A fetch names the partitions whose offset has
changed since the last one, and its answer those that have records: packing, sending and unpacking all the
others, most of them empty, is left out.
"""

from dataclasses import dataclass, field
from typing import Any

import structlog
from aiokafka.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch, for_code
from aiokafka.protocol.fetch import FetchRequest

log = structlog.get_logger("trackside.eventlog")

FIRST_VERSION = 7
"""The version of the request that has sessions first."""
WITH_LEADER_EPOCH, WITH_RACK = 9, 11
NO_SESSION, NEW, NEWEST_EPOCH = 0, 0, 2**31 - 1
UNKNOWN = -1
CLIENT_ERRORS = (FetchSessionIdNotFound.errno, InvalidFetchSessionEpoch.errno)
"""The broker has evicted or never had the session, or counts other fetches of it: a new one is begun."""
_Place = tuple[str, int]
_Wanted = dict[_Place, tuple[int, int]]
"""The next offset and the most bytes of each partition, by topic and number."""
_Topics = list[tuple[str, list[Any]]]


class SessionFetchRequest(FetchRequest):  # type: ignore[misc]  # the client has no types
    """A fetch in a session: `topics` is all that is read, the rest what the broker is told."""

    def __init_subclass__(cls) -> None:
        """Leaves the versions as they are."""

    def __init__(
        self, whole: FetchRequest, session_id: int, epoch: int, changed: _Topics, forgotten: _Topics
    ):
        self.__dict__.update(whole.__dict__)
        self._session = session_id, epoch
        self._changed = changed
        self._forgotten = forgotten

    def build(self, request_struct_class: Any) -> Any:
        """Returns the request in one version of the protocol; before version 7 there are no sessions."""
        version = request_struct_class.API_VERSION
        if version < FIRST_VERSION:
            return super().build(request_struct_class)
        epochs = (UNKNOWN,) if version >= WITH_LEADER_EPOCH else ()
        topics = [
            (topic, [(number, *epochs, offset, UNKNOWN, limit) for number, offset, limit in parts])
            for topic, parts in self._changed
        ]
        head = (UNKNOWN, self._max_wait_ms, self._min_bytes, self._max_bytes, self._isolation_level)
        rack = (self._rack_id,) if version >= WITH_RACK else ()
        return request_struct_class(*head, *self._session, topics, self._forgotten, *rack)


@dataclass(slots=True)
class _Session:
    """What one broker remembers: its number for the session, the next fetch of it, and the partitions."""

    id: int = NO_SESSION
    epoch: int = NEW
    known: _Wanted = field(default_factory=dict)

    def request(self, whole: FetchRequest) -> SessionFetchRequest:
        """Returns the request that makes the broker return what `whole` asks for."""
        wanted: _Wanted = {
            (topic, number): (offset, limit)
            for topic, parts in whole.topics
            for number, offset, limit in parts
        }
        if self.epoch == NEW:  # also ends a session that the broker may still have
            self.known = wanted
            return SessionFetchRequest(whole, self.id, NEW, whole.topics, [])
        known = self.known
        changed = {place: at for place, at in wanted.items() if known.get(place) != at}
        gone = known.keys() - wanted.keys()
        self.known = wanted
        asked = _by_topic({place: (place[1], *at) for place, at in changed.items()})
        return SessionFetchRequest(
            whole, self.id, self.epoch, asked, _by_topic({place: place[1] for place in gone})
        )

    def answered(self, response: Any) -> None:
        """Takes in what the broker answered; its error, if any, is that of the session."""
        if response.API_VERSION < FIRST_VERSION:
            return
        if response.error_code == FetchSessionIdNotFound.errno:
            self.id, self.epoch = NO_SESSION, NEW
        elif response.error_code or not response.session_id:
            self.epoch = NEW
        else:
            self.id = response.session_id
            self.epoch = 1 if self.epoch == NEWEST_EPOCH else self.epoch + 1


class SessionClient:
    """The client of a fetcher, which sends its fetches in one session for each broker."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._sessions: dict[int, _Session] = {}

    def __getattr__(self, name: str) -> Any:
        """Returns all else that the client has."""
        return getattr(self._client, name)

    async def send(self, node_id: int, request: Any, **options: Any) -> Any:
        """Sends a request; raises a KafkaError if a fetch is refused for another reason than its session."""
        if not isinstance(request, FetchRequest):
            return await self._client.send(node_id, request, **options)
        session = self._sessions.setdefault(node_id, _Session())
        try:
            response = await self._client.send(node_id, session.request(request), **options)
        except BaseException:
            session.epoch = NEW  # whether the broker has counted the fetch is unknown
            raise
        session.answered(response)
        code = getattr(response, "error_code", 0)
        if code in CLIENT_ERRORS:
            log.info("fetch session begun again", reason=for_code(code).__name__, broker=node_id)
        elif code:
            raise for_code(code)(f"fetch from broker {node_id}")
        return response


def with_fetch_sessions(consumer: Any) -> None:
    """Makes a consumer that has started, and reads nothing yet, fetch in sessions."""
    fetcher = consumer._fetcher
    fetcher._client = SessionClient(fetcher._client)


def _by_topic(parts: dict[_Place, Any]) -> _Topics:
    found: dict[str, list[Any]] = {}
    for (topic, _), part in parts.items():
        found.setdefault(topic, []).append(part)
    return list(found.items())
