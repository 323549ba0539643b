"""Where JSON has secrets: by the name that a text has wherever it stands, and by its shape."""

import json
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from pydantic_core import to_json

from tests.secret_samples import NAMED_PLAIN, NAMED_SECRETS, PEOPLE_USE, PLAIN, SECRETS
from trackside.contracts.envelope.redaction import REDACTED, may_have_secret
from trackside.contracts.envelope.refusals import json_path
from trackside.contracts.wire.ingress import read_command
from trackside.contracts.wire.secret_search import secrets_in, without_secrets

WORD = "hunter2hunter2"
HEADERS = {"ce_id": b"c-1", "ce_type": b"trackside.test.v1"}


def places(value: Any) -> list[str]:
    """Returns where a value has secrets, in order; what is found is also seen without parsing."""
    found = sorted(json_path(each) for each in secrets_in(value))
    assert not found or may_have_secret(json.dumps(value).encode())
    return found


HIDDEN: dict[str, Any] = {
    "$.db_password.default": {"db_password": {"type": "string", "default": WORD}},
    "$.db_password.enum[1]": {"db_password": {"enum": ["***", WORD]}},
    "$.db_password.const": {"db_password": {"const": WORD}},
    "$.api_key.examples[0]": {"api_key": {"examples": [WORD]}},
    "$.api_key[1]": {"api_key": ["EMPTY", WORD]},
    "$.space.password.value": {"space": {"password": {"type": "constant", "value": WORD}}},
    "$.space.password.values[0]": {"space": {"password": {"type": "choice", "values": [WORD]}}},
    "$.space.password._value[0]": {"space": {"password": {"_type": "choice", "_value": [WORD]}}},
    "$.environment[0].value": {"environment": [{"name": "DB_PASSWORD", "value": WORD}]},
    "$.labels[0].value": {"labels": [{"key": "api-key", "value": WORD}]},
    "$.password": {"password": "${fetch.result.key:-hunter2hunter2}"},
    "$.password.$default": {"password": {"$ref": ["fetch", "result", "key"], "$default": WORD}},
    "$.PGPASSWORD": {"PGPASSWORD": "${PASSWORD:-hunter2}"},
}
"""What has a secret that no field is named for, by its place."""


@pytest.mark.parametrize("place", HIDDEN)
def test_a_secret_is_found_by_the_name_of_what_it_is_of(place: str) -> None:
    value = HIDDEN[place]
    assert places(value) == [place]
    assert WORD not in json.dumps(without_secrets(value))
    assert not places(without_secrets(value))
    [problem] = read_command(HEADERS, b"s", json.dumps(value).encode()).problems
    assert (problem.code, problem.path) == ("secret_suspected", place)
    advice = {"space": "environment", "default": "leave the default out"}
    wanted = next((each for word, each in advice.items() if word in place.split(".")), "worker's host")
    assert wanted in problem.message


@pytest.mark.parametrize(("name", "value"), PEOPLE_USE)
def test_what_people_use_is_no_secret(name: str, value: Any) -> None:
    for given in (
        {"parameters": {name: value}},
        {"parameters": {name: {"default": value}}},
        {"space": {name: {"type": "constant", "value": value}}},
        {"space": {name: {"type": "choice", "values": [value]}}},
        {"environment": [{"name": name, "value": value}]},
    ):
        assert places(given) == []
        assert without_secrets(given) == given
        assert read_command(HEADERS, b"s", json.dumps(given).encode()).problem is None


def test_the_table_has_forty_names() -> None:
    assert len({name for name, _ in PEOPLE_USE}) >= 40


def test_samples_are_found_and_masked_wherever_they_stand() -> None:
    for secret in SECRETS.values():
        assert places([[secret]]) == ["$[0][0]"]
        assert places({secret: 1}) == ["$.(a key)"]
        assert not places(without_secrets({secret: [secret]}))
    for name, text in NAMED_SECRETS:
        assert places({name: text}) == [f"$.{name}"]
        assert without_secrets({name: text}) == {name: REDACTED}
    plain: dict[str, Any] = {
        "texts": list(PLAIN.values()),
        "named": [{name: text} for name, text in NAMED_PLAIN],
    }
    assert places(plain) == []
    assert without_secrets(plain) == plain


def test_a_reference_to_a_secret_is_none_where_parameters_are_or_come_from() -> None:
    named = {"secret": "wandb-2026"}
    for message in (
        {"parameters": {"key": named}},
        {"pipeline": {"parameters": {"key": {"type": "string", "default": named}}}},
        {"pipeline": {"steps": [{"each": [{"key": named}]}]}},
        {"values": {"${pipeline.key}": named}},
        {"items": [named, {"key": named}]},
    ):
        assert places(message) == []
    for parameter in ("password", "db_password", "api_key", "token"):
        text = f"${{pipeline.{parameter}}}"
        resolved = {"values": {text: named}, "sources": {text: "nightly-2026-11-30@17"}}
        assert places(resolved) == []
        assert places({**resolved, "values": {text: "a1b2c3d4e5f6a7b8c9"}}) == [f"$.values.{text}"]
    assert places({"tags": {"items": [named]}}) == ["$.tags.items[0].secret"]
    assert places({"tags": {"values": named}}) == ["$.tags.values.secret"]


@drawn(
    st.sampled_from(
        ["pass word", "db pass word", "pass phrase", "api key", "private key", "to ken", "secret"]
    ),
    st.text("_-. :/${}\n\t\\\"'\u00e9\u2192", min_size=1, max_size=2),
    st.sampled_from(["a1b2c3d4e5f6a7b8c9", "hunter2", "word"]),
)
def test_what_is_found_is_also_seen_without_parsing_however_a_name_is_written(
    name: str, between: str, text: str
) -> None:
    parts = name.split()
    value = {between.join(parts): text, between.join([*parts, ""]): {"default": text}}
    if any(secrets_in(value)):
        assert may_have_secret(json.dumps(value).encode()) and may_have_secret(to_json(value))


def test_the_digest_of_a_task_type_is_none_however_that_is_named() -> None:
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    assert places({"digests": {"rotate_api_key": digest, "new-token": digest}}) == []
    assert places({"digests": {"rotate_api_key": "a1b2c3d4"}}) == ["$.digests.rotate_api_key"]
    assert places({"rotate_api_key": digest}) == ["$.rotate_api_key"]
