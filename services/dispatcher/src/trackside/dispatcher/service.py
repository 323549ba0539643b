"""The dispatcher as the reactor drives it: streams and fleet folded, decisions and questions given out."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from itertools import chain

import structlog

from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.streams.forgetting import StreamForgotten
from trackside.contracts.streams.parking import UnknownRecord
from trackside.contracts.wire.codec import UndecodableError
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.deadlines import Deadlines
from trackside.dispatcher.intake.command_admission import CommandAdmission
from trackside.dispatcher.intake.intake import Intake
from trackside.dispatcher.intake.publisher_policy import OPEN_TO_ALL, PublisherPolicy
from trackside.dispatcher.intake.receipts import Receipts
from trackside.dispatcher.intake.rereading import Rereading
from trackside.dispatcher.monitoring.decision_counts import DecisionCounts, measure_decision
from trackside.dispatcher.monitoring.decision_descriptions import describe
from trackside.dispatcher.monitoring.stream_gauges import (
    DistrustedEvents,
    ParkedStreams,
    SearchGauges,
    StreamGauges,
    given_up_problem,
)
from trackside.dispatcher.parents import Parents
from trackside.dispatcher.plugins.assessor_plugins import installed_assessors
from trackside.dispatcher.plugins.tuner_plugins import installed_tuners
from trackside.dispatcher.stream_encryption import StreamEncryption
from trackside.dispatcher.watchers import Watchers
from trackside.domain.commands import stream_commands
from trackside.domain.commands.react import react, refuse_open
from trackside.domain.fleet import fleet
from trackside.domain.fleet.capabilities import Capabilities, capabilities_of
from trackside.domain.folding.fold import UNPARKING
from trackside.domain.folding.stream_index import StreamIndex
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.keys.dead_letters import dead_letter, write_dead_letter
from trackside.eventlog.keys.decode import log_unreadable
from trackside.eventlog.log import Entry
from trackside.eventlog.reactor.decider import Decision, DecisionContext
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.released_streams import follow_released
from trackside.projections.tables.ignored_reports import ignored_reason
from trackside.projections.tables.owners import DISPATCHER, OWNERS
from trackside.projections.writing.row_changes import RowChanges
from trackside.projections.writing.stream_keys import NewStreamKeys
from trackside.telemetry.metrics import counter, gauge

log = structlog.get_logger("trackside.dispatcher")


class Dispatcher:
    """Holds what was folded, what of it has changed, and what was asked."""

    def __init__(
        self,
        service: ServiceContext,
        streams: Streams,
        advice: AdviceLoop,
        receipts: Receipts | None = None,
        policy: PublisherPolicy = OPEN_TO_ALL,
        *,
        standby: bool = False,
        changes: RowChanges | None = None,
    ) -> None:
        new_keys = NewStreamKeys(service.settings.postgres_dsn)
        self.encryption = StreamEncryption(streams, new_keys)
        self._changes = changes or RowChanges(OWNERS[DISPATCHER], service.topics)
        self._log = service.log
        self._topics = service.topics
        self._answers = frozenset({self._topics.suggestions.name, self._topics.assessments.name})
        self._writer = service.writer
        self._streams = streams
        self._fleet = fleet.Fleet()
        self._capabilities: Capabilities | None = None
        self._advice = advice
        self._background = service.background
        self._receipts = receipts
        self._admission = CommandAdmission(policy.limits, streams.aggregates.opened_by)
        for stream in streams.by_id.values():
            self._admission.update(stream)
        self._intake = Intake(
            () if receipts is None else receipts.topics,
            policy.signatures,
            event_partitions=self._topics.event_partitions,
            admission=self._admission,
        )
        if receipts is not None:
            receipts.read_again_from(lambda: self._intake.passed_over.starts)
        self.rereading = Rereading(service.log, self._topics.commands, self._intake, self._arrive_again)
        self._deadlines = Deadlines()
        self._changed = set(streams.by_id)
        self._decided_last = ""
        self._unasked = set(streams.by_id)
        self._parents = Parents(streams)
        self._watchers = Watchers(streams)
        self._index = StreamIndex(streams)
        self._gauges = StreamGauges(streams.aggregates)
        self._search_gauges = SearchGauges()
        self._counts = DecisionCounts(streams)
        self._health = service.health
        self._counts_reports = not standby
        self._stuck = service.stuck
        self._parked = ParkedStreams(streams, service.health, service.stuck)
        self._distrusted = DistrustedEvents()
        self.forgotten_at = _forgotten_at(streams)
        service.spans.describe = lambda stream, proposal: describe(
            streams.find(stream), proposal, advice.asked
        )

    def fold(self, record: Record) -> Outcome:
        """Folds a record of the events or the fleet topic."""
        if record.topic == self._topics.fleet.name:
            outcome = fleet.evolve(self._fleet, record)
            if type(record.message) is UnknownRecord:
                log.warning("fleet event of a newer release has no effect", type=record.envelope.type)
            if outcome is Outcome.APPLIED:
                self._capabilities = None
            self._note_distrust(record)
            return outcome
        stream, outcome = self._streams.fold(record)
        self._take_in(stream, outcome, record)
        return outcome

    async def read_released(self, wake: Callable[[], None]) -> None:
        """Reads the streams again that were parked, as they go on, for as long as the service runs."""

        def go_on(stream: Stream) -> None:
            self._parked.update(stream)
            self.reconsider(stream.stream_id)
            self._changes.on_change()
            wake()

        await follow_released(self._log, self._topics.events.name, self._streams, self._take_in, go_on)

    def _take_in(self, stream: Stream, outcome: Outcome, record: Record) -> None:
        """Updates what is derived from the streams, after a record of one was folded."""
        message = record.message  # of each kind as such: an isinstance that says no costs 0.3 us
        if type(message) is CommandReceived:
            self._intake.recorded(message)
            self.encryption.begun(stream.stream_id)
        self._advice.note(stream.stream_id, message)
        self._note_distrust(record)
        if outcome is Outcome.APPLIED:
            self._index.fold(stream, message)
            self._admission.update(stream)
            self._counts.note(message, record.append_time_ms)
            if type(message) is CommandRefused:
                self._stuck.refused(stream.stream_id)
            if type(message) is StreamForgotten:
                self.forgotten_at[record.partition] = record.offset
            self._search_gauges.note(stream.stream_id, record.append_time_ms)
            if self._receipts is not None and isinstance(message, CommandAccepted | CommandRefused):
                self._receipts.answer(message, record.offset)
        elif outcome is not Outcome.PARKED and self._counts_reports and self._health.ready:
            reason = ignored_reason(stream, record)
            if reason is not None:
                counter("trackside.dispatcher.uncounted.metrics").labels(reason).inc()
        if outcome is Outcome.PARKED or type(message) in UNPARKING:
            self._parked.update(stream)
            self._advice.reconsider(stream.stream_id)
        self._changes.note(stream, outcome, record, self._streams.positions[record.partition] - 1)
        self._look_at(stream.stream_id)
        self._changed.update(self._parents.fold(stream, message))
        self._changed.update(self._watchers.fold(stream))

    def unreadable(self, entry: Entry, error: UndecodableError) -> None:
        """Takes in a record of our own topics that has no effect for any reader."""
        log_unreadable(entry, error)
        letter = dead_letter(entry, error, "dispatcher")
        if all(letter.source != other.source for other in self._intake.dead_letters):
            self._intake.dead_letters.append(letter)

    def _note_distrust(self, record: Record) -> None:
        if record.distrust and self._counts_reports and self._health.ready:
            self._distrusted.note(record)

    def count(self, record: Record) -> None:
        """Counts an event of a decision of this process that was just folded as applied."""
        self._counts.count(record)

    def reconsider(self, stream: str) -> None:
        """Looks at a stream again, and asks again: a suggestion for it may have been lost on its way.

        So may a command of its parent, or of a stream that awaits it.
        """
        self._advice.reconsider(stream)
        self._look_at(stream)
        self._changed.update(self._parents.of(stream))
        self._changed.update(self._watchers.of(stream))

    def on_external_entry(self, entry: Entry) -> None:
        """Takes in what somebody wrote to the commands topic, or a process to one of answers."""
        if entry.topic in self._answers:
            self._receive(entry)
            return
        self._intake.receive(entry)
        if self._receipts is not None:
            self._receipts.read(entry.partition, entry.offset)
        self._request_receipts()

    def paused_topics(self) -> Collection[str]:
        """Returns the topics that are not to be read for now."""
        return (self._topics.commands.name,) if self._intake.is_full else ()

    def _arrive_again(self, entry: Entry) -> None:
        self._intake.receive_again(entry)
        self._request_receipts()

    def _request_receipts(self) -> None:
        if self._receipts is not None:
            for request in self._intake.receipt_requests:
                self._receipts.request(request)
        self._intake.receipt_requests.clear()

    def _receive(self, entry: Entry) -> None:
        try:
            self._advice.receive(entry)
        except UndecodableError as error:
            self._intake.dead_letters.append(dead_letter(entry, error, "dispatcher"))

    def decide(self, context: DecisionContext) -> Iterable[Decision]:
        """Returns the commands to record, the answers of tuners and assessors, and what streams lack."""
        yield from self._arrived(context)
        yield from self._advised(context)
        events = self._topics.events.name
        if self._capabilities is None:
            self._capabilities = capabilities_of(self._fleet, installed_tuners(), installed_assessors())
        changed = sorted(self._changed)
        first = bisect_right(changed, self._decided_last)  # first those that the last turn has left
        self._decided_last = ""
        for stream_id in chain(changed[first:], changed[:first]):
            if context.busy(events, stream_id):
                continue
            self._changed.discard(stream_id)
            stream = self._streams.find(stream_id)
            if stream is not None and self._stuck.has_given_up(stream_id):
                yield from self._refused_unread(stream)
            elif stream is not None:
                self._stuck.begin(stream_id)
                yield from self._lacking(stream, self._capabilities, context)
                self._stuck.end(stream_id)
            if context.is_over():
                self._decided_last = stream_id
                break
        yield from self._overdue(context)

    def _refused_unread(self, stream: Stream) -> Iterable[Decision]:
        """Returns the refusal of a command that took too long; without one, the stream is left as it is."""
        refusal = refuse_open(stream, given_up_problem(self._stuck, stream.stream_id))
        if refusal is None:
            self._stuck.leave(stream.stream_id)
            self._parked.give_up(stream.stream_id)
        else:
            yield self._decision(stream.stream_id, refusal)

    def _lacking(
        self, stream: Stream, capabilities: Capabilities, context: DecisionContext
    ) -> Iterable[Decision]:
        """Returns what a stream lacks."""
        stream_id, aggregates = stream.stream_id, self._streams.aggregates
        aggregate = aggregates.of(stream)
        if stream.waits:
            self._deadlines.set(stream_id, None)
            for proposal in react(stream, capabilities, aggregates, self._index):
                yield self._decision(stream_id, proposal)
            return
        self._deadlines.set(stream_id, None if aggregate is None else aggregate.next_due_ms(stream))
        for proposal in self._watchers.lacking(stream):  # before any of its tasks
            yield self._decision(stream_id, proposal)
        began_s = monotonic_s()
        proposals = list(react(stream, capabilities, aggregates, self._index))
        measure_decision(stream, proposals, monotonic_s() - began_s)
        suggested = self._advice.suggestion_after(stream, proposals)
        for proposal in proposals if suggested is None else [*proposals, suggested]:
            yield self._decision(stream_id, proposal)
        yield from self._pending(stream, context)
        if aggregate is not None:
            for proposal in aggregate.signalled(stream, self._streams.find, aggregates):
                yield self._decision(stream_id, proposal)

    def act(self, context: DecisionContext) -> None:
        """Asks for the trials whose slots are open, and sends dead letters on their way."""
        for stream_id in self._unasked:
            stream = self._streams.by_id.get(stream_id)
            if stream is not None and not stream.waits:
                self._advice.update(stream)
                self._gauges.update(stream)
                self._search_gauges.update(stream, context.now_ms)
        self._unasked.clear()
        self._search_gauges.set(context.now_ms)
        if self._receipts is not None:
            self._receipts.send_answered(self._streams)
        self.rereading.update()
        self._changes.settle()
        self._streams.spill_idle()
        letters = self._topics.dead_letters
        while self._intake.dead_letters:
            self._background.spawn(
                write_dead_letter(self._log, letters, self._writer, self._intake.dead_letters.pop())
            )
        gauge("trackside.eventlog.open.streams").set(len(self._streams.by_id))

    def next_due_ms(self) -> int | None:
        """Returns when the next time limit of a search or of a trial is reached."""
        return self._deadlines.next_ms()

    def _look_at(self, stream_id: str) -> None:
        self._changed.add(stream_id)
        self._unasked.add(stream_id)

    def _arrived(self, context: DecisionContext) -> Iterable[Decision]:
        events = self._topics.events.name
        arrived = self._intake.unrecorded(self._streams, lambda stream: context.busy(events, stream))
        for stream_id, received, traceparent in arrived:
            wanted = self._intake.wants_encryption(received)
            key = self.encryption.key_for(stream_id, wanted=wanted)
            if key is not None:
                yield Decision(
                    events, stream_id, Proposal("receive command", [received], -1, traceparent), key
                )

    def _advised(self, context: DecisionContext) -> Iterable[Decision]:
        kept = []
        for stream_id, proposal in self._advice.proposals:
            if stream_id in self._parked:
                continue
            if context.busy(self._topics.events.name, stream_id):
                kept.append((stream_id, proposal))
            else:
                yield self._decision(stream_id, proposal)
        self._advice.proposals[:] = kept

    def _pending(self, stream: Stream, context: DecisionContext) -> Iterable[Decision]:
        """Returns what a stream's commands and children lack; looks again where a partition is busy."""
        events = self._topics.events.name
        streams = self._streams
        for stream_id, proposal in stream_commands.pending(stream, streams.find, streams.aggregates, events):
            # A child is encrypted as its parent is.
            key = self.encryption.key_for(stream_id, wanted=bool(stream.public_key))
            if key is None or context.busy(events, stream_id):
                self._changed.add(stream.stream_id)
            elif stream_id not in self._parked:
                yield Decision(events, stream_id, proposal, key)

    def _overdue(self, context: DecisionContext) -> Iterable[Decision]:
        events, now_ms = self._topics.events.name, context.now_ms
        for stream_id in self._deadlines.pop_due(now_ms, lambda stream: context.busy(events, stream)):
            stream = self._streams.find(stream_id)
            aggregate = None if stream is None else self._streams.aggregates.of(stream)
            if stream is not None and aggregate is not None:
                for proposal in aggregate.due(stream, now_ms):
                    yield self._decision(stream_id, proposal)

    def _decision(self, stream_id: str, proposal: Proposal) -> Decision:
        return Decision(self._topics.events.name, stream_id, proposal, self._streams.key_of(stream_id))


def _forgotten_at(streams: Streams) -> dict[int, int]:
    """Returns the offset at which a stream was forgotten last, by partition."""
    found: dict[int, int] = {}
    for stream in streams.by_id.values():
        if stream.forgotten is not None:
            found[stream.partition] = max(stream.forgotten.offset, found.get(stream.partition, -1))
    return found
