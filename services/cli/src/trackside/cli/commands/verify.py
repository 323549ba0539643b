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
from trackside.verify.log import Verdict, examine
from trackside.verify.postgres import examine_all

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
    verdict = run(_verdict(stream, postgres))
    if stream and not verdict.streams:
        raise Misuse(f"the log has no stream {stream}; `trackside ls` lists the searches")
    if as_json:
        screen.emit(as_object(verdict))
    else:
        show(verdict)
    if not verdict.holds:
        raise Reported()


def as_object(verdict: Verdict) -> dict[str, Any]:
    """Gives a verdict for programs; an invariant `holds` as null where it was not looked at."""
    found = {finding.invariant for finding in verdict.findings}
    invariants = [
        {
            "invariant": name,
            "says": invariant.says,
            "checked": verdict.checked.get(name, 0),
            "unit": invariant.unit,
            "holds": None if name in verdict.skipped else name not in found,
            "skipped": verdict.skipped.get(name),
        }
        for name, invariant in INVARIANTS.items()
    ]
    findings = [asdict(finding) for finding in verdict.findings]
    whole = {
        "holds": verdict.holds,
        "events": verdict.events,
        "streams": verdict.streams,
        "passed_over": verdict.passed_over,
    }
    return {**whole, "invariants": invariants, "findings": findings}


def show(verdict: Verdict) -> None:
    """Prints the invariants, what was found against them, and a line that says it all."""
    screen.show_table(
        [
            Column(""),
            Column("what must hold", keep=True),
            Column("looked at", keep=True),
            Column("", keep=True),
        ],
        [
            (name, INVARIANTS[name].says, _looked_at(verdict, name), _result(verdict, name))
            for name in INVARIANTS
        ],
    )
    screen.say("")
    for finding in verdict.findings[:SHOWN]:
        screen.say(str(finding))
    if len(verdict.findings) > SHOWN:
        screen.say(f"and {len(verdict.findings) - SHOWN} more; --json has all")
    count = len(verdict.findings)
    found = "nothing found" if not count else f"{count} finding{'s' if count > 1 else ''}"
    screen.say(f"{found}: {verdict.events} events of {verdict.streams} streams{_passed_over(verdict)}")


def _passed_over(verdict: Verdict) -> str:
    count, first = len(verdict.passed_over), next(iter(verdict.passed_over), "")
    records = "1 record" if count == 1 else f"{count} records, the first"
    return f"; no service can read {records} at {first}" if count else ""


def _looked_at(verdict: Verdict, name: str) -> str:
    if name in verdict.skipped:
        return ""
    return f"{verdict.checked.get(name, 0)} {INVARIANTS[name].unit}"


def _result(verdict: Verdict, name: str) -> str:
    if name in verdict.skipped:
        return verdict.skipped[name]
    count = sum(finding.invariant == name for finding in verdict.findings)
    return f"{count} found" if count else "holds"


async def _verdict(stream: str, postgres: bool) -> Verdict:
    addresses = Addresses()
    topics = Topics(prefix=addresses.prefix)
    async with KafkaLog(addresses.bootstrap, client_id="trackside-verify") as log:
        with _told_late() as told:
            if postgres:
                return await examine_all(log, topics, addresses.dsn, stream=stream, told=told)
            return await examine(log, topics, stream=stream, told=told)


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
