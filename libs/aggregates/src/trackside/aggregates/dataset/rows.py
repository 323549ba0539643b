"""Rows of datasets."""

from collections.abc import Iterable

from trackside.aggregates.dataset.messages import DatasetStatus
from trackside.aggregates.dataset.state import dataset_of
from trackside.contracts.envelope.message import Event
from trackside.domain.rows.cells import json_text, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream


class DatasetRows:
    """One row per dataset."""

    table = Table(
        "datasets",
        (
            "dataset_id",
            "url",
            "format",
            "status",
            "reason",
            "status_ms",
            "lines",
            "bytes",
            "sha256",
            "metrics",
            "observed_ms",
            "watcher",
            "credential",
            "queue",
            "look_s",
            "drift",
            "description",
            "registered_ms",
            "deleted_ms",
        ),
        key_width=1,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the dataset of any event of its stream."""
        return self.keys(stream)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream's dataset, if it has one."""
        return () if dataset_of(stream) is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the dataset."""
        dataset = dataset_of(stream)
        assert dataset is not None
        spec, end = dataset.spec, dataset.end
        return (
            *key,
            without_nul(spec.url),
            spec.format,
            dataset.status.value,
            without_nul(dataset.reason),
            dataset.status_ms,
            end.lines,
            end.size,
            end.sha256,
            json_text(dataset.metrics),
            time_or_null(dataset.observed_ms),
            dataset.watcher_id() if dataset.watching else None,
            spec.credential,
            spec.queue,
            spec.look_s,
            json_text(spec.drift),
            without_nul(spec.description),
            dataset.registered_ms,
            dataset.status_ms if dataset.status is DatasetStatus.DELETED else None,
        )
