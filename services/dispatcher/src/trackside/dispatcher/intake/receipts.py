"""Sends answers to the topics that commands have named for them, each at least once.

A command that names one is remembered until its receipt was acknowledged. `positions` are where to read
commands again after a crash: before them none is lacking. A receipt's id is the place of its command, so that
whoever reads them knows one that was sent again.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

import structlog

from trackside.contracts.commands import CommandAccepted, CommandRefused, Source
from trackside.contracts.refusals import Problem
from trackside.contracts.topics import partition_of
from trackside.domain.command import ReceivedCommand
from trackside.domain.streams import Streams
from trackside.eventlog.background import Background
from trackside.eventlog.dead_letters import position_id
from trackside.eventlog.errors import TooLargeError, TransientError
from trackside.eventlog.log import Log
from trackside.eventlog.record_writer import RecordWriter

log = structlog.get_logger("trackside.dispatcher")

CommandAnswer = CommandAccepted | CommandRefused
CommandPosition = tuple[int, int]
RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class ReceiptRequest:
    """A publication whose answer is to go to a topic too."""

    topic: str
    stream: str
    command_id: str
    source: Source
    traceparent: str = ""


def find_answer(streams: Streams, wanted: ReceiptRequest) -> CommandAnswer | None:
    """Gives the answer that a publication has in the state of its stream; None if it has none yet."""
    stream = streams.find(wanted.stream)
    command = None if stream is None else stream.commands.get(wanted.command_id)
    if command is None:
        return None
    found = [publication for publication in command.publications if publication.source == wanted.source]
    if not found or not found[0].answered:
        return None
    problem = conflict(command) if found[0].digest != command.digest else command.answer
    if problem is None:
        return CommandAccepted(command_id=command.command_id, source=wanted.source)
    return CommandRefused(command_id=command.command_id, source=wanted.source, **problem.model_dump())


def conflict(command: ReceivedCommand) -> Problem:
    """Says that a command's id was used before, with another body."""
    message = f"command id was used with another body at offset {command.offset} of its stream"
    return Problem(code="idempotency_conflict", message=message)


class Receipts:
    """Receipts that are wanted, by the place of their command; each topic has a queue of its own."""

    def __init__(
        self, into: Log, writer: RecordWriter, background: Background, topics: Collection[str]
    ) -> None:
        self.topics = topics
        self._log = into
        self._writer = writer
        self._background = background
        self._wanted: dict[CommandPosition, ReceiptRequest] = {}
        self._unseen: dict[CommandPosition, ReceiptRequest] = {}
        self._queues: dict[str, asyncio.Queue[tuple[ReceiptRequest, CommandAnswer]]] = {}
        self._read: dict[int, int] = {}

    def want(self, wanted: ReceiptRequest) -> None:
        """Remembers a receipt that is wanted; one that is remembered already stays one."""
        place = (wanted.source.partition, wanted.source.offset)
        if place not in self._wanted:
            self._wanted[place] = wanted
            self._unseen[place] = wanted

    def read(self, partition: int, offset: int) -> None:
        """Notes how far the commands were read."""
        self._read[partition] = offset + 1

    def answer(self, event: CommandAnswer) -> None:
        """Takes an answer that counts from the log."""
        place = (event.source.partition, event.source.offset)
        wanted = self._wanted.get(place)
        if wanted is not None and place not in self._unseen:
            self._send(wanted, event)

    def look_up(self, streams: Streams) -> None:
        """Sends what was answered before it was known to be wanted: after a start."""
        for wanted in self._unseen.values():
            found = find_answer(streams, wanted)
            if found is not None:
                self._send(wanted, found)
        self._unseen.clear()

    def positions(self) -> dict[int, int]:
        """Gives for each partition of commands the first offset that lacks a receipt, or the end read."""
        found = dict(self._read)
        for partition, offset in self._wanted:
            found[partition] = min(offset, found.get(partition, offset))
        return found

    def _send(self, wanted: ReceiptRequest, answer: CommandAnswer) -> None:
        queue = self._queues.get(wanted.topic)
        if queue is None:
            queue = self._queues[wanted.topic] = asyncio.Queue()
            self._background.spawn(self._sender(wanted.topic, queue))
        queue.put_nowait((wanted, answer))

    async def _sender(self, topic: str, queue: "asyncio.Queue[tuple[ReceiptRequest, CommandAnswer]]") -> None:
        """Sends the receipts of one topic as they are answered; a topic that is gone holds up no other."""
        while True:
            wanted, answer = await queue.get()
            while not await self._sent(topic, wanted, answer):  # noqa: ASYNC110  (a broker tells nobody)
                await asyncio.sleep(RETRY_S)
            self._wanted.pop((wanted.source.partition, wanted.source.offset), None)

    async def _sent(self, topic: str, wanted: ReceiptRequest, answer: CommandAnswer) -> bool:
        record = self._writer.single(
            wanted.stream, answer, traceparent=wanted.traceparent, message_id=position_id(wanted.source)
        )
        try:
            partitions = len(await self._log.ends(topic))
            if partitions:
                await self._log.publish(topic, partition_of(wanted.stream, partitions), record)
                return True
            reason = "there is no such topic"
        except TooLargeError as error:
            log.error("a receipt is too large for its topic", topic=topic, reason=str(error))
            return True
        except TransientError as error:
            reason = str(error)
        log.warning("a receipt waits", topic=topic, stream=wanted.stream, reason=reason)
        return False
