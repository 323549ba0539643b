"""When a service counts as stuck; the service is a real socket, and only the clock is the test's."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.embedded.processes import processor_times_s
from trackside.embedded.service_health import LONGEST_LOOK_S, REQUEST, STUCK_S, HealthWatch
from trackside.telemetry.process_start import describe_exit


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


@pytest.fixture
def watch(server: socket.socket) -> Iterator[HealthWatch]:
    watch = HealthWatch(server.getsockname()[1], os.getpid())
    yield watch
    watch.close()


def answer(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        octets = b""
        while len(octets) < len(REQUEST):
            octets += connection.recv(4_096)
        assert octets == REQUEST
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")


def looks(watch: HealthWatch, count: int, every_s: float, start_s: float = 100.0) -> list[bool]:
    return [watch.look(start_s + at * every_s) for at in range(count)]


def test_a_service_that_does_not_answer_for_30_s_is_stuck(watch: HealthWatch) -> None:
    found = looks(watch, 40, 1.0)
    assert not any(found[:30]) and found[-1]
    assert found.index(True) <= 32  # what this process waited for a processor does not count


def test_a_service_that_answers_also_late_is_not_stuck(watch: HealthWatch, server: socket.socket) -> None:
    for at in range(20):
        assert not watch.look(100.0 + 20.0 * at)
        answer(server)
        assert not watch.look(110.0 + 20.0 * at)
        assert watch.silent_s == 0.0
    looks(watch, 25, 1.0, start_s=600.0)
    answer(server)
    assert not watch.look(625.0) and watch.silent_s == 0.0
    assert not any(looks(watch, 25, 1.0, start_s=626.0))


def test_one_look_counts_2_s_at_most_as_the_machine_may_have_slept(watch: HealthWatch) -> None:
    watch.look(100.0)
    assert not watch.look(10_000.0)
    assert watch.silent_s <= LONGEST_LOOK_S < STUCK_S
    assert processor_times_s(Path("/proc/none")) == (0.0, 0.0), "a process that is gone waits for none"


def test_a_service_that_does_not_listen_is_not_judged() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert not any(looks(HealthWatch(port, os.getpid()), 100, 1.0))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "it ended with exit code 0"),
        (127, "it ended with exit code 127"),
        (-9, "it was killed by SIGKILL"),
        (-200, "it was killed by signal 200"),
    ],
)
def test_an_end_is_described_by_its_code_or_its_signal(code: int, text: str) -> None:
    assert f"it {describe_exit(code)}" == text
