"""Counts what this process has decided, each event once: when the log has it and it was folded as applied."""

from collections.abc import Sequence

from trackside.aggregates.search.messages import SearchEnded, SearchStarted, TrialEnded, TrialSuggested
from trackside.aggregates.search.space.builtin_tuners import TUNERS
from trackside.aggregates.search.state import search_of
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.dispatcher.plugins.tuner_plugins import installed_tuners
from trackside.domain.folding.aggregate import Aggregates
from trackside.domain.folding.streams import Streams
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.telemetry.metrics import counter, declare, exemplar, histogram

_Publication = tuple[str, str, int, int]


class DecisionCounts:
    """The counters of a dispatcher, and when the commands were received that have no answer yet."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._received_ms: dict[_Publication, int] = {}
        self._answered_after_s: float | None = None
        _declare_names(streams.aggregates)

    def note(self, message: Message, append_time_ms: int) -> None:
        """Takes in an event of any process: when a command was received, or that it has its answer."""
        if type(message) is CommandReceived:
            self._received_ms[_publication(message)] = append_time_ms
        elif type(message) is CommandAccepted or type(message) is CommandRefused:
            received_ms = self._received_ms.pop(_publication(message), None)
            self._answered_after_s = None
            if received_ms is not None:
                self._answered_after_s = max(0, append_time_ms - received_ms) / 1000

    def count(self, record: Record) -> None:
        """Counts an event of a decision of this process that was just folded as applied."""
        message = record.message
        match message:
            case CommandReceived():
                counter("trackside.dispatcher.received.commands").labels(message.command_type).inc()
            case CommandAccepted():
                stream = self._streams.find(record.envelope.stream)
                assert stream is not None  # it was just folded
                command_type = stream.commands[message.command_id].command_type
                counter("trackside.dispatcher.accepted.commands").labels(command_type).inc()
                self._measure_answer(record)
            case CommandRefused():
                counter("trackside.dispatcher.refused.commands").labels(message.code).inc()
                self._measure_answer(record)
            case SearchStarted():
                counter("trackside.dispatcher.started.searches").inc()
            case SearchEnded():
                counter("trackside.dispatcher.ended.searches").labels(message.status.value).inc()
            case TrialSuggested():
                counter("trackside.dispatcher.suggested.trials").inc()
            case TrialEnded():
                self._count_end(message, record)

    def _measure_answer(self, record: Record) -> None:
        """Measures an answer, unless its command is older than what this process has folded."""
        if self._answered_after_s is not None:
            answers = histogram("trackside.dispatcher.command.seconds")
            answers.observe(self._answered_after_s, exemplar(record.envelope.traceparent))

    def _count_end(self, ended: TrialEnded, record: Record) -> None:
        stream = self._streams.find(record.envelope.stream)
        search = None if stream is None else search_of(stream)
        assert search is not None  # the event was just folded
        trial, status = search.trials[ended.trial], ended.status.value
        counter("trackside.dispatcher.ended.trials").labels(status).inc()
        took_s = max(0, trial.ended_ms - trial.suggested_ms) / 1000
        trials = histogram("trackside.dispatcher.trial.seconds").labels(status)
        trials.observe(took_s, exemplar(record.envelope.traceparent))


def measure_decision(stream: Stream, proposals: Sequence[Proposal], took_s: float) -> None:
    """Measures how long it took to decide what a stream lacks, if that is the answer to a command."""
    for proposal in proposals[:1]:
        answer = proposal.events[0]
        if isinstance(answer, CommandAccepted | CommandRefused):
            command_type = stream.commands[answer.command_id].command_type
            histogram("trackside.dispatcher.command_decision.seconds").labels(command_type).observe(took_s)


def _publication(event: CommandReceived | CommandAccepted | CommandRefused) -> _Publication:
    source = event.source
    return event.command_id, source.topic, source.partition, source.offset


def _declare_names(aggregates: Aggregates) -> None:
    types = [kind.wire_type() for kind in aggregates.commands]
    declare("trackside.dispatcher.received.commands", type=types)
    declare("trackside.dispatcher.accepted.commands", type=types)
    declare("trackside.dispatcher.command_decision.seconds", type=types)
    declare("trackside.dispatcher.suggestion.seconds", tuner=[*TUNERS, *installed_tuners()])
