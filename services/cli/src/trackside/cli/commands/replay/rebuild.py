"""The command `replay rebuild`: read models from the whole log, compared with the live ones."""

from trackside.cli.commands.replay import whole_log
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed, FailureReported
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.replay.rebuild.rebuild import RebuildReport
from trackside.replay.rebuild.rebuild import rebuild as rebuild_read_models


def rebuild(processes: int | None, *, swap: bool, as_json: bool) -> None:
    """Rebuilds the read models and prints whether they equal the live ones; raises FailureReported if not."""
    report = run(_rebuild_here(swap, processes))
    if as_json:
        first = None if report.first is None else str(report.first)
        screen.emit(
            {"events": report.events, "rows": report.rows, "equal": report.equal, "difference": first}
            | {"swapped": report.swapped, "caught_up": report.caught_up}
            | {"fold_s": report.fold_s, "compare_s": report.compare_s}
        )
    else:
        whole_log.say_positions(report)
        screen.say(str(report))
        if report.swapped:
            screen.say(f"swapped: the rebuilt rows are live; {report.caught_up} records came meanwhile")
    if not report.equal:
        raise FailureReported()


def rebuild_and_compare(kafka: KafkaSettings | str, dsn: str) -> None:
    """Prints `replay: N events, M rows, equal`; raises CommandFailed if a row or a position differs."""
    report = run(_rebuild(kafka, dsn, ""))
    if not report.equal:
        positions = "\n".join(report.positions())
        raise CommandFailed(f"{report}\n{positions}")
    screen.say(f"\n{report}")


async def _rebuild_here(swap: bool, processes: int | None) -> RebuildReport:
    addresses = Addresses()
    return await _rebuild(addresses.kafka_as(VIEWER), addresses.dsn, addresses.prefix, swap, processes)


async def _rebuild(
    kafka: KafkaSettings | str, dsn: str, prefix: str, swap: bool = False, processes: int | None = None
) -> RebuildReport:
    async with whole_log.opened(whole_log.log_of(kafka, dsn), processes) as read:
        return await rebuild_read_models(
            read.log,
            Topics(prefix=prefix),
            dsn,
            read.show_progress,
            swap=swap,
            processes=read.processes,
        )
