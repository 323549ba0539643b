"""What people see of a model: its versions, which of them are in use, and where they come from."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from trackside.aggregates.model.listing import ModelListing, production_text
from trackside.aggregates.model.messages import ModelVersionSpec
from trackside.aggregates.model.state import Model, ModelVersion
from trackside.contracts.envelope.memory import shown
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.report import ReportSection
from trackside.domain.display.selection import SortKey
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import Column, TextTable, as_text, counted
from trackside.domain.display.view import Progress, QueriedRows, StreamEnd, View
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream

VERSIONS = "versions"
STAGES = ("none", "staging", "production", "archived")


class ModelView(ModelListing, View[Model]):
    """What people see of a model."""

    queries: ClassVar[Mapping[str, str]] = {
        VERSIONS: "SELECT * FROM model_versions WHERE model_id = $1 ORDER BY version",
    }
    page_queries = (VERSIONS,)
    report_queries = (VERSIONS,)
    list_query = VERSIONS
    statuses = STAGES
    parts: ClassVar[Mapping[str, str]] = {VERSIONS: "version"}
    state_names = ("tags", "labels", "staging", "production")

    def sort_keys(self, row: ViewRow) -> Mapping[str, SortKey]:
        """Returns what its versions may be sorted by."""
        return {
            "version": SortKey(lambda version: version["version"], descending=True),
            "size": SortKey(lambda version: version["size_bytes"], descending=True),
        }

    def status_of(self, row: ViewRow) -> str:
        """Returns the stage of a version."""
        return str(row["stage"])

    def facts(self, row: ViewRow, rows: QueriedRows) -> Sequence[tuple[str, object]]:
        """Returns what is said of it."""
        reason = f" ({row['archive_reason']})" if row["archive_reason"] else ""
        return [
            ("model", row["model_id"]),
            ("status", f"{row['status']}{reason}"),
            ("description", row["description"]),
            ("tags", row["tags"]),
            ("labels", row["labels"]),
            ("staging", row["staging"]),
            ("production", row["production"]),
            ("registered", row["started_at"]),
            ("archived", row["ended_at"]),
        ]

    def tables(self, row: ViewRow, rows: QueriedRows) -> Sequence[TextTable]:
        """Returns its versions."""
        return [_version_table(rows[VERSIONS])]

    def lists(self, row: ViewRow, rows: QueriedRows) -> dict[str, Sequence[ViewRow]]:
        """Returns its versions, under a name that its row doesn't have."""
        return {"model_versions": rows[VERSIONS]}

    def sections(self, row: ViewRow, rows: QueriedRows) -> list[ReportSection]:
        """Returns no sections: it has no tasks."""
        return []

    def progress(self, stream: Stream[Model]) -> Progress:
        """Returns how many versions it has."""
        model, count = stream.root, len(stream.root.versions)
        return Progress(model.status.value, model.registered_ms, model.archived_ms, count, None, VERSIONS)

    def end(self, stream: Stream[Model], accepted: Collection[AttemptEnd]) -> StreamEnd:
        """Returns what it has: nothing of it runs."""
        model, count = stream.root, len(stream.root.versions)
        summary = {"model_id": stream.stream_id, "status": model.status.value, VERSIONS: count}
        production = production_text(model.holder("production"))
        line = f"{stream.stream_id} {model.status.value}: {counted(count, 'version')}"
        return StreamEnd(summary, [f"{line}, {production}" if production else line])

    def state(self, stream: Stream[Model]) -> Fields:
        """Returns its state without its versions."""
        model = stream.root
        return {
            "status": model.status.value,
            "description": model.spec.description,
            "tags": list(model.tags),
            "labels": dict(model.labels),
            "staging": model.holder("staging"),
            "production": model.holder("production"),
            "started_ms": model.registered_ms,
            "ended_ms": model.archived_ms or None,
        }

    def state_of_parts(self, stream: Stream[Model]) -> dict[str, dict[Any, Fields]]:
        """Returns its versions by their numbers."""
        return {VERSIONS: {version.number: _fields(version) for version in stream.root.versions}}

    def state_tables(
        self, parts: Mapping[str, Mapping[Any, Fields]], tasks: Mapping[str, Fields]
    ) -> list[TextTable]:
        """Returns the table of its versions."""
        columns = [Column("version", right=True), Column("stage"), Column("tags"), Column("format")]
        columns += [Column("size", right=True), Column("sha256"), Column("from", keep=True)]
        cells = [_state_cells(number, fields) for number, fields in parts[VERSIONS].items()]
        return [TextTable(columns, cells)]


def version_facts(row: ViewRow) -> list[tuple[str, object]]:
    """Returns all that is known of a version, by name, from its row of `dashboards.model_versions`."""
    task = None if row["task_id"] is None else f"{row['stream_id']}/{row['task_id']} attempt {row['attempt']}"
    inputs = {name: f"{each['sha256'][:12]} {_from(each)}" for name, each in row["inputs"].items()}
    facts: list[tuple[str, object]] = [("version", row["id"]), ("stage", row["stage"]), ("url", row["uri"])]
    facts += [("sha256", row["sha256"]), ("size", f"{shown(row['size_bytes'])} ({row['size_bytes']} bytes)")]
    facts += [(name, row[name]) for name in ("credential", "framework", "format", "devices", "tags")]
    facts += [(name, row[name]) for name in ("labels", "config", "comment")]
    facts += [("task", task), ("artifact", row["source"])]
    facts += [("parameters", row["parameters"]), ("metrics", row["metrics"])]
    facts += [(f"input {name}", text) for name, text in sorted(inputs.items())]
    return [*facts, ("published", row["published_at"])]


def _state_cells(number: int, fields: Fields) -> list[object]:
    said = [fields[name] for name in ("stage", "tags", "format")]
    return [number, *said, shown(fields["size_bytes"]), fields["sha256"][:12], fields["source"]]


def _from(reference: Mapping[str, Any]) -> str:
    return str(reference.get("source") or reference["uri"])


def _version_table(versions: Iterable[ViewRow]) -> TextTable:
    columns = [
        Column("version", right=True),
        Column("stage"),
        Column("format", optional=True),
        Column("size", right=True),
        Column("metrics"),
        Column("from", keep=True),
        Column("tags", optional=True),
        Column("published", optional=True),
    ]
    return TextTable(columns, [_version_cells(row) for row in versions])


def _version_cells(row: ViewRow) -> list[object]:
    size, source = shown(row["size_bytes"]), row["source"] or row["uri"]
    stage = None if row["stage"] == "none" else row["stage"]
    shown_first = [row["version"], stage, row["format"], size, as_text(row["metrics"]), source]
    return [*shown_first, row["tags"], row["published_at"]]


def _fields(version: ModelVersion) -> Fields:
    spec: ModelVersionSpec = version.spec
    return {
        "stage": version.stage,
        "tags": list(version.tags),
        "labels": dict(version.labels),
        "format": spec.format,
        "size_bytes": spec.artifact.size_bytes,
        "sha256": spec.artifact.sha256,
        "source": spec.artifact.source or spec.artifact.uri,
    }


VIEW = ModelView()
