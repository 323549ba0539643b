"""A backup of a long log, restored to another Kafka: seconds, and read models that are equal cell by cell."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import rebuild_rate, synthetic_log
from bench.measurements import Figure, Measurements, MissingError, check_count
from bench.rebuild_rate import Endpoints
from trackside.contracts.envelope.topics import Topics
from trackside.embedded import stack
from trackside.embedded.folder import held_leash
from trackside.embedded.options import StackOptions
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.projections.database.postgres import LIVE_SCHEMA, open_repeatable_read
from trackside.replay.rebuild.compare import TableSource, first_difference
from trackside.replay.rebuild.parallel_fold import ProcessPool
from trackside.replay.rebuild.rebuild import RebuildReport, tables_of_owners
from trackside.replay.transfer.backup import add_to_backup
from trackside.replay.transfer.backup_files import check_runs
from trackside.replay.transfer.restore import manifest_to_restore, restore

TOPICS = Topics("bench-backup.")


@dataclass
class BackupTimes:
    """Seconds of each step, and the size of the backup."""

    backup_s: float = 0.0
    idle_run_s: float = 0.0
    check_s: float = 0.0
    restore_s: float = 0.0
    read_models_s: float = 0.0
    compare_s: float = 0.0
    records: int = 0
    size_bytes: int = 0


async def measure(place: Endpoints, events: int) -> Measurements:
    """Writes a log of at least `events` events, backs it up, restores it, and compares the read models."""
    searches = -(-events // synthetic_log.events_of(1))
    total = await synthetic_log.write_searches(place.log, TOPICS, searches)
    first, took = Endpoints(place.log, place.bootstrap, place.dsn, TOPICS), BackupTimes()
    with _folder() as folder:
        await _back_up(first, folder / "backup", took)
        with held_leash(folder / "leash") as leash:
            options = StackOptions(leash=leash, ephemeral=True)
            made = await asyncio.to_thread(stack.start, folder / "second", options)
            try:
                async with KafkaLog(made.bootstrap_servers, client_id="bench") as log:
                    second = Endpoints(log, made.bootstrap_servers, made.postgres_dsn, TOPICS)
                    rows = await _restore(first, second, folder / "backup", total, took)
            finally:
                await asyncio.to_thread(stack.stop, folder / "second")
    figures = [
        Figure("-", "backup, records", took.records / took.backup_s, "/s"),
        Figure("-", "a run without new records", took.idle_run_s, "s"),
        Figure("-", "restore, records, with the check", _rate(took), "/s"),
        Figure("-", "a record in the backup", took.size_bytes / took.records, "B"),
    ]
    counted = [
        f"{took.records:,} records of {total:,} events restored to another Kafka; {rows:,} rows of the read "
        "models equal, cell by cell"
    ]
    return Measurements(figures, counted, {"backup": asdict(took)})


@contextmanager
def _folder() -> Iterator[Path]:
    """Yields a folder with one for a backup; Postgres, which may run as another user, can pass through."""
    with TemporaryDirectory(prefix="trackside-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "backup").mkdir()
        yield folder


def _rate(took: BackupTimes) -> float:
    return took.records / (took.check_s + took.restore_s)


async def _back_up(first: Endpoints, folder: Path, took: BackupTimes) -> None:
    began_s = monotonic_s()
    made = await add_to_backup(first.log, TOPICS, folder)
    took.backup_s = monotonic_s() - began_s
    if made.run is None:
        raise MissingError("the backup has no run")
    took.records, took.size_bytes = made.run.records, made.run.size_bytes
    began_s = monotonic_s()
    again = await add_to_backup(first.log, TOPICS, folder)
    took.idle_run_s = monotonic_s() - began_s
    check_count("new records of a second run", 0 if again.run is None else again.run.records, 0)


async def _restore(first: Endpoints, second: Endpoints, folder: Path, events: int, took: BackupTimes) -> int:
    """Restores the backup, makes the read models of both logs and compares them; returns their rows."""
    manifest = manifest_to_restore(TOPICS, folder)
    began_s = monotonic_s()
    check_runs(folder, manifest, lambda done, total: None)
    took.check_s = monotonic_s() - began_s
    began_s = monotonic_s()
    made = await restore(second.log, second.bootstrap, TOPICS, folder, manifest)
    took.restore_s = monotonic_s() - began_s
    check_count("records restored", made.written, took.records)
    began_s = monotonic_s()
    dsns = []
    for place in (first, second):
        ready = await rebuild_rate.prepare_database(place)
        report = await _read_models(ready, events)
        dsns.append(ready.dsn)
    took.read_models_s = monotonic_s() - began_s
    began_s = monotonic_s()
    async with (
        open_repeatable_read(dsns[0], LIVE_SCHEMA) as one,
        open_repeatable_read(dsns[1], LIVE_SCHEMA) as other,
    ):
        for table in tables_of_owners():
            found = await first_difference(table, TableSource(one), TableSource(other))
            if found is not None:
                raise MissingError(f"the read models of the restored log differ: {found}")
    took.compare_s = monotonic_s() - began_s
    return sum(report.rows.values())


async def _read_models(place: Endpoints, events: int) -> RebuildReport:
    processes = ProcessPool(2, partial(KafkaLog, place.bootstrap, "bench"))
    return await rebuild_rate.rebuild_once(place, events, processes, swap=True)
