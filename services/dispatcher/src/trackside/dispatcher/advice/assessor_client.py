"""Asks assessors through their process; a request has all new rows of a search, to keep up with reports."""

from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.search.state import FeedRow
from trackside.dispatcher.advice.advisor_process import (
    AdvisorOp,
    AdvisorProcess,
    SearchSetup,
    close_search,
)


@dataclass(frozen=True, slots=True)
class AssessmentResult:
    """The running trials to stop, each with the index of the row that showed it, and all failures so far."""

    trials_to_stop: list[tuple[int, int]]
    failures: list[dict[str, Any]]


ROWS_AN_OP = 1_000
"""So many rows are assessed within one time limit; the built-in assessors need 0.1 to 0.2 s for them."""


class AssessorClient:
    """Requests assessments of the trials of many searches of one assessor process."""

    def __init__(self, process: AdvisorProcess, rows_an_op: int = ROWS_AN_OP) -> None:
        self.process = process
        self._rows_an_op = rows_an_op
        self._sent: dict[str, tuple[int, int]] = {}

    def assess(
        self, search_id: str, setup: SearchSetup, past: Sequence[FeedRow]
    ) -> Coroutine[Any, Any, AssessmentResult]:
        """Asks which running trials are to be stopped.

        `setup` holds assessor, direction and seed as plain JSON. `past` is the append-only list of the
        search's rows: its length is taken at the call, not when awaited, so the list may grow meanwhile.
        """
        return self._assess(search_id, setup, past, len(past))

    async def _assess(
        self, search_id: str, setup: SearchSetup, past: Sequence[FeedRow], upto: int
    ) -> AssessmentResult:
        sent_to = 0

        def ops(generation: int) -> Iterator[AdvisorOp]:
            nonlocal sent_to
            sent_to = generation
            known, start = self._sent.pop(search_id, (0, 0))
            if known != generation or start > upto:
                start = 0
                yield {"op": "open", "kind": "assessor", **setup}
            for first in range(start, upto, self._rows_an_op):
                yield {"op": "take", "rows": past[first : min(first + self._rows_an_op, upto)]}
            if start == upto:
                yield {"op": "take", "rows": []}

        answer = await self.process.request(search_id, ops, ops_a_line=1)
        # Only now: after any failure the search is opened again, as it is unknown how much was received.
        self._sent[search_id] = (sent_to, upto)
        return AssessmentResult([(trial, row) for trial, row in answer["hopeless"]], answer["failed"])

    async def forget(self, search_id: str) -> None:
        """Makes the assessor process drop a search that is over."""
        await close_search(self.process, search_id, self._sent)
