"""Sends answers to the topics that commands name for them (`receiptto`), each at least once.

A request is kept until Kafka has acknowledged its receipt. `positions` are the offsets from which commands
are read again after a crash: no command before them lacks its receipt. A receipt's id is the position of its
command, so that a reader recognises one that was sent again.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import structlog

from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused, Source
from trackside.dispatcher.intake.fair_queue import CommandPosition
from trackside.domain.folding.streams import Streams
from trackside.domain.proposal import cause_of
from trackside.domain.streams.command import answer_again
from trackside.eventlog.background import Background
from trackside.eventlog.errors import TooLargeError, TransientError
from trackside.eventlog.keys.dead_letters import position_id
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log

log = structlog.get_logger("trackside.dispatcher")

CommandAnswer = CommandAccepted | CommandRefused
RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class ReceiptRequest:
    """A published command whose answer is also to be sent to a topic."""

    topic: str
    stream: str
    command_id: str
    source: Source
    traceparent: str = ""


_Receipt = tuple[ReceiptRequest, CommandAnswer, str]
"""A receipt to send: its request, the answer, and the cause that its record names."""


def find_answer(streams: Streams, request: ReceiptRequest) -> CommandAnswer | None:
    """Returns the answer that the state of its stream has for a publication, None if there is none yet."""
    stream = streams.find(request.stream)
    command = None if stream is None else stream.commands.get(request.command_id)
    if command is None:
        return None
    found = [publication for publication in command.publications if publication.source == request.source]
    if not found or not found[0].answered:
        return None
    return answer_again(command, found[0])


def answered_at(streams: Streams, request: ReceiptRequest) -> int:
    """Returns the offset of the answer to a publication, -1 if it has none."""
    stream = streams.find(request.stream)
    command = None if stream is None else stream.commands.get(request.command_id)
    publications = () if command is None else command.publications
    offsets = (each.answered_at for each in publications if each.source == request.source)
    return next(offsets, -1)


class Receipts:
    """Receipts that are not sent yet, by the position of their command; each topic has a queue of its own."""

    def __init__(
        self, into: Log, writer: RecordWriter, background: Background, topics: Collection[str]
    ) -> None:
        self.topics = topics
        self._unread: Callable[[], Mapping[int, int]] = dict
        self._log = into
        self._writer = writer
        self._background = background
        self._open: dict[CommandPosition, ReceiptRequest] = {}
        self._unanswered: dict[CommandPosition, ReceiptRequest] = {}
        self._queues: dict[str, asyncio.Queue[_Receipt]] = {}
        self._read: dict[int, int] = {}

    def request(self, request: ReceiptRequest) -> None:
        """Adds a request for a receipt; one that is open already is added once."""
        position = (request.source.partition, request.source.offset)
        if position not in self._open:
            self._open[position] = request
            self._unanswered[position] = request

    def read_again_from(self, offsets: Callable[[], Mapping[int, int]]) -> None:
        """Sets what returns the first command, by partition, that is to be read a second time."""
        self._unread = offsets

    def read(self, partition: int, offset: int) -> None:
        """Records how far the commands were read."""
        self._read[partition] = offset + 1

    def answer(self, event: CommandAnswer, offset: int) -> None:
        """Sends an answer that was folded at an offset, if its command asked for a receipt."""
        position = (event.source.partition, event.source.offset)
        request = self._open.get(position)
        if request is not None and request.source == event.source and position not in self._unanswered:
            self._send(request, event, offset)

    def send_answered(self, streams: Streams) -> None:
        """Sends the answers that were folded before their request was added, as after a start."""
        for request in self._unanswered.values():
            found = find_answer(streams, request)
            if found is not None:
                self._send(request, found, answered_at(streams, request))
        self._unanswered.clear()

    def positions(self) -> dict[int, int]:
        """Returns for each partition of commands the first offset that lacks a receipt, or the end read."""
        found = {at: min(offset, self._unread().get(at, offset)) for at, offset in self._read.items()}
        for partition, offset in self._open:
            found[partition] = min(offset, found.get(partition, offset))
        return found

    def _send(self, request: ReceiptRequest, answer: CommandAnswer, offset: int) -> None:
        queue = self._queues.get(request.topic)
        if queue is None:
            queue = self._queues[request.topic] = asyncio.Queue()
            self._background.spawn(self._sender(request.topic, queue))
        queue.put_nowait((request, answer, cause_of(request.stream, offset)))

    async def _sender(self, topic: str, queue: "asyncio.Queue[_Receipt]") -> None:
        """Sends the receipts of one topic in order; a topic that does not exist delays no other."""
        while True:
            request, answer, cause = await queue.get()
            while not await self._sent(topic, request, answer, cause):  # noqa: ASYNC110  (a broker sends no notification)
                await asyncio.sleep(RETRY_S)
            self._open.pop((request.source.partition, request.source.offset), None)

    async def _sent(self, topic: str, request: ReceiptRequest, answer: CommandAnswer, cause: str) -> bool:
        record = self._writer.single(
            request.stream,
            answer,
            cause=cause,
            traceparent=request.traceparent,
            message_id=position_id(request.source),
        )
        try:
            partitions = len(await self._log.ends(topic))
            if partitions:
                await self._log.publish(topic, partition_of(request.stream, partitions), record)
                return True
            reason = "there is no such topic"
        except TooLargeError as error:
            log.error("receipt too large for its topic", topic=topic, reason=str(error))
            return True
        except TransientError as error:
            reason = str(error)
        log.warning("receipt not sent yet", topic=topic, stream=request.stream, reason=reason)
        return False
