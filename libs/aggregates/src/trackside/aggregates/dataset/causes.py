"""The events of a dataset as short lines, and the watcher that has reported them."""

from collections.abc import Mapping

from trackside.aggregates.dataset.messages import (
    DatasetChanged,
    DatasetDeleted,
    DatasetObserved,
    DatasetPaused,
    DatasetRefused,
    DatasetRegistered,
    DatasetReport,
    DatasetResumed,
    DatasetTruncated,
    DeleteDataset,
    PauseDataset,
    RegisterDataset,
    ResumeDataset,
)
from trackside.aggregates.dataset.state import Dataset, watcher_id
from trackside.contracts.envelope.message import Command, Message
from trackside.domain.display.short_text import named_values
from trackside.domain.streams.causality import Causality


class DatasetCausality(Causality[Dataset]):
    """What is observed of a dataset rests on what its watcher has reported; other events on commands."""

    commanded: Mapping[type[Message], tuple[type[Command], ...]] = {
        DatasetRegistered: (RegisterDataset,),
        DatasetPaused: (PauseDataset,),
        DatasetResumed: (ResumeDataset,),
        DatasetDeleted: (DeleteDataset,),
    }

    def task_of(self, stream_id: str, event: Message) -> str:
        """Returns the watcher that has reported an event."""
        return watcher_id(stream_id, event.watcher) if isinstance(event, DatasetReport) else ""

    def text_of(self, event: Message) -> str:
        """Returns what was observed, or why nothing more is; other events are their fields."""
        match event:
            case DatasetRegistered():
                return f"{event.dataset.format} {event.dataset.url}"
            case DatasetObserved():
                metrics = f" {named_values(event.metrics)}" if event.metrics else ""
                return f"samples {event.begin:,} to {event.end:,}, {event.end_byte:,} bytes{metrics}"
            case DatasetTruncated():
                return f"{event.size_bytes:,} bytes, {event.observed_bytes:,} were observed"
            case DatasetChanged():
                return f"{event.sha256[:12] or 'other bytes'}, {event.observed_sha256[:12]} was observed"
            case DatasetRefused():
                sample = "" if event.line is None else f" sample {event.line:,}"
                return f"{event.code}{sample} {event.message}".rstrip()
            case DatasetPaused() | DatasetDeleted():
                return event.reason
            case _:
                return ""
