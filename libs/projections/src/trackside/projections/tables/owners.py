"""The owners of the read models: each is the service that decides the events shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.topics import Topic, Topics
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.rows.table import Projection, RecordProjection, Table
from trackside.domain.streams.stream import Stream
from trackside.projections.tables.artifacts import ArtifactRows, ArtifactUseRows, ForgottenArtifactRows
from trackside.projections.tables.children import ChildRows
from trackside.projections.tables.commands import CommandRows, SkippedRecordRows, StreamRows
from trackside.projections.tables.dead_letters import DEAD_LETTERS
from trackside.projections.tables.draining import DrainedDeviceRows
from trackside.projections.tables.fleet import DeviceRows, WorkerRows
from trackside.projections.tables.forgotten_streams import ForgottenStreamRows
from trackside.projections.tables.ignored_reports import IgnoredReportRows
from trackside.projections.tables.labels import LabelRows
from trackside.projections.tables.metric_tables import BRIEFS, ITEMS, POINTS, SERIES, TOTALS, UPDATER_FAILURES
from trackside.projections.tables.tasks import AttemptRows, PlacementRows, TaskRows

DISPATCHER, SCHEDULER, SUMMARY_INDEXER = "dispatcher", "scheduler", "summary-indexer"


@dataclass(frozen=True)
class Owner:
    """A service with its read models; `keeps_snapshots`: it also writes snapshots of the streams.

    With `has_aggregates` it has the rows of all aggregates, too. `of_all_records` and those of aggregates get
    the records that were applied, `of_ignored` those that had no effect.
    """

    name: str
    of_all_streams: tuple[Projection[Stream], ...] = ()
    of_all_records: tuple[RecordProjection, ...] = ()
    of_ignored: tuple[RecordProjection, ...] = ()
    of_fleet: tuple[Projection[Fleet], ...] = ()
    others: tuple[Table, ...] = ()
    keeps_snapshots: bool = False
    has_aggregates: bool = False

    @property
    def of_streams(self) -> tuple[Projection[Stream], ...]:
        """Its rows of streams: those of all aggregates that there are now, if it has them, and its own."""
        types = AGGREGATES.types if self.has_aggregates else ()
        return (*(rows for aggregate in types for rows in aggregate.rows), *self.of_all_streams)

    def of_kind(self, kind: str) -> tuple[Projection[Stream], ...]:
        """Its rows of a stream of a kind: those of its aggregate, if it has these, and its own."""
        aggregate = AGGREGATES.by_kind.get(kind) if self.has_aggregates else None
        return (*(() if aggregate is None else aggregate.rows), *self.of_all_streams)

    @property
    def of_records(self) -> tuple[RecordProjection, ...]:
        """Its rows of single records: those of all aggregates, if it has them, and its own."""
        types = AGGREGATES.types if self.has_aggregates else ()
        return (*(rows for aggregate in types for rows in aggregate.record_rows), *self.of_all_records)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables of this owner."""
        projections: Sequence[Projection[Stream] | RecordProjection | Projection[Fleet]]
        projections = (*self.of_streams, *self.of_records, *self.of_ignored, *self.of_fleet)
        return (*(projection.table for projection in projections), *self.others)

    @property
    def stream_columns(self) -> dict[str, str]:
        """The column with the id of their stream, of each of its tables that has rows of streams.

        Tables of an aggregate begin with it, whatever it is called there.
        """
        every: Sequence[Projection[Stream] | RecordProjection] = (*self.of_streams, *self.of_records)
        own: Sequence[Projection[Stream] | RecordProjection]
        own = (*self.of_all_streams, *self.of_all_records, *self.of_ignored)
        found = {rows.table.name: rows.table.key[0] for rows in every}
        named = (rows.table.name for rows in own if "stream_id" in rows.table.columns)
        return found | dict.fromkeys(named, "stream_id")

    def topics(self, topics: Topics) -> tuple[Topic, ...]:
        """The topics that this owner's rows come from."""
        if self.name == SUMMARY_INDEXER:
            return (topics.metrics, topics.dead_letters)
        return (topics.events, topics.fleet) if self.of_fleet else (topics.events,)


OWNERS: Mapping[str, Owner] = {
    DISPATCHER: Owner(
        DISPATCHER,
        of_all_streams=(StreamRows(), SkippedRecordRows(), ForgottenStreamRows(), LabelRows(), ChildRows()),
        of_all_records=(CommandRows(),),
        of_ignored=(IgnoredReportRows(),),
        keeps_snapshots=True,
        has_aggregates=True,
    ),
    SCHEDULER: Owner(
        SCHEDULER,
        of_all_streams=(TaskRows(), AttemptRows(), PlacementRows(), DrainedDeviceRows()),
        of_all_records=(ArtifactRows(), ArtifactUseRows(), ForgottenArtifactRows()),
        of_fleet=(WorkerRows(), DeviceRows()),
    ),
    SUMMARY_INDEXER: Owner(
        SUMMARY_INDEXER, others=(SERIES, POINTS, ITEMS, TOTALS, BRIEFS, UPDATER_FAILURES, DEAD_LETTERS)
    ),
}
