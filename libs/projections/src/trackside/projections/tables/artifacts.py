"""Rows of artifacts: those that tasks have saved, those that they were given, and those that were forgotten.

The state of a stream has the newest versions only, so each row comes from the record of its event.
"""

from collections.abc import Iterable

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.tasks.artifacts import ArtifactReference, ArtifactSaved, ArtifactsForgotten
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.rows.cells import bigint, json_text, without_nul
from trackside.domain.rows.table import RowValues, Table
from trackside.domain.streams.stream import Stream

INPUT, BEGINNING = "input", "checkpoint"
"""What a task uses an artifact for: as an input, or as the checkpoint that its training begins with."""


class ArtifactRows:
    """One row per artifact that a task has saved, all versions; `trial` is the one that it was saved for."""

    table = Table(
        "artifacts",
        (
            "log_partition",
            "log_offset",
            "stream_id",
            "task_id",
            "trial",
            "attempt",
            "placement",
            "number",
            "name",
            "version",
            "kind",
            "uri",
            "sha256",
            "size_bytes",
            "media_type",
            "step",
            "metadata",
            "saved_ms",
        ),
        key_width=2,
        insert_only=True,
    )
    kinds = frozenset({ArtifactSaved})

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the row of an artifact that was saved."""
        event = record.message
        if not isinstance(event, ArtifactSaved):
            return ()
        row = (
            record.partition,
            record.offset,
            stream.stream_id,
            event.task_id,
            number_of(stream.tasks[event.task_id].part, "trial"),
            bigint(event.attempt),
            bigint(event.placement),
            bigint(event.number),
            without_nul(event.name),
            bigint(event.version),
            without_nul(event.kind),
            without_nul(event.uri),
            without_nul(event.sha256),
            bigint(event.size_bytes),
            without_nul(event.media_type),
            None if event.step is None else bigint(event.step),
            json_text(event.metadata),
            record.append_time_ms,
        )
        return (row,)


class ArtifactUseRows:
    """One row per artifact that a task was given, as an input or as the checkpoint to begin with."""

    table = Table(
        "artifact_uses",
        (
            "log_partition",
            "log_offset",
            "use",
            "name",
            "stream_id",
            "task_id",
            "uri",
            "sha256",
            "size_bytes",
            "media_type",
            "source",
            "credential",
            "step",
            "submitted_ms",
        ),
        key_width=4,
        insert_only=True,
    )
    kinds = frozenset({TaskSubmitted})

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the rows of a task that was submitted with artifacts."""
        event = record.message
        if not isinstance(event, TaskSubmitted):
            return
        for name, reference in event.inputs.items():
            yield _use_row(record, event.task_id, INPUT, name, reference, None)
        if event.checkpoint is not None:
            begun = event.checkpoint
            yield _use_row(record, event.task_id, BEGINNING, BEGINNING, begun, bigint(begun.step))


class ForgottenArtifactRows:
    """One row per digest that a stream has forgotten; what it saves of that digest later is kept again."""

    table = Table(
        "forgotten_artifacts",
        ("log_partition", "log_offset", "sha256", "stream_id", "command_id", "reason", "forgotten_ms"),
        key_width=3,
        insert_only=True,
    )
    kinds = frozenset({ArtifactsForgotten})

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns a row for each digest that was forgotten, once."""
        event = record.message
        if not isinstance(event, ArtifactsForgotten):
            return
        for digest in dict.fromkeys(without_nul(each) for each in event.artifacts):
            yield (
                record.partition,
                record.offset,
                digest,
                stream.stream_id,
                without_nul(event.command_id),
                without_nul(event.reason),
                record.append_time_ms,
            )


def _use_row(
    record: Record, task_id: str, use: str, name: str, reference: ArtifactReference, step: int | None
) -> RowValues:
    return (
        record.partition,
        record.offset,
        use,
        name,
        record.envelope.stream,
        task_id,
        without_nul(reference.uri),
        reference.sha256,
        reference.size_bytes,
        without_nul(reference.media_type),
        without_nul(reference.source),
        reference.credential,
        step,
        record.append_time_ms,
    )
