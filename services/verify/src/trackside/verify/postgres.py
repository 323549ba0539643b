"""INV-13 and INV-15: snapshots and read models in Postgres equal a fold of the log."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.domain.checks.findings import Finding
from trackside.domain.folding.streams import dump, load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.rows.table import RowValues
from trackside.domain.streams.stream import Stream, shrink
from trackside.eventlog.log import Log
from trackside.projections.database.postgres import LIVE_SCHEMA, open_repeatable_read
from trackside.projections.reading.bulk_reads import stream_rows
from trackside.projections.writing.snapshots import fold_name
from trackside.replay.rebuild.rebuild import rebuild
from trackside.verify.log import (
    RecordObserver,
    VerificationReport,
    VerifyProgress,
    ignore_record,
    verify_topics,
)

_DIFFERENT = "the snapshot of this offset is not what the log folds to"
_NO_EVENT = "there is a snapshot of this offset, at which no event was applied"
_NOT_IN_THE_LOG = "there is a snapshot of this offset, which the log does not have"
_SNAPSHOTS = "SELECT stream_id, partition, log_offset, fold, state FROM snapshots"


@dataclass(slots=True)
class _Snapshot:
    """A snapshot that is not equal to a state of the log yet; `differs` once there was a state to compare."""

    offset: int
    digest: bytes
    differs: bool = False


@dataclass(slots=True)
class SnapshotChecks:
    """The snapshots to compare, by stream.

    `other_folds` counts snapshots of another version of the fold, which are skipped; services skip them too.
    """

    topics: Topics
    pending: dict[str, _Snapshot] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    compared: int = 0
    other_folds: int = 0

    async def read(self, rows: AsyncIterator[RowValues], stream: str) -> None:
        """Reads the rows of all streams, or of one."""
        async for stream_id, _, offset, fold, state in rows:
            if stream not in ("", stream_id):
                continue
            if fold != fold_name():
                self.other_folds += 1
            else:
                self.pending[stream_id] = _Snapshot(offset, _digest(load(state, AGGREGATES)))

    def compare(self, stream: Stream, outcome: Outcome, offset: int) -> None:
        """Compares the snapshot of a stream that is folded to its offset, the last at which one was applied.

        It may have been taken later: a record that is not applied can leave a trace, as the second answer to
        a command does. So it has to be the state at its offset or after one of the records up to the next
        that is applied.
        """
        found = self.pending.get(stream.stream_id)
        if found is None or offset < found.offset:
            return
        if outcome is Outcome.APPLIED and offset > found.offset:
            self._refuse(stream.stream_id, _NO_EVENT)
        elif outcome is Outcome.APPLIED or found.differs:
            found.differs = _digest(load(pack(stream), AGGREGATES)) != found.digest
            if not found.differs:
                self._end(stream.stream_id)

    def finish(self) -> list[Finding]:
        """Adds those that no state was equal to, and those of offsets that the log doesn't have."""
        for stream_id in list(self.pending):
            self._refuse(stream_id, _NOT_IN_THE_LOG)
        return self.findings

    def _end(self, stream_id: str) -> _Snapshot:
        self.compared += 1
        return self.pending.pop(stream_id)

    def _refuse(self, stream_id: str, otherwise: str) -> None:
        found = self._end(stream_id)
        partition = partition_of(stream_id, self.topics.event_partitions)
        message = _DIFFERENT if found.differs else otherwise
        self.findings.append(
            Finding("INV-13", self.topics.events.name, partition, found.offset, stream_id, message)
        )


def _digest(stream: Stream) -> bytes:
    """Returns the digest of a state, without what differs between readers."""
    stream.ignored_decision = b""
    shrink(stream)
    return sha256(dump(stream)).digest()


def _ignore_progress(read: int, total: int) -> None:
    """Does nothing: the default without a progress bar."""


async def verify_with_postgres(
    log: Log,
    topics: Topics,
    dsn: str,
    *,
    stream: str = "",
    on_progress: VerifyProgress = _ignore_progress,
    on_record: RecordObserver = ignore_record,
    schema: str = LIVE_SCHEMA,
) -> VerificationReport:
    """Verifies a log, or one stream of it, and its snapshots and read models in Postgres.

    Read models are compared for a whole log only. Calls `on_progress` and `on_record`
    as `verify_topics` does, and raises as that and `rebuild` do.
    """
    snapshots = SnapshotChecks(topics)
    async with open_repeatable_read(dsn, schema) as connection:
        await snapshots.read(stream_rows(connection, _SNAPSHOTS), stream)

    def compare(folded: Stream, outcome: Outcome, record: Record, value: bytes) -> None:
        snapshots.compare(folded, outcome, record.offset)
        on_record(folded, outcome, record, value)

    report = await verify_topics(log, topics, stream=stream, on_progress=on_progress, on_record=compare)
    report.findings += snapshots.finish()
    report.checked["INV-13"] = snapshots.compared
    del report.skipped["INV-13"]
    if snapshots.other_folds and not snapshots.compared:
        report.skipped["INV-13"] = f"{snapshots.other_folds} snapshots are of another release"
    if stream:
        report.skipped["INV-15"] = "of the whole log alone"
        return report
    rebuilt = await rebuild(
        log, topics, dsn, lambda state: on_progress(state.read, state.total), schema=schema
    )
    del report.skipped["INV-15"]
    report.checked["INV-15"] = sum(rebuilt.rows.values())
    if not rebuilt.equal:
        name = rebuilt.first.table if rebuilt.first is not None else "positions"
        report.findings.append(Finding("INV-15", f"table {name}", -1, -1, "", str(rebuilt.first or rebuilt)))
    return report
