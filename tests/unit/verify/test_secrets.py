"""INV-14: each secret is found in a record, and nothing else is."""

import json

import pytest

from tests.secret_samples import PLAIN, SECRETS
from trackside.eventlog.log import Entry
from trackside.verify.checks.secrets import secret_field


def entry(value: object, source: str = "trackside/worker/1", escaped: bool = False) -> Entry:
    """Gives a record of the log; `escaped`: each letter of its texts as a JSON escape."""
    text = json.dumps(value)
    if escaped:
        text = "".join(f"\\u{ord(each):04x}" if each.isalnum() else each for each in text)
    headers = (("ce_type", b"trackside.task-assigned.v1"), ("ce_source", source.encode()))
    return Entry("trackside.events", 0, 7, 0, b"s", text.encode(), headers)


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_a_value_is_found(name: str, escaped: bool) -> None:
    assert secret_field(entry([[SECRETS[name]]], escaped=escaped)) == "$[0][0]"


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_a_key_or_in_a_header_is_found(name: str) -> None:
    assert secret_field(entry([{SECRETS[name]: 1}])) == "$[0].(a key)"
    assert secret_field(entry({}, source=SECRETS[name])) == "ce_source"


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_no_secret_is_not_found(name: str) -> None:
    assert secret_field(entry({PLAIN[name]: [PLAIN[name]]}, source=PLAIN[name])) is None
