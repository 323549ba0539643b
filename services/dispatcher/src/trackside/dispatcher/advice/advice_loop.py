"""Asks tuners for suggestions outside of the event loop; an answer is a proposal that the log may reject."""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

import structlog

from trackside.aggregates.search.advice.advice_messages import SuggestionDeferred, SuggestionFailed
from trackside.aggregates.search.messages import (
    SearchExhausted,
    SearchFailed,
    Suggester,
    TrialSuggested,
)
from trackside.aggregates.search.space.axes import axes_of
from trackside.aggregates.search.space.builtin_tuners import TUNERS
from trackside.aggregates.search.state import Search, search_of, trial_trace
from trackside.aggregates.search.trials import suggestions
from trackside.aggregates.search.trials.drawing_ahead import (
    DrawnFor,
    drawn_for,
    draws_ahead,
    learns,
    seen_by_next,
)
from trackside.aggregates.search.trials.objectives import directions_of
from trackside.aggregates.search.trials.promotion import Start, promotes
from trackside.aggregates.search.trials.trial_reuse import next_task
from trackside.contracts.envelope.message import Event, Message
from trackside.dispatcher.advice.advisor_process import (
    BACKLOG_LIMIT,
    AdvisorClosed,
    AdvisorError,
    AdvisorProcess,
    SearchSetup,
)
from trackside.dispatcher.advice.assessments import AssessmentLoop
from trackside.dispatcher.advice.remote_advisors import RemoteAdvisors
from trackside.dispatcher.advice.tuner_client import TunerClient
from trackside.dispatcher.advice.tuner_history import HistoryItem, TunerHistory, without_starts
from trackside.dispatcher.tuners.completion import complete
from trackside.dispatcher.tuners.tuner import TunerWaits, suggestion_seed
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.eventlog.background import Background
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Entry
from trackside.telemetry import context
from trackside.telemetry.context import Span
from trackside.telemetry.metrics import gauge, histogram

log = structlog.get_logger("trackside.dispatcher")

_CONCLUDES = frozenset({SearchExhausted, SuggestionFailed, SuggestionDeferred, SearchFailed})


@dataclass(slots=True)
class _AdvisedSearch:
    """What the loop keeps for one search; all of it can be computed again from the search's state."""

    setup: SearchSetup
    history: TunerHistory
    asking: bool = False
    completing: bool = False
    """Whether the open request is for what a user left out of a trial."""
    asked: Span | None = None
    """The span of the newest request that was answered, exported if the suggestion counts."""
    drawn: tuple[DrawnFor, dict[str, Any]] | None = None
    """The parameters of the next trial, drawn before its slot is open, and what they depend on."""
    undrawn: int = -1
    """The trial that could not be drawn before its slot is open; it is asked for again then."""


class AdviceLoop:
    """The advisor processes and the open requests to them. Calls `ready` when it adds to `proposals`.

    Users' tuners and assessors have processes of their own, so that a slow or hanging one delays no search
    that has a built-in one.
    """

    def __init__(
        self,
        tuner: AdvisorProcess,
        assessor: AdvisorProcess,
        background: Background,
        plugin_tuner: AdvisorProcess | None = None,
        plugin_assessor: AdvisorProcess | None = None,
        remote: RemoteAdvisors | None = None,
    ) -> None:
        self._backlog = BacklogMonitor()
        given = (tuner, assessor, plugin_tuner, plugin_assessor)
        self.processes = [process for process in given if process is not None]
        for process in self.processes:
            process.on_change = self._backlog.update
        self._tuner = TunerClient(tuner)
        self._plugin_tuner = self._tuner if plugin_tuner is None else TunerClient(plugin_tuner)
        self._assessor = assessor
        self._remote = remote
        self._assessments = AssessmentLoop(
            assessor, background, self._propose, plugin_assessor, None if remote is None else remote.assessors
        )
        self._searches: dict[str, _AdvisedSearch] = {}
        self.ready: Callable[[], None] | None = None
        self._background = background
        self.proposals: list[tuple[str, Proposal]] = []

    def update(self, stream: Stream) -> None:
        """Asks for the next trial of a search if a slot is open and no request for it is."""
        search = search_of(stream)
        if search is None:
            return
        if stream.closed:
            self.forget(search.search_id)
            return
        advised = self._advised(search)
        if advised.drawn is not None and advised.drawn[0] != drawn_for(search):
            advised.drawn, advised.asking = None, False
        if not advised.asking and not suggestions.has_failed(search):
            self._ask(stream, search, advised)
        self._assessments.update(stream)

    def _ask(self, stream: Stream, search: Search, advised: _AdvisedSearch) -> None:
        """Asks for the trial whose slot is open, or for the next one if that may be drawn before it is."""
        number = search.next_trial
        if number is not None:
            advised.asking, advised.completing = True, bool(search.added)
            history = advised.history.until(search, number)
            self._background.spawn(self._suggest(stream, search, advised, history, number))
        elif draws_ahead(search) and advised.undrawn != len(search.trials):
            advised.asking, advised.completing = True, False
            self._background.spawn(self._draw_ahead(stream, search, advised))

    def suggestion_after(self, stream: Stream, proposals: Iterable[Proposal]) -> Proposal | None:
        """Returns the suggestion that was drawn ahead, if its slot is open or opens by these proposals.

        So the end of a trial and what follows it are appended together. Where these proposals turn out to
        have no effect, the suggestion has none either.
        """
        advised, search = self._searches.get(stream.stream_id), search_of(stream)
        if advised is None or search is None or advised.drawn is None:
            return None
        key, parameters = advised.drawn
        seen = seen_by_next(search, proposals) if key == drawn_for(search) else None
        if seen is None:
            return None
        advised.drawn = None
        number = len(search.trials)
        events = suggestions.suggestion(search, number, parameters, seen, task=next_task(stream))
        return _proposal(stream, number, events, seen)

    def note(self, stream_id: str, message: Message) -> None:
        """Takes in a folded event: what a tuner answered allows the next request, applied or not."""
        advised = self._searches.get(stream_id)
        if type(message) is TrialSuggested:
            if advised is not None and advised.completing == (message.source == "customized"):
                self.allow_next(stream_id)
        elif type(message) in _CONCLUDES:
            self.allow_next(stream_id)

    def allow_next(self, stream_id: str) -> None:
        """Allows the next request for a search: its last proposal has been folded or rejected."""
        advised = self._searches.get(stream_id)
        if advised is not None:
            advised.asking, advised.drawn = False, None

    def reconsider(self, stream_id: str) -> None:
        """Allows all requests for a search again: a proposal for it may have been lost."""
        self.allow_next(stream_id)
        self._assessments.reconsider(stream_id)

    def receive(self, entry: Entry) -> None:
        """Receives the answer of a remote advisor; raises UndecodableError for a record that is none."""
        if self._remote is not None:
            self._remote.receive(entry)

    def forget(self, search_id: str) -> None:
        """Drops a search that is over."""
        if self._searches.pop(search_id, None) is not None:
            self._background.spawn(self._forget(search_id))

    def asked(self, search_id: str, number: int) -> Span | None:
        """Returns the span of the newest request to the tuner of a search, if that was for this trial."""
        advised = self._searches.get(search_id)
        span = None if advised is None else advised.asked
        return span if span is not None and span.attributes["trackside.trial"] == number else None

    async def close(self) -> None:
        """Kills the advisor processes."""
        for process in self.processes:
            await process.close()

    async def start(self) -> None:
        """Starts the built-in advisors, tuners first, so that no request waits for their imports."""
        await self._tuner.process.start()
        await self._assessor.start()

    def _client(self, search: Search) -> TunerClient:
        return self._tuner if search.spec.tuner.name in TUNERS else self._plugin_tuner

    def _advised(self, search: Search) -> _AdvisedSearch:
        advised = self._searches.get(search.search_id)
        if advised is not None and advised.setup["space_version"] != search.space_version:
            space = search.spec.model_dump(mode="json")["space"]
            advised.setup = {**advised.setup, "space": space, "space_version": search.space_version}
        if advised is None:
            spec = {**search.spec.model_dump(mode="json"), "seed": search.seed}
            fields = ("space", "tuner", "seed", "direction")
            setup = {name: spec[name] for name in fields} | {"space_version": search.space_version}
            if len(search.spec.objectives) > 1:
                setup["directions"] = directions_of(search.spec)
            advised = _AdvisedSearch(setup, TunerHistory(with_ends=learns(search.spec)))
            self._searches[search.search_id] = advised
        return advised

    async def _suggest(
        self, stream: Stream, search: Search, advised: _AdvisedSearch, history: list[HistoryItem], number: int
    ) -> None:
        seen, is_random = search.opened[number], suggestions.is_for_chance(search)
        given = search.added[0].parameters if search.added else None
        began, began_ns = monotonic_s(), context.now_ns()
        try:
            suggested = await self._request(search, advised.setup, history, number, is_random)
        except AdvisorClosed:
            return
        except TunerWaits:
            events = suggestions.deferred(search, number, seen)
        except AdvisorError as error:
            log.warning("suggestion failed", stream=search.search_id, trial=number, reason=str(error))
            events = suggestions.failed(
                search, number, seen, f"tuner_{error.code}", str(error), error.traceback
            )
        else:
            if stream.closed:  # another dispatcher has suggested the last trial: the rest is forgotten
                return
            seconds = histogram("trackside.dispatcher.suggestion.seconds")
            seconds.labels(search.spec.tuner.name).observe(monotonic_s() - began)
            source: Suggester = "fallback" if is_random else "algorithm"
            parameters, start = suggested, None
            if suggested is not None and promotes(search.spec) and not (is_random or given is not None):
                parameters = suggested["parameters"]
                start = Start(suggested["from_trial"], suggested["step_limit"])
            if given is not None:
                axes = axes_of(advised.setup["space"])
                seed = suggestion_seed(search.seed, number)
                parameters, source = complete(axes, given, parameters or {}, seed), "customized"
            if parameters is None:
                events = suggestions.exhausted(search, seen)
            else:
                task = next_task(stream)
                events = suggestions.suggestion(search, number, parameters, seen, source, task, start)
        if context.is_recording(stream.traceparent):
            advised.asked = _asked(stream, search, number, began_ns)
        self._propose(search.search_id, _proposal(stream, number, events, seen))

    async def _draw_ahead(self, stream: Stream, search: Search, advised: _AdvisedSearch) -> None:
        """Gets the next trial drawn, to be suggested once its slot opens; if it has opened, suggests it."""
        number, key = len(search.trials), drawn_for(search)
        began, began_ns = monotonic_s(), context.now_ns()
        history = advised.history.before(search, number)
        try:
            parameters = await self._request(search, advised.setup, history, number, False)
        except AdvisorClosed:
            return
        except (AdvisorError, TunerWaits):
            parameters = None
        if stream.closed or key[0] != len(search.trials):  # another dispatcher has suggested this trial
            return
        advised.asking = False
        if parameters is None:
            advised.undrawn = number
        elif key == drawn_for(search):
            seconds = histogram("trackside.dispatcher.suggestion.seconds")
            seconds.labels(search.spec.tuner.name).observe(monotonic_s() - began)
            if context.is_recording(stream.traceparent):
                advised.asked = _asked(stream, search, number, began_ns)
            advised.asking, advised.drawn = True, (key, parameters)
            proposal = self.suggestion_after(stream, ())
            if proposal is not None:
                self._propose(search.search_id, proposal)
            return
        self.update(stream)

    def _request(
        self, search: Search, setup: SearchSetup, history: list[HistoryItem], number: int, is_random: bool
    ) -> Coroutine[Any, Any, dict[str, Any] | None]:
        """Asks the search's tuner, or as its fallback the built-in random one, with a state of its own.

        That one also completes what a user gave a trial where the tuner would rather promote another.
        """
        promoting = promotes(search.spec)
        if is_random or (promoting and search.added):
            random_setup = {**setup, "tuner": {"name": "random", "options": {}}}
            past = without_starts(history) if promoting else history
            return self._tuner.suggest(_fallback_id(search.search_id), random_setup, past, number)
        if search.spec.tuner.remote and self._remote is not None:
            return self._remote.tuners.suggest(search, history, number)
        return self._client(search).suggest(search.search_id, setup, history, number)

    async def _forget(self, search_id: str) -> None:
        try:
            await self._tuner.forget(search_id)
            await self._tuner.forget(_fallback_id(search_id))
            await self._plugin_tuner.forget(search_id)
            await self._assessments.forget(search_id)
        except AdvisorError:
            log.debug("an advisor ended before it could drop a search", stream=search_id)

    def _propose(self, stream_id: str, proposal: Proposal) -> None:
        self.proposals.append((stream_id, proposal))
        if self.ready is not None:
            self.ready()


def _fallback_id(search_id: str) -> str:
    """Returns the id under which the tuner process has the random fallback of a search."""
    return f"{search_id}/by-chance"


def _proposal(stream: Stream, number: int, events: list[Event], seen: int) -> Proposal:
    trace = trial_trace(stream, number) if isinstance(events[0], TrialSuggested) else ""
    return Proposal("suggest trial", events, seen, stream.traceparent, begins_trace=trace)


def _asked(stream: Stream, search: Search, number: int, began_ns: int) -> Span:
    """Returns the span of a request for a trial that has just been answered."""
    return Span(
        name="ask tuner",
        traceparent=context.child_of(stream.traceparent),
        parent=stream.traceparent,
        start_ns=began_ns,
        end_ns=context.now_ns(),
        attributes={
            "trackside.stream": search.search_id,
            "trackside.search": search.search_id,
            "trackside.trial": number,
            "trackside.tuner": search.spec.tuner.name,
        },
    )


class BacklogMonitor:
    """Logs once when an advisor process becomes backlogged, and once when its backlog has cleared."""

    def __init__(self) -> None:
        self._backlogged: set[str] = set()

    def update(self, process: AdvisorProcess) -> None:
        """Sets the gauge of a process, and logs if it has become backlogged or has cleared since."""
        gauge("trackside.dispatcher.lane_backlog.requests").labels(process.name).set(process.backlog)
        if process.backlogged and process.name not in self._backlogged:
            self._backlogged.add(process.name)
            log.warning("advisor backlogged", lane=process.name, waiting=process.backlog, limit=BACKLOG_LIMIT)
        elif not process.backlogged and process.name in self._backlogged:
            self._backlogged.remove(process.name)
            log.info("advisor backlog cleared", lane=process.name, waiting=process.backlog)
