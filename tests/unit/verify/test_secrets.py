"""INV-14: each secret is found in a record, and nothing else is."""

import json

import pytest

from tests.secret_samples import NAMED_PLAIN, NAMED_SECRETS, PLAIN, SECRETS
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.log import Entry, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.verify.checks.secrets import secret_field
from trackside.verify.log import verify


def entry(value: object, source: str = "trackside/worker/1", escaped: bool = False) -> Entry:
    """Returns a record of the log; `escaped`: each letter of its texts as a JSON escape."""
    text = json.dumps(value)
    if escaped:
        text = "".join(f"\\u{ord(each):04x}" if each.isalnum() else each for each in text)
    headers = (("ce_type", b"trackside.task-assigned.v1"), ("ce_source", source.encode()))
    return Entry("trackside.events", 0, 7, 0, b"s", text.encode(), headers)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_a_value_a_key_or_a_header_is_found(name: str) -> None:
    for escaped in (False, True):
        assert secret_field(entry([[SECRETS[name]]], escaped=escaped)) == "$[0][0]"
    assert secret_field(entry([{SECRETS[name]: 1}])) == "$[0].(a key)"
    assert secret_field(entry({}, source=SECRETS[name])) == "ce_source"


@pytest.mark.parametrize(("name", "text"), NAMED_SECRETS)
def test_a_secret_by_the_name_of_its_field_is_found(name: str, text: str) -> None:
    assert secret_field(entry({"options": {"a": [{name: text}]}})) == f"$.options.a[0].{name}"


def test_what_is_no_secret_is_not_found() -> None:
    for text in PLAIN.values():
        assert secret_field(entry({text: [text]}, source=text)) is None, text
    for name, text in NAMED_PLAIN:
        assert secret_field(entry({name: text})) is None, name


def test_a_reference_to_a_secret_is_none_where_parameters_are_and_what_is_no_json_has_one() -> None:
    assert secret_field(entry({"parameters": {"key": {"secret": "wandb-2026"}}})) is None
    task = {"parameters": {"a": [{"secret": "wandb-2026"}]}}
    assert secret_field(entry({"body": {"tasks": [task]}})) is None
    assert secret_field(entry({"parameters": {"secret": "wandb-2026"}})) == "$.parameters.secret"
    assert secret_field(entry({"tags": {"key": {"secret": "wandb-2026"}}})) == "$.tags.key.secret"
    broken = Entry("trackside.commands", 0, 7, 0, b"s", b'{"password": "hunter2", nope}', ())
    assert secret_field(broken) == "$ (no JSON)"
    keyed = Entry("trackside.commands", 0, 7, 0, SECRETS["AWS key id"].encode(), b"{}", ())
    assert secret_field(keyed) == "$key"


async def test_a_secret_in_a_refused_command_is_found_with_its_place() -> None:
    topics, log = Topics(), MemoryLog()
    await log.ensure(topics.shared)
    headers = [("ce_id", b"s"), ("ce_type", b"trackside.stop-search.v1"), ("ce_source", b"test")]
    await log.append(topics.commands.name, 2, [Outgoing(b"s", b'{"db_password":"hunter2"}', headers)])
    found = {finding.invariant: finding for finding in await verify(log, topics)}
    assert str(found["INV-14"]) == (
        "INV-14 trackside.commands-2@0 s: $.db_password looks like a secret; rotate it: it can be read there "
        "until the retention of the topic removes it"
    )
