import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.secret_samples import CALLED_SECRETS, NAMED_PLAIN, NAMED_SECRETS, PLAIN, SECRETS
from trackside.contracts.envelope import redaction

PIECES = st.lists(
    st.sampled_from(
        [*SECRETS.values(), *PLAIN.values(), *CALLED_SECRETS, " ", "\n", "'", '"', "=", "@", "://"]
    )
    | st.text(max_size=8),
    max_size=8,
)
HOSTILE = (
    *("eyJ", "eyJ-", "eyJaaaaaaaaaaa.", "://a:", "://", "://a:b", "sk-", "sk-ant-", "xoxb-", "ghp_", "a-"),
    *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY----- a", "password=", 'token="'),
    *("password   ", "password =", "secret", "api_", "AKIA", "AIza", "hf_", "\\", "=", "github_pat_"),
    *("[redacted]", "--", "--token ", "--a-", "authorization: ", "authorization:a"),
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_seen_and_masked_wherever_it_stands(name: str) -> None:
    secret = SECRETS[name]
    for text in (secret, f"before {secret} after", f'"{secret}"', f"\t({secret})"):
        assert redaction.looks_secret(text)
        assert redaction.REDACTED in redaction.redact(text)
        assert not redaction.looks_secret(redaction.redact(text))


@pytest.mark.parametrize("secret", ["hunter2", "p%40ss", "correct-horse", "VJTUt9Us8cKjMzEfYfOC", "T3BlbkFJ"])
def test_nothing_of_a_secret_is_left(secret: str) -> None:
    texts = [text for text in SECRETS.values() if secret in text]
    assert texts
    assert not [text for text in texts if secret in redaction.redact(text)]


@pytest.mark.parametrize("text", [*PLAIN.values(), "sk-1"])
def test_hashes_ids_and_names_are_left_alone(text: str) -> None:
    assert not redaction.looks_secret(text)
    assert not redaction.looks_secret(f"before {text} after")


@pytest.mark.parametrize("text", CALLED_SECRETS)
def test_what_a_text_calls_a_secret_is_masked_but_not_refused(text: str) -> None:
    assert not redaction.looks_secret(text)
    assert redaction.REDACTED in redaction.redact(f"before {text} after")


@pytest.mark.parametrize(("name", "text"), NAMED_SECRETS)
def test_the_name_of_a_field_calls_its_text_a_secret(name: str, text: str) -> None:
    assert redaction.is_called_secret(name, text)
    assert redaction.may_have_secret(json.dumps({"a": [{name: text}]}).encode())
    assert text not in redaction.redact(json.dumps({name: text})) or "token" not in name.lower()


@pytest.mark.parametrize(("name", "text"), NAMED_PLAIN)
def test_hyper_parameters_and_placeholders_are_no_secrets_by_their_name(name: str, text: str) -> None:
    assert not redaction.is_called_secret(name, text)


@pytest.mark.parametrize("escape", [json.dumps, lambda text: json.dumps(text).replace("/", "\\/")])
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_json_has_a_mark_that_is_found_without_parsing(name: str, escape: object) -> None:
    assert callable(escape)
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in SECRETS[name])
    assert redaction.may_have_secret(str(escape(SECRETS[name])).encode())
    assert redaction.may_have_secret(f'"{escaped}"'.encode())


@given(PIECES)
def test_a_redacted_text_has_no_secret_and_stays_as_it_is(pieces: list[str]) -> None:
    once = redaction.redact("".join(pieces))
    assert not redaction.looks_secret(once)
    assert redaction.redact(once) == once


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_takes_no_longer_than_another_one(piece: str) -> None:
    text = (piece * 65_536)[:65_536]
    began = time.process_time()
    redaction.looks_secret(text)
    redaction.redact(text)
    assert time.process_time() - began < 0.5


def test_a_private_key_is_masked_line_by_line_to_its_end_or_the_next_text() -> None:
    redactor, key = redaction.LineRedactor(), SECRETS["private key"].splitlines()
    lines = ["before", *key, "after", "", *key[:2]]
    shown = ["before", *[redaction.REDACTED] * 4, "after", "", redaction.REDACTED, redaction.REDACTED]
    assert [redactor.redact(line) for line in lines] == shown
    redactor = redaction.LineRedactor()
    lines = [key[0], "TUlJ", "epoch 1: loss=0.5", "TUlJ"]
    assert [redactor.redact(line) for line in lines] == [redaction.REDACTED, redaction.REDACTED, *lines[2:]]
