"""Asks tuners and assessors beside the loop; what they say comes back as a proposal that may lose."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog

from trackside.contracts.searches import Suggester
from trackside.dispatcher.advice.advisor_process import (
    AdvisorClosed,
    AdvisorError,
    AdvisorProcess,
    HistoryItem,
    SearchSetup,
    TunerClient,
)
from trackside.dispatcher.advice.assessments import AssessmentLoop
from trackside.dispatcher.advice.backlog import measure
from trackside.dispatcher.advice.remote_tuners import RemoteAdvisors
from trackside.dispatcher.advice.tuner_history import TunerHistory
from trackside.dispatcher.decisions import react as decide
from trackside.dispatcher.decisions import trial_reuse as handing_on
from trackside.dispatcher.tuners.builtin_tuners import TUNERS
from trackside.dispatcher.tuners.tuner import TunerWaits
from trackside.domain.objectives import directions_of
from trackside.domain.proposal import Proposal
from trackside.domain.search import Search
from trackside.domain.stream import Stream
from trackside.eventlog.background import Background
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Entry
from trackside.telemetry import context
from trackside.telemetry.metrics import histogram

log = structlog.get_logger("trackside.dispatcher")


@dataclass(slots=True)
class _Advised:
    """What is remembered beside the state of one search; all of it can be made again from the state."""

    setup: SearchSetup
    tuner_past: TunerHistory = field(default_factory=TunerHistory)
    asking: bool = False


class AdviceLoop:
    """The lanes, and which questions are open. `ready` is called when an answer waits in `answers`.

    Users' tuners and assessors have lanes of their own, so that a slow or hanging one holds back no search of
    ours.
    """

    def __init__(
        self,
        tuner: AdvisorProcess,
        assessor: AdvisorProcess,
        background: Background,
        own_tuner: AdvisorProcess | None = None,
        own_assessor: AdvisorProcess | None = None,
        remote: RemoteAdvisors | None = None,
    ) -> None:
        self.lanes = [lane for lane in (tuner, assessor, own_tuner, own_assessor) if lane is not None]
        for lane in self.lanes:
            lane.on_change = self._changed
        self._tuner = TunerClient(tuner)
        self._own_tuner = self._tuner if own_tuner is None else TunerClient(own_tuner)
        self._assessor = assessor
        self._remote = remote
        self._judging = AssessmentLoop(
            assessor, background, self._answer, own_assessor, None if remote is None else remote.assessors
        )
        self._searches: dict[str, _Advised] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._backlogged: dict[str, bool] = {}
        self.ready: Callable[[], None] | None = None
        self._background = background
        self.answers: list[tuple[str, Proposal]] = []

    def look_at(self, stream: Stream) -> None:
        """Asks for the next trial of a search if a slot is open and nothing was asked yet."""
        search = stream.search
        if search is None:
            return
        if stream.closed:
            self.forget(search.search_id)
            return
        known = self._known(search)
        number = search.next_trial
        if number is not None and not known.asking and not decide.has_failed(search):
            known.asking = True
            past = known.tuner_past.until(search, number)
            self._background.spawn(self._suggest(stream, search, known, past, number))
        self._judging.look_at(stream)

    def concluded(self, stream_id: str) -> None:
        """Allows the next question about a search: what was proposed has been folded or has lost."""
        known = self._searches.get(stream_id)
        if known is not None:
            known.asking = False

    def reconsider(self, stream_id: str) -> None:
        """Asks about a search again: what was proposed may have been lost on its way."""
        self.concluded(stream_id)
        self._judging.reconsider(stream_id)

    def hear(self, entry: Entry) -> None:
        """Takes the answer of a process elsewhere; raises UndecodableError for what is none."""
        if self._remote is not None:
            self._remote.hear(entry)

    def forget(self, search_id: str) -> None:
        """Drops a search that is over."""
        if self._searches.pop(search_id, None) is not None:
            self._background.spawn(self._dropped(search_id))

    async def answered(self, limit_s: float) -> None:
        """Waits until no question is open in any lane, but no longer than so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._idle.wait()

    async def close(self) -> None:
        """Ends the advisors."""
        for lane in self.lanes:
            await lane.close()

    async def start(self) -> None:
        """Starts our advisors, tuners first, so that the first question needn't wait for their imports."""
        await self._tuner.lane.start()
        await self._assessor.start()

    def _lane(self, search: Search) -> TunerClient:
        return self._tuner if search.spec.tuner.name in TUNERS else self._own_tuner

    def _known(self, search: Search) -> _Advised:
        known = self._searches.get(search.search_id)
        if known is not None and known.setup["space_version"] != search.space_version:
            space = search.spec.model_dump(mode="json")["space"]
            known.setup = {**known.setup, "space": space, "space_version": search.space_version}
        if known is None:
            setup = {**search.spec.model_dump(mode="json"), "seed": search.seed}
            kept = ("space", "tuner", "seed", "direction")
            given = {name: setup[name] for name in kept} | {"space_version": search.space_version}
            if len(search.spec.objectives) > 1:
                given["directions"] = directions_of(search.spec)
            known = _Advised(given)
            self._searches[search.search_id] = known
        return known

    async def _suggest(
        self, stream: Stream, search: Search, known: _Advised, past: list[HistoryItem], number: int
    ) -> None:
        seen, by_chance = search.opened[number], decide.is_for_chance(search)
        began = monotonic_s()
        try:
            with context.start("suggest trial", stream.traceparent or None, {"trial": number}):
                answer = await self._asked(search, known.setup, past, number, by_chance)
        except AdvisorClosed:
            return
        except TunerWaits:
            events = decide.deferred(search, number, seen)
        except AdvisorError as error:
            log.warning("tuner gave no suggestion", stream=search.search_id, trial=number, reason=str(error))
            events = decide.failed(search, number, seen, f"tuner_{error.code}", str(error), error.traceback)
        else:
            took = histogram("trackside.dispatcher.suggestion.seconds")
            took.labels(search.spec.tuner.name).observe(monotonic_s() - began)
            if answer is None:
                events = decide.exhausted(search, seen)
            else:
                source: Suggester = "fallback" if by_chance else "algorithm"
                within = handing_on.next_task(stream)
                events = decide.suggestion(search, number, answer, seen, source, within)
        self._answer(search.search_id, Proposal("suggest trial", events, seen, stream.traceparent))

    def _asked(
        self, search: Search, setup: SearchSetup, past: list[HistoryItem], number: int, by_chance: bool
    ) -> Coroutine[Any, Any, dict[str, Any] | None]:
        """Asks the search's tuner, or our random one in its place, which keeps a past of its own."""
        if by_chance:
            chance = {**setup, "tuner": {"name": "random", "options": {}}}
            return self._tuner.suggest(_by_chance(search.search_id), chance, past, number)
        if search.spec.tuner.remote and self._remote is not None:
            return self._remote.tuners.suggest(search, past, number)
        return self._lane(search).suggest(search.search_id, setup, past, number)

    async def _dropped(self, search_id: str) -> None:
        try:
            await self._tuner.forget(search_id)
            await self._tuner.forget(_by_chance(search_id))
            await self._own_tuner.forget(search_id)
            await self._judging.forget(search_id)
        except AdvisorError:
            log.debug("an advisor was gone before it could forget", stream=search_id)

    def _answer(self, stream_id: str, proposal: Proposal) -> None:
        self.answers.append((stream_id, proposal))
        if self.ready is not None:
            self.ready()

    def _changed(self, lane: AdvisorProcess) -> None:
        """Shows how much waits in a lane, and has it told when that is much, or no longer."""
        measure(lane)
        if any(one.backlog for one in self.lanes):
            self._idle.clear()
        else:
            self._idle.set()
        if lane.backlogged is not self._backlogged.get(lane.name, False):
            self._backlogged[lane.name] = lane.backlogged
            if self.ready is not None:
                self.ready()


def _by_chance(search_id: str) -> str:
    """Names the memory of chance in place of a search's tuner, in the advisor."""
    return f"{search_id}/by-chance"
