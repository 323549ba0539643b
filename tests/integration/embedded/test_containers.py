"""Containers of Kafka and Postgres: those of tests end with the run, and the health check asks the broker."""

import socketserver
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import containers
from tests.polling import poll_until
from tests.stack import Servers
from trackside.embedded.folder import held_leash

KAFKA_READY = containers.ROOT / "deploy/compose/kafka_ready.sh"


async def test_containers_end_when_the_leash_of_their_run_is_cut(tmp_path: Path) -> None:
    try:
        engine = containers.find_engine().client.client
    except containers.NoContainersError as reason:
        pytest.skip(f"no container engine answers {reason}")

    def left() -> list[Any]:
        own = {"label": f"{containers.LABEL}={tmp_path.name}"}
        return list(engine.api.containers(all=True, filters=own))

    async def none_left() -> bool:
        return not left()

    try:
        with held_leash(tmp_path / "leash"):
            containers.start(tmp_path)
            assert len(left()) == 2
        await poll_until(none_left)
    finally:
        engine.close()


def test_tests_and_compose_file_use_the_same_images() -> None:
    services = yaml.safe_load((containers.ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    assert f"{{KAFKA_IMAGE:-{containers.KAFKA_IMAGE}@sha256:" in services["kafka"]["image"]
    assert f"{{POSTGRES_IMAGE:-{containers.POSTGRES_IMAGE}@sha256:" in services["postgres"]["image"]


def test_the_health_check_of_kafka_asks_the_broker(stack: Servers) -> None:
    host, port = stack.kafka_bootstrap.split(":")
    done = subprocess.run(["bash", str(KAFKA_READY), host, port], timeout=30, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\x08\0\0\0\1\0\0\0\0"])
def test_the_health_check_of_kafka_fails_without_a_broker_in_the_answer(answer: bytes) -> None:
    """A port that is open and says nothing, and metadata that lists no broker, as of a fenced one."""

    class Answering(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.read(18)
            self.wfile.write(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        port = str(server.server_address[1])
        done = subprocess.run(["bash", str(KAFKA_READY), "127.0.0.1", port], timeout=30, check=False)
        thread.join()
    assert done.returncode == 1
