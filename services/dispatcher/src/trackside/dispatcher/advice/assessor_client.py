"""Asks assessors through their process; a request has all new rows of a search, to keep up with reports."""

from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.dispatcher.advice.advisor_process import AdvisorOp, AdvisorProcess, SearchSetup, close
from trackside.domain.past import Row


@dataclass(frozen=True, slots=True)
class AssessmentResult:
    """Which running trials are hopeless, each with the place of the row that showed it, and all failures."""

    trials_to_stop: list[tuple[int, int]]
    failures: list[dict[str, Any]]


ROWS_AN_OP = 1_000
"""So many rows are judged within one time limit; ours judge them in less than a tenth of a second, or two."""


class AssessorClient:
    """Assessments of the trials of many searches through one lane."""

    def __init__(self, lane: AdvisorProcess, rows_an_op: int = ROWS_AN_OP) -> None:
        self.lane = lane
        self._rows_an_op = rows_an_op
        self._sent: dict[str, tuple[int, int]] = {}

    def assess(
        self, search_id: str, setup: SearchSetup, past: Sequence[Row]
    ) -> Coroutine[Any, Any, AssessmentResult]:
        """Asks which running trials are to be stopped.

        `setup` holds assessor, direction and seed as plain JSON. `past` is the append-only list of the
        search: its length is taken at the call, not when awaited, so the list may grow meanwhile.
        """
        return self._assess(search_id, setup, past, len(past))

    async def _assess(
        self, search_id: str, setup: SearchSetup, past: Sequence[Row], upto: int
    ) -> AssessmentResult:
        taken = 0

        def ops(generation: int) -> Iterator[AdvisorOp]:
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
        return AssessmentResult([(trial, place) for trial, place in found["hopeless"]], found["failed"])

    async def forget(self, search_id: str) -> None:
        """Drops the memory of a search that is over."""
        await close(self.lane, search_id, self._sent)
