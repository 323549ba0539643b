"""INV-13 and INV-15: what is kept in Postgres is what the log says."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256

from trackside.contracts.topics import Topics, partition_of
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream, shrink
from trackside.domain.streams import dump, load
from trackside.eventlog.log import Log
from trackside.projections.postgres import LIVE_SCHEMA, open_repeatable_read, stream_rows
from trackside.projections.projection import RowValues
from trackside.projections.snapshots import fold_name
from trackside.replay.rebuild.rebuild import rebuild
from trackside.verify.findings import Finding
from trackside.verify.log import Told, Verdict, examine

_SNAPSHOTS = "SELECT stream_id, partition, log_offset, fold, state FROM snapshots"


@dataclass(slots=True)
class Snapshots:
    """The snapshots to be compared: by stream, the offset and the digest of the state. `others` are too old.

    A snapshot of a fold of another version says nothing about this one; services don't use it either.
    """

    topics: Topics
    waiting: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    compared: int = 0
    others: int = 0

    async def read(self, rows: AsyncIterator[RowValues], stream: str) -> None:
        """Takes in the rows of all streams, or of one."""
        async for stream_id, _, offset, fold, state in rows:
            if stream not in ("", stream_id):
                continue
            if fold != fold_name():
                self.others += 1
            else:
                self.waiting[stream_id] = (offset, _digest(load(state)))

    def see(self, stream: Stream, outcome: Outcome, offset: int) -> None:
        """Compares a snapshot when the log has been folded to its offset."""
        found = self.waiting.get(stream.stream_id)
        if found is None or outcome is not Outcome.APPLIED or offset < found[0]:
            return
        del self.waiting[stream.stream_id]
        self.compared += 1
        if offset > found[0]:
            self._find(
                stream.stream_id, found[0], "there is a snapshot of this offset, at which nothing counts"
            )
        elif _digest(load(dump(stream))) != found[1]:
            self._find(stream.stream_id, offset, "the snapshot of this offset is not what the log folds to")

    def finish(self) -> list[Finding]:
        """Finds snapshots of what the log doesn't have, and gives all findings."""
        for stream_id, (offset, _) in self.waiting.items():
            self._find(stream_id, offset, "there is a snapshot of this offset, which the log does not have")
        return self.findings

    def _find(self, stream_id: str, offset: int, message: str) -> None:
        partition = partition_of(stream_id, self.topics.event_partitions)
        self.findings.append(
            Finding("INV-13", self.topics.events.name, partition, offset, stream_id, message)
        )


def _digest(stream: Stream) -> bytes:
    """Digests a state without what differs between readers: which decision is passed over, what was kept."""
    stream.ignored_decision = b""
    shrink(stream)
    return sha256(dump(stream)).digest()


def _say_nothing(read: int, total: int) -> None:
    """Takes the place of a progress bar."""


async def examine_all(
    log: Log,
    topics: Topics,
    dsn: str,
    *,
    stream: str = "",
    told: Told = _say_nothing,
    schema: str = LIVE_SCHEMA,
) -> Verdict:
    """Verifies a log, or one stream of it, and what Postgres has of it.

    The read models are compared for the whole log alone. Raises as `examine` and `rebuild` do.
    """
    snapshots = Snapshots(topics)
    async with open_repeatable_read(dsn, schema) as connection:
        await snapshots.read(stream_rows(connection, _SNAPSHOTS), stream)
    verdict = await examine(log, topics, stream=stream, told=told, seen=snapshots.see)
    verdict.findings += snapshots.finish()
    verdict.checked["INV-13"] = snapshots.compared
    del verdict.skipped["INV-13"]
    if snapshots.others and not snapshots.compared:
        verdict.skipped["INV-13"] = f"{snapshots.others} snapshots are of another release"
    if stream:
        verdict.skipped["INV-15"] = "of the whole log alone"
        return verdict
    report = await rebuild(log, topics, dsn, lambda state: told(state.read, state.total), schema=schema)
    del verdict.skipped["INV-15"]
    verdict.checked["INV-15"] = sum(report.rows.values())
    if not report.equal:
        name = report.first.table if report.first is not None else "positions"
        verdict.findings.append(Finding("INV-15", f"table {name}", -1, -1, "", str(report.first or report)))
    return verdict
