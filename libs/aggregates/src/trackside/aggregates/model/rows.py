"""Rows of models and their versions."""

from collections.abc import Iterable

from trackside.aggregates.model.messages import (
    ModelStageSet,
    ModelTagged,
    ModelVersionAdded,
)
from trackside.aggregates.model.state import model_of
from trackside.contracts.envelope.message import Event
from trackside.domain.rows.cells import json_text, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream


class ModelRows:
    """One row per model."""

    table = Table(
        "models",
        (
            "model_id",
            "status",
            "description",
            "tags",
            "labels",
            "versions",
            "staging",
            "production",
            "registered_ms",
            "archived_ms",
            "archive_reason",
        ),
        key_width=1,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the model of any event of its stream."""
        return self.keys(stream)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream's model, if it has one."""
        return () if model_of(stream) is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the model."""
        model = model_of(stream)
        assert model is not None
        return (
            *key,
            model.status.value,
            without_nul(model.spec.description),
            json_text(model.tags),
            json_text(model.labels),
            len(model.versions),
            model.holder("staging"),
            model.holder("production"),
            model.registered_ms,
            time_or_null(model.archived_ms),
            without_nul(model.reason),
        )


class ModelVersionRows:
    """One row per version of a model."""

    table = Table(
        "model_versions",
        (
            "model_id",
            "version",
            "stage",
            "uri",
            "sha256",
            "size_bytes",
            "media_type",
            "credential",
            "source",
            "framework",
            "format",
            "devices",
            "tags",
            "labels",
            "config",
            "comment",
            "stream_id",
            "task_id",
            "attempt",
            "parameters",
            "metrics",
            "inputs",
            "published_ms",
        ),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the versions that an event of the model changes."""
        match event:
            case ModelVersionAdded():
                numbers = [event.version]
            case ModelStageSet():
                numbers = [event.version, *([] if event.replaces is None else [event.replaces])]
            case ModelTagged():
                numbers = [] if event.version is None else [event.version]
            case _:
                numbers = []
        return [(stream.stream_id, number) for number in numbers]

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all versions of the stream's model."""
        model = model_of(stream)
        numbers = 0 if model is None else len(model.versions)
        return ((stream.stream_id, number) for number in range(1, numbers + 1))

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a version."""
        model = model_of(stream)
        version = None if model is None else model.version(key[1])
        assert version is not None
        spec, artifact, task = version.spec, version.spec.artifact, version.spec.task
        return (
            *key,
            version.stage,
            without_nul(artifact.uri),
            artifact.sha256,
            artifact.size_bytes,
            without_nul(artifact.media_type),
            artifact.credential,
            without_nul(artifact.source) or None,
            without_nul(spec.framework),
            without_nul(spec.format),
            json_text(spec.devices),
            json_text(version.tags),
            json_text(version.labels),
            json_text(spec.config),
            without_nul(spec.comment),
            None if task is None else task.stream,
            None if task is None else task.task,
            None if task is None else task.attempt,
            json_text(spec.parameters),
            json_text(spec.metrics),
            json_text(spec.inputs),
            version.added_ms,
        )
