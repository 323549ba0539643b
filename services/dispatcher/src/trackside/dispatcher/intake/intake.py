"""Reads published commands until their streams have them; undecodable records become dead letters."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from trackside.contracts.codec import UndecodableError
from trackside.contracts.commands import RULES, CommandReceived, RecordDeadLettered, Source
from trackside.contracts.ingress import SUSPECTED, Arrival
from trackside.contracts.refusals import Problem, limit_problems
from trackside.dispatcher.intake.receipts import CommandPosition, ReceiptRequest
from trackside.dispatcher.intake.signatures import SIGNATURES_OFF, SignatureVerifier
from trackside.domain.streams import Streams
from trackside.eventlog.dead_letters import dead_letter, position_id, position_of
from trackside.eventlog.log import Entry, TopicPartition


class Intake:
    """Commands that were read and are not in their streams yet, by their position in the commands topic.

    An arrival is kept until its CommandReceived is folded, so one whose write was lost is written again.
    """

    def __init__(
        self, receipt_topics: Collection[str] = (), signatures: SignatureVerifier = SIGNATURES_OFF
    ) -> None:
        self._receipt_topics = receipt_topics
        self._signatures = signatures
        self._arrivals: dict[CommandPosition, tuple[str, CommandReceived, str]] = {}
        self.dead_letters: list[RecordDeadLettered] = []
        self.receipt_requests: list[ReceiptRequest] = []

    def receive(self, entry: Entry) -> None:
        """Reads an entry of the commands topic: an arrival, or a dead letter."""
        source = position_of(entry)
        try:
            arrival, signature = self._signatures.read(entry)
        except UndecodableError as error:
            self.dead_letters.append(dead_letter(entry, error, "dispatcher"))
            return
        arrival = replace(arrival, problems=tuple(_with_place(each, source) for each in arrival.problems))
        position, stream = (entry.partition, entry.offset), _stream(arrival, source)
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
        self._arrivals[position] = (stream, _received(arrival, source, signature.key_id), arrival.traceparent)

    def recorded(self, event: CommandReceived) -> None:
        """Drops an arrival that is in its stream; a command of a parent stream was none."""
        position = (event.source.partition, event.source.offset)
        known = self._arrivals.get(position)
        if known is not None and known[1].source == event.source:
            del self._arrivals[position]

    def unrecorded(self, streams: Streams) -> list[tuple[str, CommandReceived, str]]:
        """Returns stream, event and traceparent of each arrival that is in no stream yet, oldest first.

        Drops arrivals that were read again after a restart and are in their streams already.
        """
        recorded = [
            position
            for position, (stream, event, _) in self._arrivals.items()
            if _is_recorded(streams, stream, event)
        ]
        for position in recorded:
            del self._arrivals[position]
        return list(self._arrivals.values())

    def __len__(self) -> int:
        return len(self._arrivals)


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


def _is_recorded(streams: Streams, stream_id: str, event: CommandReceived) -> bool:
    stream = streams.find(stream_id)
    command = stream.commands.get(event.command_id) if stream is not None else None
    return command is not None and any(found.source == event.source for found in command.publications)


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
