"""The command `verify-log`: the invariants of the log, and where they are violated."""

from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from trackside.cli.commands.artifacts.finding import installed_store
from trackside.cli.commands.verify_signatures import SignatureCheck
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.explain import explain
from trackside.cli.runtime.failures import BadUsage, FailureReported, NotRead
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.text import Column
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.key_folder import BadKeyFileError, read_public_keys
from trackside.replay.history.held_artifacts import HeldArtifact, HeldArtifacts
from trackside.replay.history.summary_artifacts import read_summary_artifacts
from trackside.verify.invariants import INVARIANTS
from trackside.verify.log import VerificationReport, verify_topics
from trackside.verify.postgres import verify_with_postgres
from trackside.verify.store import verify_store

ReadT = TypeVar("ReadT")
SHOWN = 100
"""How many findings are printed; JSON has all."""
SHOWN_OPEN = 5
"""How many open checks are printed; JSON has all."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What is compared with the log: read models, the store, all that it has, and a list of keys."""

    postgres: bool = False
    store: bool = False
    digests: bool = False
    keys: Path | None = None

    def signatures(self, stream: str) -> SignatureCheck | None:
        """Returns the check of signatures, if a list of keys is named; raises BadUsage."""
        if self.keys is None:
            return None
        if stream:
            raise BadUsage("--keys is about the whole log: which keys it trusts is in no single stream")
        try:
            return SignatureCheck(read_public_keys(self.keys))
        except BadKeyFileError as error:
            raise BadUsage(f"--keys: {error}") from error


def verify_log(stream: str, extent: Extent, *, complete: bool, as_json: bool) -> None:
    """Prints which invariants hold of the log or of one stream; raises FailureReported if one does not.

    Raises NotRead if the log can't be read.
    """
    if extent.digests and not extent.store:
        raise BadUsage("--digests is about the bytes in the store: add --store")
    store, held = installed_store() if extent.store else None, HeldArtifacts()
    signatures = extent.signatures(stream)
    report = _read(_report(stream, extent.postgres, held if extent.store else None, signatures))
    if stream and not report.streams:
        raise BadUsage(f"the log has no stream {stream}; `trackside ls` lists the searches")
    if store is not None:
        wanted = [*held.stored(), *_read(_summary_artifacts(stream))]
        with late_progress("checking the store") as progress:
            verify_store(report, wanted, store, digests=extent.digests, on_progress=progress)
    if complete:
        report.complete()
    if as_json:
        screen.emit(as_object(report))
    else:
        show(report)
    if signatures is not None:
        signatures.say(as_json=as_json)
    if not report.holds or (signatures is not None and signatures.findings):
        raise FailureReported()


def _read(work: Coroutine[Any, Any, ReadT]) -> ReadT:
    """Runs what reads the log; raises NotRead if it can't be read: that is no violation."""
    try:
        return run(work)
    except Exception as error:
        failure = explain(error)
        if failure is None or isinstance(failure, BadUsage):
            raise
        raise NotRead(f"{failure}; nothing is verified") from error


def as_object(report: VerificationReport) -> dict[str, Any]:
    """Returns a report for programs; `holds` is null for an invariant that was not checked."""
    found = {finding.invariant for finding in report.findings}
    invariants = [
        {
            "invariant": name,
            "says": invariant.statement,
            "checked": report.checked.get(name, 0),
            "open": _open(report, name),
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
        "parked": report.parked,
        "uncompared_uses": report.uncompared_uses,
        "uncompared_commands": report.uncompared_commands,
    }
    open_findings = [asdict(finding) for finding in report.open]
    return {**whole, "invariants": invariants, "findings": findings, "open": open_findings}


def show(report: VerificationReport) -> None:
    """Prints the invariants, their violations, and a summary line."""
    screen.show_table(
        [
            Column(""),
            Column("invariant", keep=True),
            Column("checked", keep=True),
            Column("", keep=True),
        ],
        [
            (name, INVARIANTS[name].statement, _checked(report, name), _result(report, name))
            for name in INVARIANTS
        ],
    )
    screen.say("")
    for finding in report.findings[:SHOWN]:
        screen.say(str(finding))
    if len(report.findings) > SHOWN:
        screen.say(f"and {len(report.findings) - SHOWN} more; --json has all")
    _show_open(report)
    count = len(report.findings)
    found = "nothing found" if not count else f"{count} finding{'s' if count > 1 else ''}"
    screen.say(f"{found}: {report.events} events of {report.streams} streams{_passed_over(report)}")


def _show_open(report: VerificationReport) -> None:
    """Prints what could not be decided: none of these is a violation."""
    for told in report.parked:
        screen.say(f"parked: {told}; see `trackside repair --list`")
    for finding in report.open[:SHOWN_OPEN]:
        screen.say(f"open so far: {finding}")
    if len(report.open) > SHOWN_OPEN:
        screen.say(f"and {len(report.open) - SHOWN_OPEN} more are open; --json has all")
    if report.uncompared_uses:
        screen.say(
            f"INV-4: {report.uncompared_uses} uses could not be compared with all others: earlier events of "
            "their worker are missing (it crashed, or still writes), or have no numbers (an older release)"
        )
    if report.uncompared_commands:
        screen.say(
            f"INV-8: {report.uncompared_commands} commands could not be compared with what was published: "
            "the commands topic does not keep their records any more"
        )


def _open(report: VerificationReport, name: str) -> int:
    return sum(finding.invariant == name for finding in report.open)


def _passed_over(report: VerificationReport) -> str:
    count, first = len(report.undecodable), next(iter(report.undecodable), "")
    records = "1 record" if count == 1 else f"{count} records, the first"
    return f"; no service can read {records} at {first}" if count else ""


def _checked(report: VerificationReport, name: str) -> str:
    if name in report.skipped:
        return ""
    return f"{report.checked.get(name, 0)} {INVARIANTS[name].unit}"


def _result(report: VerificationReport, name: str) -> str:
    if name in report.skipped:
        return report.skipped[name]
    count, waiting = sum(finding.invariant == name for finding in report.findings), _open(report, name)
    result = f"{count} found" if count else "holds"
    return f"{result}, {waiting} open" if waiting else result


async def _report(
    stream: str, postgres: bool, held: HeldArtifacts | None, signatures: SignatureCheck | None
) -> VerificationReport:
    addresses = Addresses()
    topics = Topics(prefix=addresses.prefix)

    def observe(folded: Stream, outcome: Outcome, record: Record, value: bytes) -> None:
        if held is not None:
            held.take(record, outcome, value)
        if signatures is not None:
            signatures.take(record, outcome)

    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-verify", keys=addresses.keys) as log:
        if signatures is not None:
            await signatures.read_fleet(log, topics)
        with late_progress("reading the log") as progress:
            if postgres:
                return await verify_with_postgres(
                    log, topics, addresses.dsn, stream=stream, on_progress=progress, on_record=observe
                )
            return await verify_topics(log, topics, stream=stream, on_progress=progress, on_record=observe)


async def _summary_artifacts(stream: str) -> list[HeldArtifact]:
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-verify", keys=addresses.keys) as log:
        with late_progress("reading summaries") as progress:
            topics = Topics(prefix=addresses.prefix)
            return await read_summary_artifacts(log, topics, stream=stream, on_progress=progress)
