"""Containers, as the tests' own fixture uses them: they end with the run, and give way with a reason."""

import json
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import containers
from tests.polling import poll_until
from tests.stack import Servers
from trackside.embedded.folder import held_leash
from trackside.embedded.kafka import MAX_MESSAGE_BYTES

KAFKA_READY = containers.ROOT / "deploy/compose/kafka_ready.sh"


class Unconnected(BaseHTTPRequestHandler):
    """Speaks the engine's protocol for an engine that runs and reaches no registry."""

    def do_GET(self) -> None:
        if "/images/" in self.path:
            self._answer(404, {"message": "No such image"})
        else:
            self._answer(200, {"ApiVersion": "1.41"} if self.path == "/version" else [])

    def do_POST(self) -> None:
        self._answer(500, {"message": "lookup registry: no such host"})

    def _answer(self, status: int, body: Any) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        pass


@contextmanager
def engine_without_registry(path: Path) -> Iterator[str]:
    with socketserver.ThreadingUnixStreamServer(str(path), Unconnected) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()


def test_an_engine_that_can_pull_nothing_gives_way_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_without_registry(tmp_path / "engine.sock") as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(containers.NoContainersError) as caught:
            containers.start(tmp_path)
    assert str(caught.value) == (
        f"{address}: {containers.KAFKA_IMAGE} can't be pulled: lookup registry: no such host"
    )


def test_an_engine_that_stays_silent_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "ANSWERS_WITHIN_S", 0.1)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "engine.sock"))
        silent.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        with pytest.raises(containers.NoContainersError, match=r"engine\.sock does not answer: .*timed out"):
            containers.start(tmp_path)


def test_a_socket_that_was_asked_for_and_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(containers.NoContainersError, match=r"none\.sock: there is no such socket"):
        containers.start(tmp_path)


def test_the_broker_in_a_container_has_the_settings_of_the_embedded_one() -> None:
    variables = containers.broker_environment()
    assert variables["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert variables["KAFKA_MESSAGE_MAX_BYTES"] == str(MAX_MESSAGE_BYTES)
    assert "KAFKA_ADVERTISED_LISTENERS" not in variables  # known once the container has its port


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
