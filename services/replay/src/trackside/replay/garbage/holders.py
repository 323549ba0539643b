"""Which streams hold which artifacts: a digest stays in the store while one of them does.

A stream holds every digest that one of its records has which counts, until it forgets it. A checkpoint that
only its own task has saved, and that the task's rule no longer keeps, may be forgotten.
"""

from dataclasses import dataclass, field

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.streams.commands import CommandReceived, CommandRefused
from trackside.contracts.streams.forgetting import StreamForgotten
from trackside.contracts.tasks.artifacts import (
    CHECKPOINT,
    FOLDER_MEDIA_TYPE,
    STORED,
    ArtifactReference,
    ArtifactSaved,
    ArtifactsForgotten,
    ForgetArtifacts,
    TaskResumed,
)
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream, shrink
from trackside.replay.history.references import digests_in, references_in

_FORGETTING = ForgetArtifacts.wire_type()


@dataclass(slots=True)
class StreamHoldings:
    """What one stream holds: digests that it needs, and checkpoints by the trainings that have saved them."""

    needed: set[str] = field(default_factory=set)
    checkpoints: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    kept: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """The checkpoints that the rule of their task keeps, by task and part."""

    def holds(self, sha256: str) -> bool:
        """Returns whether a record of the stream refers to a digest that it has not forgotten."""
        return sha256 in self.needed or sha256 in self.checkpoints

    def superseded(self) -> list[str]:
        """Returns the digests of checkpoints that no rule keeps and nothing else of the stream needs."""
        return sorted(
            digest
            for digest, trainings in self.checkpoints.items()
            if digest not in self.needed and not any(digest in self.kept[each] for each in trainings)
        )

    def forget(self, sha256: str) -> None:
        """Lets go of a digest."""
        self.needed.discard(sha256)
        for training in self.checkpoints.pop(sha256, ()):
            self.kept[training].discard(sha256)


@dataclass(slots=True)
class Holders:
    """What all streams hold, as far as the log was read.

    `folders` are the manifests that the store has; of those of imported streams it may have some.
    """

    by_stream: dict[str, StreamHoldings] = field(default_factory=dict)
    folders: dict[str, ArtifactReference] = field(default_factory=dict)
    imported_folders: dict[str, ArtifactReference] = field(default_factory=dict)
    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES))

    def take_event(self, record: Record, value: bytes) -> None:
        """Folds an event, in order; what had no effect holds nothing."""
        stream, outcome = self.streams.fold(record)
        if outcome is Outcome.PARKED:  # it may come to count
            self.hold(stream.stream_id, value)
        if outcome is not Outcome.APPLIED:
            return
        event = record.message
        if isinstance(event, StreamForgotten):
            for holder in (stream.stream_id, f"summaries/{stream.stream_id}"):
                self.by_stream.pop(holder, None)
        elif isinstance(event, ArtifactsForgotten):
            for digest in event.artifacts:
                self._of(stream.stream_id).forget(digest)
        elif isinstance(event, ArtifactSaved | TaskResumed):
            self._take_artifact(stream, event)
            self._note_folders(value, self.folders)
        elif not _only_names(event):
            self.hold(stream.stream_id, value)
        shrink(stream)

    def take_again(self, stream: Stream, outcome: Outcome, record: Record) -> None:
        """Takes in what became of an event that waited: all that is in it is held since it was read first."""
        event = record.message
        if outcome is Outcome.APPLIED and isinstance(event, ArtifactsForgotten):
            for digest in event.artifacts:
                self._of(stream.stream_id).forget(digest)
        shrink(stream)

    def unread(self) -> list[str]:
        """Returns the encrypted streams that can't be read, as their keys are missing."""
        return sorted(name for name, stream in self.streams.by_id.items() if stream.lacks_key)

    def hold(self, holder: str, value: bytes) -> None:
        """Makes a stream, or whoever else has a record, need all that is in it."""
        if digests := digests_in(value):
            self._of(holder).needed |= digests
            self._note_folders(value, self.folders)

    def hold_imported(self, stream: str, value: bytes) -> None:
        """Makes an imported stream need all that is in a record; it may have come without its artifacts."""
        if digests := digests_in(value):
            self._of(f"imported/{stream}").needed |= digests
            self._note_folders(value, self.imported_folders)

    def held(self) -> set[str]:
        """Returns all digests that a stream holds."""
        return {
            digest for each in self.by_stream.values() for digest in (*each.needed, *each.checkpoints.keys())
        }

    def superseded(self) -> dict[str, list[str]]:
        """Returns the checkpoints that may be forgotten, by the stream that holds them."""
        found = {stream: holdings.superseded() for stream, holdings in self.by_stream.items()}
        return {stream: digests for stream, digests in sorted(found.items()) if digests}

    def _take_artifact(self, stream: Stream, event: ArtifactSaved | TaskResumed) -> None:
        holdings = self._of(stream.stream_id)
        if isinstance(event, TaskResumed):
            if event.checkpoint.sha256 not in holdings.checkpoints:
                holdings.needed.add(event.checkpoint.sha256)
        elif event.kind != CHECKPOINT:
            holdings.needed.add(event.sha256)
        else:
            training = (event.task_id, event.requests)
            kept = stream.tasks[event.task_id].checkpoints
            holdings.checkpoints.setdefault(event.sha256, set()).add(training)
            holdings.kept[training] = {each.reference.sha256 for each in kept}

    def _of(self, stream_id: str) -> StreamHoldings:
        return self.by_stream.setdefault(stream_id, StreamHoldings())

    def _note_folders(self, value: bytes, folders: dict[str, ArtifactReference]) -> None:
        if FOLDER_MEDIA_TYPE.encode() in value:
            for reference in references_in(value):
                if reference.media_type == FOLDER_MEDIA_TYPE and reference.uri.startswith(STORED):
                    folders[reference.sha256] = reference


def _only_names(event: Message) -> bool:
    """Returns whether an event has digests only because a command asked to forget them."""
    if isinstance(event, CommandReceived):
        return event.command_type == _FORGETTING
    return isinstance(event, CommandRefused)
