"""Finds a recorded stream by its name: in the log of events, else among the imported ones."""

from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.log import Log
from trackside.projections.past.reader import PastReader
from trackside.replay.history.errors import UnknownStreamError
from trackside.replay.history.recorded_stream import RecordedStream, find_live
from trackside.replay.transfer.imported_streams import PREFIX, find_imported


async def find_stream(log: Log, topics: Topics, name: str, past: PastReader | None = None) -> RecordedStream:
    """Finds a recorded stream; `imported/NAME` is the imported one where both exist.

    `past` are the snapshots of past states of the live log.

    Raises UnknownStreamError.
    """
    stream_id = name.removeprefix(PREFIX)
    recorded = None if name.startswith(PREFIX) else await find_live(log, topics, stream_id, past)
    if recorded is None:
        recorded = await find_imported(log, topics, stream_id)
    if recorded is None:
        where = "among the imported ones" if name.startswith(PREFIX) else "in the log, and none was imported"
        raise UnknownStreamError(f"there is no stream {stream_id!r} {where}; `trackside ls` lists searches")
    return recorded
