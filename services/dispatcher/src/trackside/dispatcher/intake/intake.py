"""Reads published commands until their streams have them; undecodable records become dead letters.

What is held is bounded: of the space that is free, each publisher may take half. Commands beyond that are
passed over and read again once there is space, so a publisher that floods the topic delays itself alone. If
there is no space at all, no more commands are read meanwhile.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from trackside.contracts.envelope.refusals import TOO_MANY, Problem, limit_problems
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import RULES, CommandReceived, RecordDeadLettered, Source
from trackside.contracts.wire.codec import UndecodableError
from trackside.contracts.wire.ingress import SUSPECTED, Arrival, publisher_of
from trackside.dispatcher.intake.command_admission import CommandAdmission
from trackside.dispatcher.intake.fair_queue import CommandPosition, FairQueue, WaitingCommand
from trackside.dispatcher.intake.passed_over import PassedOver
from trackside.dispatcher.intake.receipts import ReceiptRequest
from trackside.dispatcher.intake.signatures import SIGNATURES_OFF, SignatureResult, SignatureVerifier
from trackside.domain.folding.streams import Streams
from trackside.domain.streams.command import Publication
from trackside.domain.streams.forgetting import without_content
from trackside.eventlog.keys.dead_letters import dead_letter, position_id, position_of
from trackside.eventlog.log import Entry, TopicPartition

MAX_HELD = 10_000
"""How many commands are held that are in no stream yet."""
MAX_HELD_BYTES = 33_554_432
"""How many bytes their records have together."""
MAX_RANGES = 1_000
"""How many ranges of offsets are kept of commands that were passed over."""
RECORD_OVERHEAD_BYTES = 256
"""Counted for each command besides its value."""


def _never(stream: str) -> bool:
    return False


class Intake:
    """Commands that were read and are not in their streams yet, by their position in the commands topic.

    An arrival is kept until its CommandReceived is folded, so one whose write was lost is written again.
    """

    def __init__(
        self,
        receipt_topics: Collection[str] = (),
        signatures: SignatureVerifier = SIGNATURES_OFF,
        *,
        event_partitions: int = 1,
        max_held: int = MAX_HELD,
        admission: CommandAdmission | None = None,
    ) -> None:
        self._receipt_topics = receipt_topics
        self._signatures = signatures
        self._event_partitions = event_partitions
        self._max_held = max_held
        self._admission = admission or CommandAdmission()
        self._held: dict[CommandPosition, WaitingCommand] = {}
        self._held_bytes = 0
        self._held_of: dict[str, int] = {}
        self._queues: dict[int, FairQueue] = {}
        self._stalled: set[tuple[str, int]] = set()
        self.passed_over = PassedOver()
        self.dead_letters: list[RecordDeadLettered] = []
        self.receipt_requests: list[ReceiptRequest] = []

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_full(self) -> bool:
        """Returns whether no more commands are to be read for now."""
        return (
            len(self._held) >= self._max_held
            or self._held_bytes >= MAX_HELD_BYTES
            or self.passed_over.ranges >= MAX_RANGES
        )

    @property
    def rereads(self) -> bool:
        """Returns whether what was passed over is to be read again: most of the space is free."""
        free = len(self._held) * 4 <= self._max_held and self._held_bytes * 4 <= MAX_HELD_BYTES
        return free and bool(self.passed_over)

    def receive(self, entry: Entry) -> None:
        """Reads an entry of the commands topic: an arrival, a dead letter, or one to read again later."""
        source = position_of(entry)
        try:
            arrival, signature = self._signatures.read(entry)
        except UndecodableError as error:
            self.dead_letters.append(dead_letter(entry, error, "dispatcher"))
            return
        publisher = publisher_of(signature.key_id, arrival.publisher)
        if self.passed_over.is_behind(publisher, entry.partition) or not self._has_space(publisher):
            self.passed_over.add(publisher, (entry.partition, entry.offset))
        else:
            self._hold(entry, source, arrival, signature, publisher)

    @property
    def is_stalled(self) -> bool:
        """Returns whether nothing that was passed over can be taken before what is held becomes less."""
        return len(self._stalled) >= self.passed_over.pairs

    def begin_rereading(self) -> dict[int, int]:
        """Returns the offsets, by partition, from which to read what was passed over."""
        self._stalled.clear()
        return self.passed_over.starts

    def receive_again(self, entry: Entry) -> None:
        """Takes an entry that was passed over, if there is space for it now; ignores all others."""
        position = (entry.partition, entry.offset)
        if position not in self.passed_over:
            return
        arrival, signature = self._signatures.read(entry)
        publisher = publisher_of(signature.key_id, arrival.publisher)
        if (publisher, entry.partition) in self._stalled or not self._has_space(publisher):
            self._stalled.add((publisher, entry.partition))
            return
        self.passed_over.remove(publisher, position)
        self._hold(entry, position_of(entry), arrival, signature, publisher)

    def wants_encryption(self, event: CommandReceived) -> bool:
        """Returns whether a stream that a held command begins is to be encrypted."""
        held = self._held.get((event.source.partition, event.source.offset))
        return held is not None and held.encrypted

    def recorded(self, event: CommandReceived) -> None:
        """Drops an arrival that is in its stream; a command of a parent stream was none."""
        known = self._held.get((event.source.partition, event.source.offset))
        if known is not None and known.event.source == event.source:
            self._admission.recorded(known, event.problem is not None and event.problem.code == TOO_MANY)
            self._drop(known)

    def unrecorded(
        self, streams: Streams, is_busy: Callable[[str], bool] = _never
    ) -> list[tuple[str, CommandReceived, str]]:
        """Returns stream, event and traceparent of the arrivals that are in no stream yet and come next.

        Those of one publisher and one stream are in the order in which they were published. There are none
        of a partition with a stream that `is_busy`. Drops arrivals that were read again after a restart and
        are in their streams already. Those that are beyond a limit of their publisher are postponed.
        """
        found: list[tuple[str, CommandReceived, str]] = []
        for queue in self._queues.values():
            while queue and not is_busy(queue.first.stream):
                fresh = [each for each in queue.turn() if not self._is_recorded(streams, each)]
                if fresh:
                    for each in fresh:
                        self._admission.admit(each)
                    found += [(each.stream, _recordable(streams, each), each.traceparent) for each in fresh]
                    break
        return found

    def _is_recorded(self, streams: Streams, command: WaitingCommand) -> bool:
        """Returns whether a command is in its stream already; then it is dropped."""
        known = _publication(streams, command.stream, command.event)
        if known is None:
            return False
        self._admission.recorded(command, known.postponed is not None)
        self._drop(command)
        return True

    def _has_space(self, publisher: str) -> bool:
        free = self._max_held - len(self._held)
        return self._held_of.get(publisher, 0) < free and self._held_bytes < MAX_HELD_BYTES

    def _hold(
        self, entry: Entry, source: Source, arrival: Arrival, signature: SignatureResult, publisher: str
    ) -> None:
        stream = _stream(arrival, source)
        arrival = replace(arrival, problems=tuple(_with_place(each, source) for each in arrival.problems))
        if signature.problem is not None:
            # Under an id of its own: a publisher that cannot sign must not use up the id of another one.
            arrival = replace(arrival, command_id="", body=None, problems=(signature.problem,))
        elif arrival.receipt_to in self._receipt_topics:
            command_id = arrival.command_id or position_id(source)
            self.receipt_requests.append(
                ReceiptRequest(arrival.receipt_to, stream, command_id, source, arrival.traceparent)
            )
        elif arrival.receipt_to and arrival.problem is None:
            arrival = replace(arrival, body=None, problems=(_no_receipt(arrival, self._receipt_topics),))
        event = _received(arrival, source, signature.key_id)
        size_bytes = len(entry.value or b"") + RECORD_OVERHEAD_BYTES
        at_ms = entry.append_time_ms
        command = WaitingCommand(
            publisher, stream, event, arrival.traceparent, size_bytes, at_ms, arrival.encrypted
        )
        self._held[command.position] = command
        self._held_bytes += size_bytes
        self._held_of[publisher] = self._held_of.get(publisher, 0) + 1
        self._queue_of(command).add(command)

    def _drop(self, command: WaitingCommand) -> None:
        del self._held[command.position]
        self._held_bytes -= command.size_bytes
        left = self._held_of[command.publisher] = self._held_of[command.publisher] - 1
        if not left:
            del self._held_of[command.publisher]
        self._queue_of(command).remove(command)

    def _queue_of(self, command: WaitingCommand) -> FairQueue:
        return self._queues.setdefault(partition_of(command.stream, self._event_partitions), FairQueue())


def _with_place(problem: Problem, source: Source) -> Problem:
    """Returns a problem; that of a secret says where it is still readable, as no command can remove it."""
    if problem.code != SUSPECTED:
        return problem
    place = f"{source.topic}, partition {source.partition}, offset {source.offset}"
    hint = f"rotate it: it can be read in {place}, until the retention of the topic removes it"
    return problem.model_copy(update={"message": f"{problem.message}; {hint}"})


def _no_receipt(arrival: Arrival, allowed: Collection[str]) -> Problem:
    message = f"topic {arrival.receipt_to[:200]!r}, allowed: {', '.join(sorted(allowed)) or 'none'}"
    return Problem(code="bad_receipt_topic", path="$receiptto", message=message[:1_000])


def _publication(streams: Streams, stream_id: str, event: CommandReceived) -> Publication | None:
    stream = streams.find(stream_id)
    command = stream.commands.get(event.command_id) if stream is not None else None
    publications = () if command is None else command.publications
    return next((found for found in publications if found.source == event.source), None)


def _recordable(streams: Streams, command: WaitingCommand) -> CommandReceived:
    """Returns what the log gets of a command: of one for a forgotten stream, not its content."""
    stream = streams.find(command.stream)
    if stream is None or stream.forgotten is None:
        return command.event
    return without_content(command.stream, command.event)


def _stream(arrival: Arrival, source: Source) -> str:
    """Returns the stream that a command is answered on: its own, else its id, else its position."""
    return arrival.stream or arrival.command_id or f"commands/{position_id(source)}"


def _received(arrival: Arrival, source: Source, key_id: str) -> CommandReceived:
    return CommandReceived(
        command_id=arrival.command_id or position_id(source),
        command_type=arrival.command_type,
        body=arrival.body,
        digest=arrival.digest,
        source=source,
        publisher=arrival.publisher,
        rules=RULES,
        problem=arrival.problem,
        key_id=key_id,
        problems=limit_problems(arrival.problems),
    )


def next_commands(streams: Streams, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Returns the offset from which to read each partition of commands: the first that no stream has.

    Commands reach the partitions of their streams in any order, so one that is missing may come before
    others that are there. A command that is read twice is in its stream already, and changes nothing there.
    """
    recorded: set[tuple[str, int, int]] = {
        (publication.source.topic, publication.source.partition, publication.source.offset)
        for stream in streams.by_id.values()
        for command in stream.commands.values()
        for publication in command.publications
    }
    positions = dict(starts)
    for (topic, partition), start in starts.items():
        offset = start
        while (topic, partition, offset) in recorded:
            offset += 1
        positions[topic, partition] = offset
    return positions
