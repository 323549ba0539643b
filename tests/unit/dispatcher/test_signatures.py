"""Signed commands: which are refused and why, and that a refused one uses up no command id."""

import base64
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import CommandReceived
from trackside.contracts.wire.ingress import read_command
from trackside.contracts.wire.signing import KEY_ID, SIGNATURE, signed_octets
from trackside.dispatcher.app import main
from trackside.dispatcher.intake.intake import Intake
from trackside.dispatcher.intake.signatures import (
    BadKeysError,
    PublisherKey,
    SignaturePolicy,
    SignatureVerifier,
    read_keys,
)
from trackside.domain.folding.streams import Streams
from trackside.eventlog.log import Entry, Outgoing, RecordHeaders
from trackside.sdk.connection.publication import command_record
from trackside.sdk.connection.signing import BadKeyError, Signer, read_signer

TOPIC = Topics().commands.name
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SIGNER = Signer("ci-1", PRIVATE)
REVOKED_MS = 1_767_225_600_000
EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples" / "publish"
STOP = "trackside.stop-search.v1"


def signatures(policy: SignaturePolicy = "require") -> SignatureVerifier:
    revoked = PublisherKey(PRIVATE.public_key(), "2026-01-01T00:00:00Z", REVOKED_MS)
    return SignatureVerifier(policy, {"ci-1": PublisherKey(PRIVATE.public_key()), "ci-0": revoked})


def plain(structured: bool = False) -> Outgoing:
    if structured:
        return command_record({"type": STOP, "data": {"reason": "enough"}}, "s-1", "c-1", "test", "")
    headers: RecordHeaders = [("ce_id", b"c-1"), ("ce_type", STOP.encode()), ("ce_source", b"test")]
    return Outgoing(b"s-1", b'{"reason": "enough"}', headers)


def received(record: Outgoing, policy: SignaturePolicy = "require", time_ms: int = 1) -> CommandReceived:
    intake = Intake(signatures=signatures(policy))
    intake.receive(Entry(TOPIC, 0, 7, time_ms, record.key, record.value, record.headers))
    [(stream, event, _)] = intake.unrecorded(Streams(AGGREGATES))
    assert stream == "s-1"
    return event


def code(event: CommandReceived) -> str:
    if event.problem is not None:
        assert event.problem.path == "$signature"
        assert (event.command_id, event.body, event.key_id) == ("trackside.commands-0-7", None, "")
    return event.problem.code if event.problem is not None else ""


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("policy", ["accept", "require"])
def test_a_signed_command_is_let_in_and_its_key_recorded(policy: SignaturePolicy, structured: bool) -> None:
    event = received(SIGNER.signed(plain(structured), TOPIC), policy)
    assert (event.problem, event.key_id, event.command_id) == (None, "ci-1", "c-1")
    assert event.body == {"reason": "enough"}


def test_what_is_signed_is_this_command_for_this_topic_and_nothing_else() -> None:
    """BI-26: every change of what is signed shows."""
    good = SIGNER.signed(plain(), TOPIC)
    headers = dict(good.headers)
    named = {"ce_id": b"c-2", "ce_type": b"trackside.stop-tasks.v1", "ce_receiptto": b"inbox"}
    other: list[tuple[str, bytes | None]] = [*named.items()]
    other += [(SIGNATURE, octets) for octets in (b"AAAA", b"\xff", base64.b64encode(bytes(64)))]
    changed = [
        *(replace(good, headers=[*good.headers, each]) for each in [*other, (KEY_ID, b"ci-0")]),
        replace(good, value=b'{"reason": "Enough"}'),
        replace(good, headers=[*plain().headers, (KEY_ID, b"ci-1")]),
        SIGNER.signed(plain(), "dev.trackside.commands"),
    ]
    assert [code(received(record)) for record in changed] == ["bad_signature"] * len(changed)
    intake = Intake(signatures=signatures())
    intake.receive(Entry(TOPIC, 0, 7, 1, b"s-2", good.value, good.headers))
    [(_, elsewhere, _)] = intake.unrecorded(Streams(AGGREGATES))
    assert elsewhere.problem is not None and elsewhere.problem.code == "bad_signature"
    assert headers[KEY_ID] == b"ci-1"


def test_each_policy_refuses_what_it_says() -> None:
    unsigned, wrong = plain(), replace(plain(), headers=[*plain().headers, (SIGNATURE, b"AAAA")])
    unknown = Signer("ci-9", PRIVATE).signed(plain(), TOPIC)
    policies: list[SignaturePolicy] = ["off", "accept", "require"]
    assert [code(received(unsigned, policy)) for policy in policies] == ["", "", "unsigned"]
    assert [code(received(wrong, policy)) for policy in policies] == ["", "unknown_key", "unknown_key"]
    assert [code(received(unknown, policy)) for policy in policies] == ["", "unknown_key", "unknown_key"]
    assert received(SIGNER.signed(plain(), TOPIC), "off").key_id == ""


def test_a_revoked_key_signs_nothing_from_then_on() -> None:
    """BI-27: what reached the log before still counts, when it is read again."""
    record = Signer("ci-0", PRIVATE).signed(plain(), TOPIC)
    assert code(received(record, time_ms=REVOKED_MS - 1)) == ""
    late = received(record, time_ms=REVOKED_MS)
    assert code(late) == "key_revoked"
    assert late.problem is not None and "2026-01-01T00:00:00Z" in late.problem.message


def test_the_signed_octets_are_those_of_the_page() -> None:
    record = plain()
    arrival = read_command(dict(record.headers), record.key, record.value)  # type: ignore[arg-type]
    octets = signed_octets(TOPIC, "ci-1", arrival, record.value or b"")
    page = (Path(__file__).parents[3] / "docs" / "publishing.md").read_text("utf-8")
    assert octets.decode() in page
    signature = dict(SIGNER.signed(record, TOPIC).headers)[SIGNATURE]
    assert signature is not None and signature.decode() in page


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not on this machine")
def test_node_signs_as_we_do(tmp_path: Path) -> None:
    """Ed25519 has one signature for a key and a text, so that both must write the same."""
    key = tmp_path / "ci-1.pem"
    key.write_bytes(pem(PRIVATE))
    record = plain()
    (tmp_path / "value").write_bytes(record.value or b"")
    signing = ["node", str(EXAMPLES / "node" / "sign.js"), str(key)]
    argv = [*signing, TOPIC, "c-1", STOP, "s-1", str(tmp_path / "value")]
    said = json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE, timeout=60).stdout)
    ours = dict(read_signer(key).signed(record, TOPIC).headers)
    wanted = {name: ours[name] for name in (KEY_ID, SIGNATURE)}
    assert {name: text.encode() for name, text in said.items()} == wanted


def pem(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain)


def test_no_key_stops_the_start(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TRACKSIDE_DISPATCHER_SIGNATURES", "accept")
    for name in ("", "none.json"):
        monkeypatch.setenv("TRACKSIDE_DISPATCHER_KEYS_FILE", name)
        with pytest.raises(SystemExit) as exited:
            main()
        assert exited.value.code == 2 and "TRACKSIDE_DISPATCHER_KEYS_FILE" in capsys.readouterr().err


def test_a_key_is_read_from_pem_and_what_is_none_is_said(tmp_path: Path) -> None:
    for name, octets, said in (
        ("none.pem", None, "No such file"),
        ("text.pem", b"hello", "no private key"),
        ("ec.pem", pem(ec.generate_private_key(ec.SECP256R1())), "expected an Ed25519 key"),
        ("a b.pem", pem(PRIVATE), "can't be a key's id"),
    ):
        if octets is not None:
            (tmp_path / name).write_bytes(octets)
        with pytest.raises(BadKeyError, match=said):
            read_signer(tmp_path / name)


def keys_file(tmp_path: Path, body: object) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(body if isinstance(body, str) else json.dumps(body), "utf-8")
    return path


def test_public_keys_are_read_in_either_form(tmp_path: Path) -> None:
    public = PRIVATE.public_key()
    raw = base64.b64encode(public.public_bytes_raw()).decode()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    text = public.public_bytes(serialization.Encoding.PEM, form).decode()
    body = {"a": {"public": raw}, "b": {"public": text, "revoked": "2026-01-01T00:00:00Z"}}
    found = read_keys(keys_file(tmp_path, body))
    assert (found["a"].public, found["a"].revoked_ms) == (public, None)
    assert (found["b"].public, found["b"].revoked_ms) == (public, REVOKED_MS)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "not JSON"),
        ([], "got list"),
        ({"a b": {"public": ""}}, "key 'a b': expected an id"),
        ({"a": {}}, "key 'a'"),
        ({"a": {"public": "AAAA"}}, "not an Ed25519 public key"),
        ({"a": {"public": "?"}}, "not an Ed25519 public key"),
        ({"a": {"public": "-----BEGIN PUBLIC KEY-----"}}, "not an Ed25519 public key"),
        ({"a": {"public": "A" * 43 + "=", "revoked": "soon"}}, "revoked"),
        ({"a": {"public": "A" * 43 + "=", "revoked": "2026-01-01T00:00:00"}}, "needs a time zone"),
        ({"a": {"public": "A" * 43 + "=", "private": "x"}}, "expected"),
    ],
)
def test_a_bad_file_of_keys_stops_the_start_and_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    body: object,
    said: str,
) -> None:
    """BI-56: exit 2, before anything is connected."""
    path = keys_file(tmp_path, body)
    with pytest.raises(BadKeysError, match=said):
        read_keys(path)
    monkeypatch.setenv("TRACKSIDE_DISPATCHER_SIGNATURES", "require")
    monkeypatch.setenv("TRACKSIDE_DISPATCHER_KEYS_FILE", str(path))
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 2
    assert f"TRACKSIDE_DISPATCHER_KEYS_FILE: {path}" in capsys.readouterr().err
