"""Verdicts through a lane: what is new about a search goes in one line, so that they keep up with reports."""

from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.dispatcher.advice.advisor_process import Lane, Op, Setup, close
from trackside.domain.past import Row


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Which running trials are hopeless, each with the place of the row that showed it, and all failures."""

    hopeless: list[tuple[int, int]]
    failed: list[dict[str, Any]]


ROWS_AN_OP = 1_000
"""So many rows are judged within one time limit; ours judge them in less than a tenth of a second, or two."""


class AssessorLane:
    """Verdicts on the trials of many searches through one lane."""

    def __init__(self, lane: Lane, rows_an_op: int = ROWS_AN_OP) -> None:
        self.lane = lane
        self._rows_an_op = rows_an_op
        self._sent: dict[str, tuple[int, int]] = {}

    def hopeless(self, search_id: str, setup: Setup, past: Sequence[Row]) -> Coroutine[Any, Any, Verdicts]:
        """Asks which running trials are to be stopped.

        `setup` holds assessor, direction and seed as plain JSON. `past` is the append-only list of the
        search: its length is taken at the call, not when awaited, so the list may grow meanwhile.
        """
        return self._hopeless(search_id, setup, past, len(past))

    async def _hopeless(self, search_id: str, setup: Setup, past: Sequence[Row], upto: int) -> Verdicts:
        taken = 0

        def ops(generation: int) -> Iterator[Op]:
            nonlocal taken
            taken = generation
            known, start = self._sent.pop(search_id, (0, 0))
            if known != generation or start > upto:
                start = 0
                yield {"op": "open", "kind": "assessor", **setup}
            for first in range(start, upto, self._rows_an_op):
                yield {"op": "take", "rows": past[first : min(first + self._rows_an_op, upto)]}
            if start == upto:
                yield {"op": "take", "rows": []}

        found = await self.lane.request(search_id, ops, ops_a_line=1)
        # Only now: after any failure the search is opened afresh, as nobody knows how far it came.
        self._sent[search_id] = (taken, upto)
        return Verdicts([(trial, place) for trial, place in found["hopeless"]], found["failed"])

    async def forget(self, search_id: str) -> None:
        """Drops the memory of a search that is over."""
        await close(self.lane, search_id, self._sent)
