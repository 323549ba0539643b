"""Counts how often each tag of a file begins again."""

from collections.abc import Hashable
from dataclasses import dataclass, replace

from trackside.summaries.event_files.values import Columns, Decoded

MAX_RESTARTS = 9_999
"""Restarts of a tag that are told apart; later ones belong to the last."""
MAX_TAGS = 50_000
"""Tags of a file whose restarts are counted, to bound memory; a tag after these never begins again."""


@dataclass(slots=True)
class _TagProgress:
    step: int
    restarts: int
    starts: int  # starts of the file when the last point of the tag was read


class RestartCounter:
    """Counts restarts of the tags of one file: steps of a tag fall, or the file says that a session starts.

    An equal step is no restart. The counts follow from the records before alone, so reading a file in any
    pieces results in the same ones.
    """

    def __init__(self) -> None:
        self.starts = 0
        self._progress: dict[Hashable, _TagProgress] = {}

    def count(self, decoded: Decoded) -> None:
        """Sets the restarts of what the next records of the file hold."""
        for segment in decoded.segments:
            self.starts += segment.starts_session
            for tag, columns in segment.scalars.items():
                self._count_points(tag, columns)
            for at, item in enumerate(segment.items):
                restarts = self._restarts((item.kind, item.tag), item.step, item.step, 0)
                if restarts:
                    segment.items[at] = replace(item, restarts=restarts)

    def _count_points(self, tag: str, columns: Columns) -> None:
        steps = columns.steps
        # Sorting sorted steps is far cheaper than comparing each with the one before.
        if len(steps) > 1 and sorted(steps) != steps:
            columns.falls = [at for at in range(1, len(steps)) if steps[at] < steps[at - 1]]
        columns.restarts = self._restarts(tag, steps[0], steps[-1], len(columns.falls))
        columns.falls = columns.falls[: MAX_RESTARTS - columns.restarts]

    def _restarts(self, key: Hashable, first: int, last: int, falls: int) -> int:
        """Returns the restarts before the first of these steps, and remembers those after the last."""
        progress = self._progress.get(key)
        if progress is None:
            if len(self._progress) < MAX_TAGS:
                self._progress[key] = _TagProgress(last, min(falls, MAX_RESTARTS), self.starts)
            return 0
        restarts = progress.restarts
        if first < progress.step or progress.starts != self.starts:
            restarts = min(restarts + 1, MAX_RESTARTS)
        progress.step = last
        progress.restarts = min(restarts + falls, MAX_RESTARTS)
        progress.starts = self.starts
        return restarts
