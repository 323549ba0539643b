"""INV-1 and INV-8: commands are received and answered, each publication once."""

from dataclasses import dataclass, field

from trackside.contracts.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.message import Record
from trackside.domain.command import REMEMBERED
from trackside.domain.findings import Findings, RecordPosition, position_of

ANSWER_GRACE_MS = 10_000
"""How long a command may be without an answer, ms: at the end of a live log some are new."""

CommandEvent = CommandReceived | CommandAccepted | CommandRefused


@dataclass(slots=True)
class CommandHistory:
    """The publications of one stream: those without an answer, and the newest with one."""

    open: dict[Source, tuple[RecordPosition, int]] = field(default_factory=dict)
    answered: dict[Source, None] = field(default_factory=dict)


@dataclass(slots=True)
class CommandChecks:
    """Checks the events of commands; `published`: records of the commands topic not received yet."""

    findings: Findings
    published: dict[Source, tuple[RecordPosition, int]] = field(default_factory=dict)

    def take(self, history: CommandHistory, event: CommandEvent, record: Record) -> None:
        """Checks one event."""
        if isinstance(event, CommandReceived):
            self._received(history, event.source, record)
        else:
            self._answered(history, event, record)

    def finish(self, histories: dict[str, CommandHistory], now_ms: int) -> None:
        """Adds what is missing; `now_ms` is the clock of the log."""
        for history in histories.values():
            for position, time_ms in history.open.values():
                if now_ms - time_ms >= ANSWER_GRACE_MS:
                    self.findings.add("INV-1", position, "this publication of a command has no answer")
        for position, time_ms in self.published.values():
            if now_ms - time_ms >= ANSWER_GRACE_MS:
                self.findings.add("INV-8", position, "this record was skipped: no stream has received it")

    def _received(self, history: CommandHistory, source: Source, record: Record) -> None:
        self.findings.checked["INV-1"] += 1
        if source in history.open or source in history.answered:
            self.findings.add("INV-8", record, f"{_source_text(source)} is received twice")
            return
        history.open[source] = (position_of(record), record.append_time_ms)
        self.published.pop(source, None)

    def _answered(
        self, history: CommandHistory, event: CommandAccepted | CommandRefused, record: Record
    ) -> None:
        name = f"command {event.command_id}, published as {_source_text(event.source)},"
        if event.source in history.answered:
            self.findings.add("INV-1", record, f"{name} is answered twice")
        elif history.open.pop(event.source, None) is None:
            self.findings.add("INV-1", record, f"{name} is answered but was not received")
        history.answered[event.source] = None
        if len(history.answered) > REMEMBERED:
            del history.answered[next(iter(history.answered))]


def _source_text(source: Source) -> str:
    return f"{source.topic}-{source.partition}@{source.offset}"
