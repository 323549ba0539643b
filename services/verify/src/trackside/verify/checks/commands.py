"""INV-1 and INV-8: commands are received and answered, each publication once."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.domain.checks.findings import Findings, RecordPosition, position_of
from trackside.domain.proposal import cause_of
from trackside.domain.streams.command import REMEMBERED
from trackside.verify.checks.publications import PublicationChecks, text_of

KeyT = TypeVar("KeyT")
CommandEvent = CommandReceived | CommandAccepted | CommandRefused


@dataclass(slots=True)
class CommandHistory:
    """The publications of one stream: those without an answer, and the newest with one; what was accepted."""

    open: dict[Source, RecordPosition] = field(default_factory=dict)
    answered: dict[Source, None] = field(default_factory=dict)
    accepted: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class CommandChecks:
    """Checks the events of commands; `published`: records of the commands topic not received yet."""

    findings: Findings
    publications: PublicationChecks
    published: dict[Source, RecordPosition] = field(default_factory=dict)

    def take(self, history: CommandHistory, event: CommandEvent, record: Record) -> bool:
        """Checks one event; returns whether it accepts a command of which no publication was accepted."""
        if isinstance(event, CommandReceived):
            self._received(history, event, record)
            return False
        self._answered(history, event, record)
        if isinstance(event, CommandRefused) or event.command_id in history.accepted:
            return False
        _remember(history.accepted, event.command_id)
        return True

    def finish(self, histories: Iterable[CommandHistory], forgotten: Container[str] = ()) -> None:
        """Adds what is missing so far: however long a dispatcher was away, it goes on where it stopped."""
        for history in histories:
            for position in history.open.values():
                self.findings.leave_open("INV-1", position, "this publication of a command has no answer")
        for position in self.published.values():
            if position.stream in forgotten:  # that it was received can't be read any more
                continue
            self.findings.leave_open("INV-8", position, "no stream has received this record")

    def _received(self, history: CommandHistory, event: CommandReceived, record: Record) -> None:
        self.findings.checked["INV-1"] += 1
        source = event.source
        if source in history.open or source in history.answered:
            self.findings.add("INV-8", record, f"{text_of(source)} is received twice")
            return
        history.open[source] = position_of(record)
        if self.publications.received(event, record):
            self.published.pop(source, None)

    def _answered(
        self, history: CommandHistory, event: CommandAccepted | CommandRefused, record: Record
    ) -> None:
        name = f"command {event.command_id}, published as {text_of(event.source)},"
        received = history.open.pop(event.source, None)
        cause = record.envelope.causation_id
        if event.source in history.answered:
            self.findings.add("INV-1", record, f"{name} is answered twice")
        elif received is None:
            self.findings.add("INV-1", record, f"{name} is answered but was not received")
        elif cause not in ("", cause_of(received.stream, received.offset)):
            message = f"its cause is {cause}, and {name} was received at offset {received.offset}"
            self.findings.add("INV-18", record, message)
        _remember(history.answered, event.source)


def _remember(newest: dict[KeyT, None], key: KeyT) -> None:
    newest[key] = None
    if len(newest) > REMEMBERED:
        del newest[next(iter(newest))]
