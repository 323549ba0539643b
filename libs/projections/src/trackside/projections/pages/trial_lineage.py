"""Which trials a trial continues by their checkpoints, and which continue it."""

from collections.abc import Sequence
from dataclasses import dataclass

from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.read_pool import SnapshotModels

MAX_ANCESTORS = 100
MAX_CONTINUATIONS = 100
_COLUMNS = "trials.trial, trials.task_id, trials.from_trial, trials.from_step, trials.status, trials.value"
_LINE = f"""
WITH RECURSIVE line AS (
    SELECT $2::integer AS trial, 0 AS distance
    UNION ALL
    SELECT trials.from_trial, line.distance + 1
    FROM line
    JOIN trials ON trials.search_id = $1 AND trials.trial = line.trial
    WHERE line.distance < $3
)
SELECT {_COLUMNS}
FROM line
JOIN trials ON trials.search_id = $1 AND trials.trial = line.trial
ORDER BY line.distance DESC
"""  # noqa: S608 - constants
_CONTINUATIONS = (
    f"SELECT {_COLUMNS} FROM trials WHERE search_id = $1 AND from_trial = $2 ORDER BY trial LIMIT $3"  # noqa: S608
)


@dataclass(frozen=True, slots=True)
class TrialLineage:
    """The trials around one trial, each with `from_trial` and `from_step`, the checkpoint that it began with.

    `line` ends with the trial itself, after those that it continues, in order; `continuations` began with a
    checkpoint of it.
    """

    line: Sequence[ViewRow]
    continuations: Sequence[ViewRow]

    def __bool__(self) -> bool:
        """Whether the trial continues another one, or another one continues it."""
        return len(self.line) > 1 or bool(self.continuations)


async def read_trial_lineage(models: SnapshotModels, search_id: str, trial: int) -> TrialLineage:
    """Returns the lineage of a trial: at most 100 of each kind; empty for an unknown trial."""
    return TrialLineage(
        await models.fetch(_LINE, search_id, trial, MAX_ANCESTORS),
        await models.fetch(_CONTINUATIONS, search_id, trial, MAX_CONTINUATIONS),
    )
