"""`verify-log --keys` checks who signed what has an effect, with keys from outside the log."""

from pathlib import Path

from tests.unit.replay.given import TOPICS
from tests.unit.signing.forged_log import forged_log
from tests.unit.signing.given import STREAM, SignedPartition, beginning, decoded, received, requiring
from trackside.aggregates.registry import AGGREGATES
from trackside.cli.commands.verify_signatures import SignatureCheck
from trackside.contracts.trust import TrustedKey
from trackside.domain.streams import Streams
from trackside.eventlog.key_folder import PUBLIC, read_public_keys, trusted_key
from trackside.eventlog.record_writer import RecordWriter


def checked(log: SignedPartition, keys: dict[str, TrustedKey]) -> SignatureCheck:
    made, streams = SignatureCheck(keys), Streams(AGGREGATES)
    for entry in log.entries:
        record = decoded(entry)
        made.take(record, streams.fold(record)[1])
    return made


def keys_of(log: SignedPartition) -> dict[str, TrustedKey]:
    names = {"setup": log.root, "dispatcher": log.dispatcher}
    return {key.key_id: trusted_key(name, key) for name, key in names.items()}


def test_a_log_that_is_signed_with_the_listed_keys_has_no_findings() -> None:
    log = requiring()
    log.decide(received())
    log.append(RecordWriter("dispatcher", "1").decision(STREAM, beginning()))  # without effect
    log.decide(beginning())
    found = checked(log, keys_of(log))
    assert (found.checked, found.findings, found.older) == (6, [], 0)


def test_events_from_before_signatures_were_required_are_counted() -> None:
    log = SignedPartition()
    log.append(RecordWriter("dispatcher", "1").decision(STREAM, received()))
    found = checked(log, keys_of(log))
    assert (found.checked, found.findings, found.older) == (1, [], 1)


def test_a_key_that_the_log_trusts_and_the_list_lacks_is_named() -> None:
    log = requiring()
    log.decide(received())
    keys = keys_of(log)
    del keys[log.dispatcher.key_id]
    findings = "\n".join(checked(log, keys).findings)
    assert f"the log trusts key {log.dispatcher.key_id}, which is not in the list" in findings
    assert "CommandReceived of trackside/dispatcher/1: unknown_key" in findings


def test_of_an_unsigned_decision_from_before_that_all_events_are_counted() -> None:
    log = SignedPartition()
    log.append(RecordWriter("dispatcher", "1").decision(STREAM, received()))
    log.append(RecordWriter("dispatcher", "1").decision(STREAM, beginning()))
    found = checked(log, keys_of(log))
    assert (found.checked, found.findings, found.older) == (3, [], 3)


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
