"""The reference in docs is what the code says, and the code says nothing that isn't in it."""

import ast
import json
from functools import cached_property
from typing import Any

import pytest
from deploy import reference

from tests.house import source
from trackside.aggregates import documents
from trackside.contracts.envelope.refusals import DEAD_LETTER_CODES, REFUSAL_CODES
from trackside.contracts.envelope.topics import Topics
from trackside.telemetry.names import METRICS


def test_the_reference_is_what_the_code_gives() -> None:
    assert reference.differing() == [], "run: python deploy/reference.py"


def test_every_message_topic_setting_and_metric_is_in_the_reference() -> None:
    pages = {path.name: path.read_text("utf-8") for path in reference.FOLDER.glob("*.md")}
    assert all(f"`{kind.wire_type()}`" in pages["messages.md"] for kind in documents.messages())
    assert all(f"`{topic.name}`" in pages["topics.md"] for topic in Topics().shared)
    assert all(metric.prometheus_name in pages["metrics.md"] for metric in METRICS)
    services = [member for member in source.members() if member.startswith("services/")]
    with_settings = [member for member in services if (source.package(member) / "settings.py").is_file()]
    assert len(list(reference.settings_classes())) >= len(with_settings) + 1
    for kind in reference.settings_classes():
        prefix = kind.model_config.get("env_prefix", "")
        assert all(f"`{(prefix + name).upper()}`" in pages["settings.md"] for name in kind.model_fields)


@pytest.fixture(name="document")
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        (reference.FOLDER / "messages" / "asyncapi.json").read_text("utf-8")
    )
    return document


def test_the_published_channels_are_the_topics(document: dict[str, Any]) -> None:
    topics = Topics()
    wanted = {topic.name for topic in (*topics.shared, topics.device("{worker}", "{device}"))}
    assert {channel["address"] for channel in document["channels"].values()} ^ wanted == set()


def test_the_published_messages_are_those_of_the_codec(document: dict[str, Any]) -> None:
    declared = {message["name"] for message in document["components"]["messages"].values()}
    assert declared ^ {kind.wire_type() for kind in documents.messages()} == set()
    in_channels = {name for channel in document["channels"].values() for name in channel["messages"]}
    assert sorted(in_channels) == sorted(kind.__name__ for kind in documents.messages())


def test_every_class_of_a_message_and_every_topic_of_the_code_is_declared() -> None:
    """What is defined outside the registries would be on the wire and in no document."""
    classes = [
        node
        for path in source.python_files("libs", "services")
        for node in source.tree(path).body
        if isinstance(node, ast.ClassDef)
    ]
    bases = {node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases} for node in classes}
    kinds = {"Message"}
    while found := {name for name in bases if bases[name] & kinds} - kinds:
        kinds |= found
    never_written = {"UnknownRecord", "EncryptedRecord", "DeviceCommand"}
    assert kinds - {"Message", "Command", "Event"} - never_written == {
        kind.__name__ for kind in documents.messages()
    }
    made = {
        source.shown(path)
        for path in source.python_files("libs", "services")
        for node in source.nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Topic"
    }
    assert made == {"libs/contracts/src/trackside/contracts/envelope/topics.py"}
    named = {name for name, what in vars(Topics).items() if isinstance(what, cached_property)} - {"shared"}
    assert {getattr(Topics(), name).name for name in named} == {topic.name for topic in Topics().shared}


def test_every_reference_within_the_published_documents_leads_somewhere(document: dict[str, Any]) -> None:
    files = documents.files()
    for link in _links(document):
        if link.startswith("./"):
            assert link[2:] in files
            continue
        place: Any = document
        for part in link.removeprefix("#/").split("/"):
            place = place[part]
    operated = {operation["channel"]["$ref"] for operation in document["operations"].values()}
    assert operated == {f"#/channels/{name}" for name in document["channels"]}


def _links(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [link for inner in value.values() for link in _links(inner)]
    return [link for inner in value for link in _links(inner)] if isinstance(value, list) else []


def test_every_code_of_a_refusal_is_in_the_reference() -> None:
    known = REFUSAL_CODES.keys() | DEAD_LETTER_CODES.keys()
    used = {
        (source.shown(path), keyword.value.value)
        for path in source.python_files("libs/contracts", "services/dispatcher")
        for node in source.nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Problem"
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    assert len(used) > 10
    assert {(path, code) for path, code in used if code not in known} == set()
