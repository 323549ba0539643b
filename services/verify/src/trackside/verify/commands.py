"""INV-1 and INV-8: commands are received and answered, each publication once."""

from dataclasses import dataclass, field

from trackside.contracts.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.message import Record
from trackside.domain.command import REMEMBERED
from trackside.verify.findings import Findings, Where, where

GRACE_MS = 10_000
"""How old a command must be for a missing answer to be a finding; at the end of a live log some are new."""

CommandEvent = CommandReceived | CommandAccepted | CommandRefused


@dataclass(slots=True)
class CommandBook:
    """The publications of one stream: those that want an answer, and the newest that have theirs."""

    open: dict[Source, tuple[Where, int]] = field(default_factory=dict)
    answered: dict[Source, None] = field(default_factory=dict)


@dataclass(slots=True)
class Commands:
    """Judges the events about commands. `published`: records of the commands topic not yet received."""

    findings: Findings
    published: dict[Source, tuple[Where, int]] = field(default_factory=dict)

    def take(self, book: CommandBook, event: CommandEvent, record: Record) -> None:
        """Judges one event."""
        if isinstance(event, CommandReceived):
            self._received(book, event.source, record)
        else:
            self._answered(book, event, record)

    def finish(self, books: dict[str, CommandBook], now_ms: int) -> None:
        """Finds what is missing; `now_ms` is the clock of the log."""
        for book in books.values():
            for place, time_ms in book.open.values():
                if now_ms - time_ms >= GRACE_MS:
                    self.findings.add("INV-1", place, "this publication of a command has no answer")
        for place, time_ms in self.published.values():
            if now_ms - time_ms >= GRACE_MS:
                self.findings.add("INV-8", place, "this record was passed over: no stream has received it")

    def _received(self, book: CommandBook, source: Source, record: Record) -> None:
        self.findings.checked["INV-1"] += 1
        if source in book.open or source in book.answered:
            self.findings.add("INV-8", record, f"{_shown(source)} is received twice")
            return
        book.open[source] = (where(record), record.append_time_ms)
        self.published.pop(source, None)

    def _answered(self, book: CommandBook, event: CommandAccepted | CommandRefused, record: Record) -> None:
        name = f"command {event.command_id}, published as {_shown(event.source)},"
        if event.source in book.answered:
            self.findings.add("INV-1", record, f"{name} is answered twice")
        elif book.open.pop(event.source, None) is None:
            self.findings.add("INV-1", record, f"{name} is answered but was not received")
        book.answered[event.source] = None
        if len(book.answered) > REMEMBERED:
            del book.answered[next(iter(book.answered))]


def _shown(source: Source) -> str:
    return f"{source.topic}-{source.partition}@{source.offset}"
