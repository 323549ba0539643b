from pathlib import Path

import pytest

from tests.unit.replay.given import TOPICS
from tests.unit.signing.forged_log import forged_log
from tests.unit.signing.given import STREAM, SignedPartition, beginning, decoded, received, requiring
from trackside.aggregates.registry import AGGREGATES
from trackside.cli.commands.verify import SHOWN, as_object, show
from trackside.cli.commands.verify_signatures import SignatureCheck
from trackside.contracts.envelope.trusted_keys import TrustedKey
from trackside.domain.checks.findings import Finding
from trackside.domain.folding.streams import Streams
from trackside.eventlog.keys.key_folder import PUBLIC, read_public_keys, trusted_key
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.verify.invariants import INVARIANTS, NEEDS_POSTGRES
from trackside.verify.log import VerificationReport

MESSAGE = "device w1/cpu-0 has task b while it has a"


def verdict(findings: int) -> VerificationReport:
    found = [Finding("INV-4", "trackside.events", 3, 17 + at, "digits-1", MESSAGE) for at in range(findings)]
    return VerificationReport(found, {"INV-4": 5}, {**NEEDS_POSTGRES}, events=100, streams=2)


def shown(report: VerificationReport, capsys: pytest.CaptureFixture[str]) -> str:
    show(report)
    return capsys.readouterr().out


def test_the_table_says_what_was_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(verdict(0), capsys)
    assert all(name in said for name in INVARIANTS)
    assert "5 uses" in said
    assert "needs --postgres" in said
    assert said.endswith("nothing found: 100 events of 2 streams\n")
    assert max(len(line) for line in said.splitlines()) <= 100


def test_findings_are_named_with_their_place_and_few_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(verdict(1), capsys)
    assert f"INV-4 trackside.events-3@17 digits-1: {MESSAGE}\n" in said
    assert said.endswith("1 finding: 100 events of 2 streams\n")
    assert "and 7 more; --json has all" in shown(verdict(SHOWN + 7), capsys)


def test_records_that_are_not_ours_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    found = verdict(0)
    found.undecodable = ["trackside.events-3@17"]
    said = shown(found, capsys)
    assert said.endswith(" of 2 streams; no service can read 1 record at trackside.events-3@17\n")
    found.undecodable.append("trackside.events-3@20")
    assert "can read 2 records, the first at trackside.events-3@17\n" in shown(found, capsys)
    assert as_object(found)["passed_over"] == found.undecodable


def test_programs_get_what_was_not_looked_at_as_null() -> None:
    whole = as_object(verdict(1))
    by_name = {row["invariant"]: row for row in whole["invariants"]}
    assert (whole["holds"], whole["events"], len(whole["findings"])) == (False, 100, 1)
    assert [by_name[name]["holds"] for name in ("INV-1", "INV-4", "INV-15")] == [True, False, None]
    assert by_name["INV-15"]["skipped"] == "needs --postgres"


def test_what_is_open_or_could_not_be_compared_is_no_violation(capsys: pytest.CaptureFixture[str]) -> None:
    report = verdict(0)
    report.open = [Finding("INV-1", "trackside.events", 3, at, "digits-1", "no answer") for at in range(7)]
    said = shown(report, capsys)
    assert "holds, 7 open" in said
    assert "open so far: INV-1 trackside.events-3@0 digits-1: no answer\n" in said
    assert "and 2 more are open; --json has all\n" in said
    assert said.endswith("nothing found: 100 events of 2 streams\n")
    whole = as_object(report)
    assert (whole["holds"], len(whole["open"])) == (True, 7)
    assert {row["invariant"]: row["open"] for row in whole["invariants"] if row["open"]} == {"INV-1": 7}
    report = verdict(0)
    report.uncompared_uses = 12
    assert "INV-4: 12 uses could not be compared with all others" in shown(report, capsys)
    assert as_object(report)["uncompared_uses"] == 12


def checked(log: SignedPartition, keys: dict[str, TrustedKey]) -> SignatureCheck:
    made, streams = SignatureCheck(keys), Streams(AGGREGATES)
    for entry in log.entries:
        record = decoded(entry)
        made.take(record, streams.fold(record)[1])
    return made


def keys_of(log: SignedPartition) -> dict[str, TrustedKey]:
    names = {"setup": log.root, "dispatcher": log.dispatcher}
    return {key.key_id: trusted_key(name, key) for name, key in names.items()}


def test_a_log_signed_with_the_listed_keys_has_no_findings_and_events_from_before_are_counted() -> None:
    log = requiring()
    log.decide(received())
    log.append(RecordWriter("dispatcher", "1").decision(STREAM, beginning()))  # without effect
    log.decide(beginning())
    found = checked(log, keys_of(log))
    assert (found.checked, found.findings, found.older) == (6, [], 0)
    log = SignedPartition()
    log.append(RecordWriter("dispatcher", "1").decision(STREAM, received()))
    found = checked(log, keys_of(log))
    assert (found.checked, found.findings, found.older) == (1, [], 1)
    log.append(RecordWriter("dispatcher", "1").decision(STREAM, beginning()))
    found = checked(log, keys_of(log))
    assert (found.checked, found.findings, found.older) == (3, [], 3)


def test_a_key_that_the_log_trusts_and_the_list_lacks_is_named() -> None:
    log = requiring()
    log.decide(received())
    keys = keys_of(log)
    del keys[log.dispatcher.key_id]
    findings = "\n".join(checked(log, keys).findings)
    assert f"the log trusts key {log.dispatcher.key_id}, which is not in the list" in findings
    assert "CommandReceived of trackside/dispatcher/1: unknown_key" in findings


async def test_the_fleet_is_checked_too(tmp_path: Path) -> None:
    log = await forged_log(tmp_path / "keys")
    keys = dict(read_public_keys(tmp_path / "keys" / PUBLIC))
    found = SignatureCheck(keys)
    await found.read_fleet(log, TOPICS)
    about_keys, joins = 7, 3
    assert (found.checked, found.findings) == (about_keys + joins, [])
    unlisted = SignatureCheck({name: key for name, key in keys.items() if key.worker_id != "w2"})
    await unlisted.read_fleet(log, TOPICS)
    assert "WorkerJoined of trackside/worker/w2: unknown_key" in "\n".join(unlisted.findings)
