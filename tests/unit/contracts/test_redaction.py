import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.secret_samples import CALLED_SECRETS, NAMED_PLAIN, NAMED_SECRETS, PLAIN, SECRETS
from trackside.contracts.redaction import (
    REDACTED,
    LineRedactor,
    is_called_secret,
    looks_secret,
    may_have_secret,
    redact,
)

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
    *(
        "password   ",
        "password =",
        "secret",
        "api_",
        "AKIA",
        "AIza",
        "hf_",
        "\\",
        "=",
        "github_pat_",
        "[redacted]",
        "--",
        "--token ",
        "--a-",
        "authorization: ",
        "authorization:a",
    ),
)


def the_secret(text: str) -> str:
    """Gives the longest word of a sample: what must not be left of it."""
    return max(text.replace("=", " ").replace(":", " ").replace("@", " ").replace("/", " ").split(), key=len)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_seen_and_masked_wherever_it_stands(name: str) -> None:
    for text in (
        SECRETS[name],
        f"before {SECRETS[name]} after",
        f'"{SECRETS[name]}"',
        f"\t({SECRETS[name]})",
    ):
        assert looks_secret(text)
        assert REDACTED in redact(text)
        assert not looks_secret(redact(text))


@pytest.mark.parametrize("secret", ["hunter2", "p%40ss", "correct-horse", "VJTUt9Us8cKjMzEfYfOC", "T3BlbkFJ"])
def test_nothing_of_a_secret_is_left(secret: str) -> None:
    texts = [text for text in SECRETS.values() if secret in text]
    assert texts
    assert not [text for text in texts if secret in redact(text)]


@pytest.mark.parametrize("name", PLAIN)
def test_hashes_ids_and_names_are_left_alone(name: str) -> None:
    assert not looks_secret(PLAIN[name])
    assert not looks_secret(f"before {PLAIN[name]} after")


@pytest.mark.parametrize("text", CALLED_SECRETS)
def test_what_a_text_calls_a_secret_is_masked_but_not_refused(text: str) -> None:
    assert not looks_secret(text)
    assert REDACTED in redact(f"before {text} after")


@pytest.mark.parametrize(("name", "text"), NAMED_SECRETS)
def test_the_name_of_a_field_calls_its_text_a_secret(name: str, text: str) -> None:
    assert is_called_secret(name, text)
    assert may_have_secret(json.dumps({"a": [{name: text}]}).encode())
    assert text not in redact(json.dumps({name: text})) or "token" not in name.lower()


@pytest.mark.parametrize(("name", "text"), NAMED_PLAIN)
def test_hyper_parameters_and_placeholders_are_no_secrets_by_their_name(name: str, text: str) -> None:
    assert not is_called_secret(name, text)


@pytest.mark.parametrize("escape", [json.dumps, lambda text: json.dumps(text).replace("/", "\\/")])
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_json_has_a_mark_that_is_found_without_parsing(name: str, escape: object) -> None:
    assert callable(escape)
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in SECRETS[name])
    assert may_have_secret(str(escape(SECRETS[name])).encode())
    assert may_have_secret(f'"{escaped}"'.encode())


@given(PIECES)
def test_a_redacted_text_has_no_secret_and_stays_as_it_is(pieces: list[str]) -> None:
    once = redact("".join(pieces))
    assert not looks_secret(once)
    assert redact(once) == once


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_takes_no_longer_than_another_one(piece: str) -> None:
    text = (piece * 65_536)[:65_536]
    began = time.process_time()
    looks_secret(text)
    redact(text)
    assert time.process_time() - began < 0.5


def test_a_private_key_is_masked_line_by_line() -> None:
    redactor = LineRedactor()
    lines = [
        "before",
        *SECRETS["private key"].splitlines(),
        "after",
        "",
        *SECRETS["private key"].splitlines()[:2],
    ]
    assert [redactor.redact(line) for line in lines] == [
        *("before", REDACTED, REDACTED, REDACTED, REDACTED, "after", "", REDACTED, REDACTED)
    ]


def test_the_text_after_a_private_key_without_an_end_is_shown_again() -> None:
    redactor = LineRedactor()
    lines = [SECRETS["private key"].splitlines()[0], "TUlJ", "epoch 1: loss=0.5", "TUlJ"]
    assert [redactor.redact(line) for line in lines] == [REDACTED, REDACTED, "epoch 1: loss=0.5", "TUlJ"]
