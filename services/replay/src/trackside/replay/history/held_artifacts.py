"""What streams refer to in the store of artifacts, and have not forgotten: its bytes must be there."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.commands import CommandReceived, CommandRefused
from trackside.contracts.tasks.artifacts import (
    STORED,
    ArtifactReference,
    ArtifactSaved,
    ArtifactsForgotten,
    artifact_source,
)
from trackside.domain.checks.findings import RecordPosition, position_of
from trackside.domain.outcome import Outcome
from trackside.replay.history.references import references_in


@dataclass(frozen=True, slots=True)
class HeldArtifact:
    """An artifact of a stream: what it is called, and the record that refers to it first."""

    name: str
    reference: ArtifactReference
    place: RecordPosition


@dataclass(slots=True)
class HeldArtifacts:
    """The artifacts that applied events refer to, by stream and name, as far as a log was read.

    What was only asked for by a command isn't held: it may be refused.
    """

    by_stream: dict[str, dict[str, HeldArtifact]] = field(default_factory=dict)

    def take(self, record: Record, outcome: Outcome, value: bytes) -> None:
        """Takes in the next event and its bytes."""
        event, stream = record.message, record.envelope.stream
        if outcome is not Outcome.APPLIED or isinstance(event, CommandReceived | CommandRefused):
            return
        if isinstance(event, ArtifactsForgotten):
            self._forget(stream, event.artifacts)
        elif references := list(references_in(value)):
            held = self.by_stream.setdefault(stream, {})
            for reference in references:
                name = _name(record, reference)
                held.setdefault(name, HeldArtifact(name, reference, position_of(record)))

    def stored(self) -> list[HeldArtifact]:
        """Returns those that belong into the store, in the order of their streams."""
        return [each for each in self._all() if each.reference.uri.startswith(STORED)]

    def outside(self) -> list[HeldArtifact]:
        """Returns those that are elsewhere: the log has their URLs."""
        return [each for each in self._all() if not each.reference.uri.startswith(STORED)]

    def _all(self) -> Iterable[HeldArtifact]:
        return (each for held in self.by_stream.values() for each in held.values())

    def _forget(self, stream: str, digests: Iterable[str]) -> None:
        forgotten, held = set(digests), self.by_stream.get(stream, {})
        self.by_stream[stream] = {
            name: each for name, each in held.items() if each.reference.sha256 not in forgotten
        }


def _name(record: Record, reference: ArtifactReference) -> str:
    event = record.message
    if isinstance(event, ArtifactSaved):
        return artifact_source(record.envelope.stream, event.task_id, event.name, event.version)
    return reference.source or reference.uri
