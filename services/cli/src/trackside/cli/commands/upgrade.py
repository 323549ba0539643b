"""The command `upgrade --check`: what this release would change in the read models, or makes of a backup."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from trackside.cli.commands import stack_process, verify
from trackside.cli.commands.replay import whole_log
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import FailureReported
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.text import Column, counted
from trackside.embedded.folder import NAME
from trackside.embedded.options import StackOptions
from trackside.eventlog.clock import rfc3339
from trackside.replay.rebuild.backup_check import BackupCheckReport
from trackside.replay.rebuild.backup_check import check_backup as fold_backup
from trackside.replay.rebuild.parallel_fold import OpenLog
from trackside.replay.rebuild.upgrade_check import UpgradeReport, check_upgrade
from trackside.replay.transfer.backup_files import BackupManifest, check_runs
from trackside.replay.transfer.backup_log import BackupLog
from trackside.replay.transfer.restore import check_partitions, manifest_in
from trackside.verify.log import VerificationReport, verify_topics

NO_KAFKA = "127.0.0.1:9"
"""Where nothing listens: a stack with this address starts no Kafka, and without services none is asked."""


def check(processes: int | None, *, as_json: bool) -> None:
    """Prints what would change; raises FailureReported if something would."""
    report = run(_check(processes))
    if as_json:
        tables = {
            change.table: {
                "changed": change.rows.changed,
                "added": change.rows.added,
                "removed": change.rows.removed,
                "new_columns": list(change.new_columns),
                "dropped_columns": list(change.dropped_columns),
                "first": None if change.rows.first is None else str(change.rows.first),
            }
            for change in report.changes
        }
        screen.emit(
            {"events": report.fold.events, "rows": report.fold.rows, "made_again": report.made_again}
            | {"tables": tables, "changes": bool(report.changes)}
        )
    else:
        whole_log.say_positions(report.fold)
        for owner in report.made_again:
            screen.say(f"{owner}: its tables are made again from the log when this release starts")
        for change in report.changes:
            screen.say(str(change))
        screen.say(str(report))
    if report.changes:
        raise FailureReported()


async def _check(processes: int | None) -> UpgradeReport:
    addresses = Addresses()
    kafka, dsn = addresses.kafka_as(VIEWER), addresses.dsn
    async with whole_log.opened(whole_log.log_of(kafka, dsn), processes) as read:
        return await check_upgrade(
            read.log, Topics(prefix=addresses.prefix), dsn, read.show_progress, processes=read.processes
        )


def check_backup(folder: Path, processes: int | None, *, as_json: bool) -> None:
    """Prints what this release makes of a backup; raises FailureReported if it can't decide all streams.

    Also if an invariant is violated.
    """
    manifest = manifest_in(folder)
    topics = Topics(prefix=manifest.prefix)
    check_partitions(manifest, topics)
    with late_progress("checking records") as report:
        check_runs(folder, manifest, report)
    open_log = partial(BackupLog, folder, manifest, Addresses().keys)
    with _own_postgres() as dsn:
        made, verified = run(_check_backup(open_log, topics, dsn, processes))
    if as_json:
        tables = {
            each.table: {"rows": each.rows, "sha256": each.sha256, "columns": list(each.columns)}
            for each in made.tables
        }
        screen.emit(
            {"events": made.fold.events, "until_ms": manifest.until_ms, "tables": tables, "compared": False}
            | {"verified": verify.as_object(verified)}
        )
    else:
        _say_backup(made, verified, manifest)
    if verified.findings or verified.parked:
        raise FailureReported()


def _say_backup(made: BackupCheckReport, verified: VerificationReport, manifest: BackupManifest) -> None:
    columns = [Column("table", keep=True), Column("rows", keep=True), Column("sha256", keep=True)]
    filled = [each for each in made.tables if each.rows]
    screen.show_table(columns, [(each.table, str(each.rows), each.sha256[:16]) for each in filled])
    screen.say(f"without rows: {counted(len(made.tables) - len(filled), 'table')}")
    for finding in verified.findings:
        screen.say(str(finding))
    for told in verified.parked:
        screen.say(f"parked: {told}")
    if verified.undecodable:
        count, first = counted(len(verified.undecodable), "record"), verified.undecodable[0]
        screen.say(f"no release can read {count}, the first at {first}: without effect")
    screen.say(
        "not compared: a backup has no read models; do the same with the running release, and compare the "
        "two outputs"
    )
    found = counted(len(verified.findings), "finding") if verified.findings else "nothing found"
    parked = f"{counted(len(verified.parked), 'stream')} parked" if verified.parked else "no stream is parked"
    screen.say(
        f"backup up to {rfc3339(manifest.until_ms)}: {made.fold.events} events, "
        f"{sum(made.fold.rows.values())} rows; {parked}; {found} in {counted(verified.streams, 'stream')}"
    )


async def _check_backup(
    open_log: OpenLog, topics: Topics, dsn: str, processes: int | None
) -> tuple[BackupCheckReport, VerificationReport]:
    async with whole_log.opened(open_log, processes) as read:
        made = await fold_backup(read.log, topics, dsn, read.show_progress, processes=read.processes)
    async with open_log() as log:
        with late_progress("verifying") as progress:
            return made, await verify_topics(log, topics, on_progress=progress)


@contextmanager
def _own_postgres() -> Iterator[str]:
    """Runs a Postgres for the block in a temporary folder, which is removed; yields its address."""
    with TemporaryDirectory(prefix="trackside-upgrade-") as name:
        Path(name).chmod(0o711)  # Postgres may run as another user, who must be able to pass through
        options = StackOptions(bootstrap_servers=NO_KAFKA, durable=False, ephemeral=True)
        with stack_process.started_servers(Path(name) / NAME, options) as made:
            yield made.postgres_dsn
