"""The trials that the assessor of a search has stopped, newest first, and how many."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.read_pool import SnapshotModels

_STOPPED = (
    "FROM trials JOIN tasks ON tasks.stream_id = trials.search_id AND tasks.task_id = trials.task_id "
    "WHERE trials.search_id = $1 AND trials.status = 'EARLY_STOPPED' AND tasks.stop_reason = 'assessor'"
)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The newest trials that an assessor has stopped: `total` is how many there are."""

    rows: Sequence[ViewRow]
    total: int


async def read_verdicts(models: SnapshotModels, search_id: str, limit: int) -> Verdicts:
    """Returns the newest verdicts that stopped a trial, at most `limit`.

    Rows have trial, task_id, the last step that was reported, `value` as of the verdict, and ended_at.
    """
    rows = await models.fetch(
        f"SELECT trials.trial, trials.task_id, trials.last_step, trials.value, trials.non_finite, "
        f"trials.ended_at {_STOPPED} ORDER BY trials.ended_ms DESC, trials.trial DESC LIMIT $2",
        search_id,
        limit,
    )
    total = (await models.fetch(f"SELECT count(*) AS total {_STOPPED}", search_id))[0]["total"]
    return Verdicts(rows, int(total))


async def verdict_times(models: SnapshotModels, search_id: str) -> NDArray[np.float64]:
    """Returns when the assessor's stops took effect, in ms since 1970, ascending."""
    found = await models.fetch(
        f"SELECT trials.ended_ms {_STOPPED} AND trials.ended_ms IS NOT NULL ORDER BY 1",
        search_id,
    )
    return np.array([row["ended_ms"] for row in found], dtype=np.float64)
