"""Every client of Kafka is given the settings of its security, and asks for the topics that it needs."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.source import nodes, python_files, shown

PRODUCT = ("libs", "services", "deploy")
WHOLE_CLUSTER = (".list_topics()", ".describe_topics()", ".describe_cluster()", ".fetch_all_metadata()")
"""Requests whose answer has every topic of a cluster; `eventlog.kafka_metadata` has others."""
CLIENTS = ("AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient")


def clients() -> Iterator[tuple[Path, ast.Call]]:
    for path in python_files(*PRODUCT):
        if not any(client in path.read_text("utf-8") for client in CLIENTS):
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in CLIENTS:
                yield path, node


def has_its_security(call: ast.Call) -> bool:
    return any(
        each.arg is None
        and isinstance(each.value, ast.Call)
        and ast.unparse(each.value.func) == "client_options"
        for each in call.keywords
    )


def test_every_client_of_kafka_is_given_its_security() -> None:
    found = list(clients())
    assert len(found) >= 5
    assert [f"{shown(path)}:{call.lineno}" for path, call in found if not has_its_security(call)] == []


def test_no_client_of_kafka_asks_for_the_topics_of_the_whole_cluster() -> None:
    assert [
        f"{shown(path)}: {call}"
        for path in python_files(*PRODUCT)
        for call in WHOLE_CLUSTER
        if call in path.read_text("utf-8")
    ] == []
