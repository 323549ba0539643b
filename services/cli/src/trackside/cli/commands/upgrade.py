"""The command `upgrade --check`: what this release would change in the read models."""

import os
from functools import partial

from trackside.cli.render import screen
from trackside.cli.render.progress import progress_of
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import FailureReported
from trackside.cli.runtime.run import run
from trackside.contracts.topic_rights import VIEWER
from trackside.contracts.topics import Topics
from trackside.eventlog.kafka import KafkaLog
from trackside.projections.late_stream_keys import LateStreamKeys
from trackside.replay.rebuild.parallel_fold import ProcessPool
from trackside.replay.rebuild.upgrade_check import UpgradeReport, check_upgrade


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
        for line in report.fold.positions():
            screen.say(line)
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
    keys = LateStreamKeys(partial(str, dsn))
    open_log = partial(KafkaLog, kafka, client_id="trackside-upgrade", keys=keys)
    at_most = ProcessPool(processes or os.cpu_count() or 1, open_log)
    async with open_log() as log:
        with progress_of("reading the log") as show_progress:
            return await check_upgrade(
                log,
                Topics(prefix=addresses.prefix),
                dsn,
                lambda state: show_progress(state.read, state.total),
                processes=at_most,
            )
