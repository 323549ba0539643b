"""Requests suggestions of a tuner process, which is sent each search's history once per generation."""

from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.dispatcher.advice.advisor_process import AdvisorOp, AdvisorProcess, SearchSetup, close_search
from trackside.dispatcher.advice.tuner_history import HistoryItem
from trackside.dispatcher.tuners.tuner import TunerWaits


@dataclass
class _SentHistory:
    """What one generation of the advisor has received: so many items of a history, and the last request."""

    generation: int
    count: int
    setup: SearchSetup
    asked: int | None = None


def _continues(before: _SentHistory, history: Sequence[HistoryItem], upto: int) -> bool:
    """Reports whether the advisor's state is a prefix of a history.

    A trial that was asked for stays in the tuner's state. Unless the history has it too, as the next item,
    the answer was never used, or was asked for with less history than the log has, and must not count.
    """
    if upto < before.count:
        return False
    if before.asked is None:
        return True
    return upto > before.count and history[before.count][:2] == ("suggested", before.asked)


def _op_of(item: HistoryItem) -> AdvisorOp:
    """Translates an item for an advisor."""
    if item[0] == "ended":
        _, number, state, value, intermediates = item
        op: AdvisorOp = {"op": "tell", "number": number, "state": state, "value": value}
        if state == "pruned" and intermediates:
            op["intermediates"] = [max(intermediates)]
        return op
    if item[0] == "imported":
        return {"op": "add_result", "parameters": item[1], "value": item[2]}
    return {"op": "restore", "number": item[1], "parameters": item[2]}


class TunerClient:
    """Requests suggestions for many searches of one tuner process."""

    def __init__(self, process: AdvisorProcess) -> None:
        self.process = process
        self._sent: dict[str, _SentHistory] = {}

    def suggest(
        self, search_id: str, setup: SearchSetup, history: Sequence[HistoryItem], number: int
    ) -> Coroutine[Any, Any, dict[str, Any] | None]:
        """Asks for the parameters of trial `number`; returns None when the space is exhausted.

        Raises TunerWaits if the tuner waits for the end of another trial.

        `setup` holds space, tuner, seed and direction as plain JSON. `history` is the search's append-only
        list as it was when the slot of this trial opened: its length is taken at the call, not when awaited,
        so the list may grow meanwhile. It has every trial before `number` as suggested.
        """
        return self._suggest(search_id, setup, history, len(history), number)

    async def _suggest(
        self, search_id: str, setup: SearchSetup, history: Sequence[HistoryItem], upto: int, number: int
    ) -> dict[str, Any] | None:
        sent = _SentHistory(0, upto, setup, number)

        def ops(generation: int) -> Iterator[AdvisorOp]:
            sent.generation = generation
            before = self._sent.pop(search_id, None)
            start = 0
            if (
                before is not None
                and before.generation == generation
                and before.setup == setup
                and _continues(before, history, upto)
            ):
                start = before.count
            else:
                yield {"op": "open", "kind": "tuner", **setup}
            for item in history[start:upto]:
                yield _op_of(item)
            yield {"op": "ask", "number": number}

        try:
            result: dict[str, Any] | None = await self.process.request(search_id, ops)
        except TunerWaits:
            sent.asked = None
            self._sent[search_id] = sent
            raise
        # Only now: after any failure the search is opened again, as it is unknown how much was received.
        self._sent[search_id] = sent
        return result

    async def forget(self, search_id: str) -> None:
        """Makes the tuner process drop a search that is over."""
        await close_search(self.process, search_id, self._sent)
