"""The command `verify-log`: what must hold of every log, and where it doesn't."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from trackside.cli.render import screen
from trackside.cli.render.progress import progress_of
from trackside.cli.render.screen import Column
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Misuse, Reported
from trackside.cli.runtime.options import AsJson
from trackside.cli.runtime.run import run
from trackside.contracts.topics import Topics
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.kafka import KafkaLog
from trackside.verify.findings import INVARIANTS
from trackside.verify.log import VerificationReport, verify_topics
from trackside.verify.postgres import verify_with_postgres

PATIENCE_S = 2.0
"""How long a verification may take before a bar shows how far it is."""
SHOWN = 100
"""How many findings are printed; JSON has all."""


def verify_log(
    stream: Annotated[
        str, typer.Argument(metavar="[STREAM]", help="A search or a batch; without it, the whole log.")
    ] = "",
    postgres: Annotated[
        bool, typer.Option("--postgres", help="Compare snapshots and read models with the log, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify what must hold of every log, from its topics alone: nothing lost, nothing doubled, in order.

    A table says what was looked at and how much of it (INV-11, of pipelines, has nothing to look at yet).
    What is found is named with topic, partition and offset. Records among the events that no service can
    read are told of, too: nobody folds them. A live log can be verified. Of one STREAM alone it can't be
    said what other streams had on the same devices.

    Exit 0 if all holds, 1 if something is found, 2 if there is no such stream.

    \b
    Examples:
      trackside verify-log
      trackside verify-log digits-1
      trackside verify-log --postgres --json
    """
    report = run(_report(stream, postgres))
    if stream and not report.streams:
        raise Misuse(f"the log has no stream {stream}; `trackside ls` lists the searches")
    if as_json:
        screen.emit(as_object(report))
    else:
        show(report)
    if not report.holds:
        raise Reported()


def as_object(report: VerificationReport) -> dict[str, Any]:
    """Gives a verdict for programs; an invariant `holds` as null where it was not looked at."""
    found = {finding.invariant for finding in report.findings}
    invariants = [
        {
            "invariant": name,
            "says": invariant.says,
            "checked": report.checked.get(name, 0),
            "unit": invariant.unit,
            "holds": None if name in report.skipped else name not in found,
            "skipped": report.skipped.get(name),
        }
        for name, invariant in INVARIANTS.items()
    ]
    findings = [asdict(finding) for finding in report.findings]
    whole = {
        "holds": report.holds,
        "events": report.events,
        "streams": report.streams,
        "passed_over": report.undecodable,
    }
    return {**whole, "invariants": invariants, "findings": findings}


def show(report: VerificationReport) -> None:
    """Prints the invariants, what was found against them, and a line that says it all."""
    screen.show_table(
        [
            Column(""),
            Column("what must hold", keep=True),
            Column("looked at", keep=True),
            Column("", keep=True),
        ],
        [
            (name, INVARIANTS[name].says, _looked_at(report, name), _result(report, name))
            for name in INVARIANTS
        ],
    )
    screen.say("")
    for finding in report.findings[:SHOWN]:
        screen.say(str(finding))
    if len(report.findings) > SHOWN:
        screen.say(f"and {len(report.findings) - SHOWN} more; --json has all")
    count = len(report.findings)
    found = "nothing found" if not count else f"{count} finding{'s' if count > 1 else ''}"
    screen.say(f"{found}: {report.events} events of {report.streams} streams{_passed_over(report)}")


def _passed_over(report: VerificationReport) -> str:
    count, first = len(report.undecodable), next(iter(report.undecodable), "")
    records = "1 record" if count == 1 else f"{count} records, the first"
    return f"; no service can read {records} at {first}" if count else ""


def _looked_at(report: VerificationReport, name: str) -> str:
    if name in report.skipped:
        return ""
    return f"{report.checked.get(name, 0)} {INVARIANTS[name].unit}"


def _result(report: VerificationReport, name: str) -> str:
    if name in report.skipped:
        return report.skipped[name]
    count = sum(finding.invariant == name for finding in report.findings)
    return f"{count} found" if count else "holds"


async def _report(stream: str, postgres: bool) -> VerificationReport:
    addresses = Addresses()
    topics = Topics(prefix=addresses.prefix)
    async with KafkaLog(addresses.bootstrap, client_id="trackside-verify") as log:
        with _told_late() as told:
            if postgres:
                return await verify_with_postgres(log, topics, addresses.dsn, stream=stream, on_progress=told)
            return await verify_topics(log, topics, stream=stream, on_progress=told)


@contextmanager
def _told_late() -> Iterator[Callable[[int, int], None]]:
    """Shows a bar only for what takes long."""
    began_s, bars = monotonic_s(), list[Callable[[int, int], None]]()
    with ExitStack() as stack:

        def told(read: int, total: int) -> None:
            if not bars and monotonic_s() - began_s > PATIENCE_S:
                bars.append(stack.enter_context(progress_of("reading the log")))
            for bar in bars:
                bar(read, total)

        yield told
