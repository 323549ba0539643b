"""The folded state of single streams, from the snapshots that the services keep."""

from pydantic import ValidationError

from trackside.aggregates.registry import AGGREGATES
from trackside.domain.folding.streams import load
from trackside.domain.streams.stream import Stream
from trackside.projections.reading.read_pool import SnapshotModels
from trackside.projections.writing.snapshots import fold_name


async def read_stream_state(models: SnapshotModels, stream_id: str) -> Stream | None:
    """Returns a stream as of its newest snapshot, which may be some seconds older than its rows.

    None if there is no snapshot, or only one of another release.
    """
    found = await models.connection.fetchrow(
        "SELECT state FROM snapshots WHERE stream_id = $1 AND fold = $2", stream_id, fold_name()
    )
    if found is None:
        return None
    try:
        return load(found["state"], AGGREGATES)
    except ValidationError:
        return None
