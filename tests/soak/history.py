"""Follows a log for a day: what is folded of an experiment is forgotten when that was checked."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.history import FoldedRecord, History
from trackside.aggregates.batch.messages import GroupEnded
from trackside.aggregates.rounds.messages import RoundEnded
from trackside.aggregates.run.step_messages import StepEnded
from trackside.aggregates.search.messages import TrialEnded
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.tasks.tasks import AttemptAdopted, AttemptEnded
from trackside.domain.fleet import fleet
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log

PartEnd = tuple[str, ...]
"""What an end is of: a stream, a kind of part and its names."""
LAST_RECORDS = 25


def is_of(stream: str, name: str) -> bool:
    """Returns whether a stream is that of an experiment, or of a part of it; any is of the empty name."""
    return not name or stream == name or stream.startswith((f"{name}.", f"{name}-"))


class SoakHistory(History):
    """The folded state of what runs, the ends of its parts, and the answers to commands.

    It keeps the last few records only. `events` counts all, `applied_events` those that had an effect,
    `attempts` the ends of attempts by kind and their adoptions, and `last_event_s` says when the last event
    was read.
    """

    def __init__(self, log: Log, topics: Topics) -> None:
        super().__init__(log, topics, "")
        self.events = 0
        self.applied_events = 0
        self.last_event_s = monotonic_s()
        self.ends: Counter[PartEnd] = Counter()
        self.attempts: Counter[str] = Counter()
        self.answers: dict[Source, str] = {}
        """The code of each refusal by the place of its command; empty for an accepted one."""
        self.received: Counter[Source] = Counter()

    @property
    def position(self) -> int:
        """The number of records read."""
        return self.events

    def streams_of(self, name: str) -> list[Stream]:
        """Returns the streams of an experiment."""
        return [stream for key, stream in self.streams.by_id.items() if is_of(key, name)]

    def forget(self, name: str) -> None:
        """Forgets the streams of an experiment."""
        for stream in self.streams_of(name):
            del self.streams.by_id[stream.stream_id]
        for end in [each for each in self.ends if is_of(each[0], name)]:
            del self.ends[end]

    def _fold(self, record: Record) -> None:
        if record.topic == self._topics.fleet.name:
            outcome = fleet.evolve(self.fleet, record)
        else:
            _, outcome = self.streams.fold(record)
        self.events += 1
        self.last_event_s = monotonic_s()
        self.records.append(FoldedRecord(record, outcome))
        del self.records[:-LAST_RECORDS]
        if outcome is Outcome.APPLIED:
            self.applied_events += 1
            self.ends.update(_ends(record))
            self._note(record)

    def _note(self, record: Record) -> None:
        match record.message:
            case AttemptEnded(end=end):
                self.attempts[end.value] += 1
            case AttemptAdopted():
                self.attempts["adopted"] += 1
            case CommandReceived(source=source):
                self.received[source] += 1
            case CommandAccepted(source=source):
                self.answers[source] = ""
            case CommandRefused(source=source, code=code):
                self.answers[source] = code


def _ends(record: Record) -> Iterator[PartEnd]:
    """Yields what a record ends, by its names."""
    stream = record.envelope.stream
    match record.message:
        case AttemptEnded(task_id=task_id, attempt=attempt):
            yield stream, "attempt", task_id, str(attempt)
        case TrialEnded(trial=trial):
            yield stream, "trial", str(trial)
        case GroupEnded(group=group):
            yield stream, "group", str(group)
        case StepEnded(step=step, generation=generation):
            yield stream, "step", step, str(generation)
        case RoundEnded(number=number):
            yield stream, "round", str(number)
