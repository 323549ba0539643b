"""The columns of the trials of large searches, kept and brought up to date when charts ask for them again."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from trackside.projections.pages.trial_columns import trial_columns
from trackside.projections.pages.trial_refresh import refresh_trial_columns
from trackside.projections.reading.columns import ChartColumns
from trackside.projections.reading.read_pool import SnapshotModels

MAX_BYTES = 64 * 2**20
"""How large the columns of all searches that are kept may be together: 650,000 trials of four parameters."""


@dataclass(slots=True)
class _Kept:
    """The columns of a search, of one definition of the tables."""

    columns: ChartColumns | None = None
    relation: int = 0
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size_bytes(self) -> int:
        return 0 if self.columns is None else sum(each.nbytes for each in self.columns.arrays.values())


class TrialColumnsCache:
    """The columns of the searches that were asked for last; charts of the same search share them.

    Tables that were rebuilt have new identities in Postgres, so what is from before is read again.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def read(self, models: SnapshotModels, search_id: str) -> ChartColumns:
        """Returns what `trial_columns` does; the arrays are shared and must not be changed.

        They may include trials of a newer snapshot than that of `models`.
        """
        kept = self._kept.setdefault(search_id, _Kept())
        self._kept.move_to_end(search_id)
        async with kept.busy:
            relation = int(await models.connection.fetchval("SELECT 'trials'::regclass::oid::bigint"))
            if kept.columns is None or kept.relation != relation:
                found = await trial_columns(models, search_id)
            else:
                found = await refresh_trial_columns(models, search_id, kept.columns)
            kept.columns, kept.relation = found, relation
        self._drop_oldest()
        return found

    @property
    def size_bytes(self) -> int:
        """The bytes of all columns that are kept."""
        return sum(each.size_bytes for each in self._kept.values())

    def _drop_oldest(self) -> None:
        while self._kept and self.size_bytes > self._max_bytes:
            self._kept.popitem(last=False)
