"""What people see of a dataset: how far it was observed, what stops that, and the tasks that watch it."""

from collections.abc import Collection, Sequence

from trackside.aggregates.dataset.listing import DatasetListing
from trackside.aggregates.dataset.state import STOPPED, Dataset
from trackside.contracts.envelope.memory import shown
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.report import ReportSection
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import counted
from trackside.domain.display.view import Progress, QueriedRows, StreamEnd, View
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream

SAMPLES = "samples"


class DatasetView(DatasetListing, View[Dataset]):
    """What people see of a dataset."""

    state_names = ("url", "format", "lines", "bytes", "sha256", "metrics", "watcher", "reason")

    def facts(self, row: ViewRow, rows: QueriedRows) -> Sequence[tuple[str, object]]:
        """Returns what is known of it; its tables are the tasks that watch it or did."""
        return [
            ("dataset", row["dataset_id"]),
            ("status", row["status"]),
            ("since", row["status_at"]),
            ("reason", row["reason"] or row["waits_for"]),
            ("samples", row["lines"]),
            ("size", f"{shown(row['bytes'])} ({row['bytes']} bytes)"),
            ("sha256", row["sha256"]),
            ("observed", row["observed_at"]),
            *((name, row[name]) for name in ("metrics", "url", "format", "credential", "queue")),
            ("checked every", f"{row['look_s']:g} s"),
            ("drift", row["drift"]),
            ("description", row["description"]),
            ("registered", row["started_at"]),
            ("deleted", row["ended_at"]),
        ]

    def sections(self, row: ViewRow, rows: QueriedRows) -> list[ReportSection]:
        """Returns no sections: the tasks that watch it compute nothing."""
        return []

    def progress(self, stream: Stream[Dataset]) -> Progress:
        """Returns how many samples it has."""
        dataset = stream.root
        detail = f", {dataset.reason}" if dataset.reason else ""
        ended_ms = dataset.status_ms if dataset.over else 0
        status, lines = dataset.status.value, dataset.end.lines
        return Progress(status, dataset.registered_ms, ended_ms, lines, None, SAMPLES, detail)

    def end(self, stream: Stream[Dataset], accepted: Collection[AttemptEnd]) -> StreamEnd:
        """Returns what it has: nothing watches it; a failure if something is wrong with it."""
        dataset, name, count = stream.root, stream.stream_id, stream.root.end.lines
        status, why = dataset.status.value, f" ({dataset.reason})" if dataset.reason else ""
        summary = {"dataset_id": name, "status": status, SAMPLES: count, "reason": dataset.reason}
        failure = f"{name}: {dataset.reason}" if dataset.status in STOPPED else ""
        return StreamEnd(summary, [f"{name} {status}: {counted(count, 'sample')}{why}"], failure=failure)

    def state(self, stream: Stream[Dataset]) -> Fields:
        """Returns its state without its tasks."""
        dataset = stream.root
        return {
            "status": dataset.status.value,
            "reason": dataset.reason or None,
            "url": dataset.spec.url,
            "format": dataset.spec.format,
            "lines": dataset.end.lines,
            "bytes": dataset.end.size,
            "sha256": dataset.end.sha256,
            "metrics": dict(dataset.metrics) or None,
            "watcher": dataset.watcher_id() if dataset.watching else None,
            "started_ms": dataset.registered_ms,
            "ended_ms": dataset.status_ms if dataset.over else None,
        }


VIEW = DatasetView()
