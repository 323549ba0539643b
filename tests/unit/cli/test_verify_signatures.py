"""`verify-log --keys` checks who signed what has an effect, with keys from outside the log."""

from tests.unit.signing.given import STREAM, SignedPartition, beginning, decoded, received, requiring
from trackside.aggregates.registry import AGGREGATES
from trackside.cli.commands.verify_signatures import SignatureCheck
from trackside.contracts.trust import TrustedKey
from trackside.domain.streams import Streams
from trackside.eventlog.key_folder import trusted_key
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
