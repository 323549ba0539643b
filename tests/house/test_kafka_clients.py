"""Every client of Kafka is given the settings of its security: none is built with an address alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.source import ROOT, shown

CLIENTS = ("AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient")


def clients() -> Iterator[tuple[Path, ast.Call]]:
    for folder in ("libs", "services", "deploy"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
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
