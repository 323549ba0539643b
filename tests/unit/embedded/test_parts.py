import hashlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.embedded.checks import is_responding
from trackside.embedded.errors import StackError, StackRunning
from trackside.embedded.folder import Plan, is_locked, locked, read_plan, write_plan
from trackside.embedded.installation import identify
from trackside.embedded.kafka import jars, kafka
from trackside.embedded.kafka.jars import Jar
from trackside.embedded.ports import FIRST_PORT, LAST_PORT, free_ports, held_ports, is_free
from trackside.embedded.postgres.account import Account, can_enter
from trackside.embedded.postgres.server import clear_stale_pid
from trackside.embedded.processes import Check, ProcessSpec, open_log
from trackside.embedded.supervision.supervised import LATE_AFTER_S, SupervisedProcess, next_backoff
from trackside.embedded.supervision.supervisor import ROTATED_BYTES, Supervisor, rotate_logs


@pytest.mark.thorough
@given(st.lists(st.floats(min_value=0, max_value=9.9), min_size=6, max_size=20))
def test_a_program_that_dies_within_10_s_waits_longer_each_time_up_to_5_s(lives_s: list[float]) -> None:
    pauses, pause = [], 0.0
    for life_s in lives_s:
        pause = next_backoff(pause, life_s)
        pauses.append(pause)
    assert pauses[:5] == [0.2, 0.4, 0.8, 1.6, 3.2]
    assert set(pauses[5:]) <= {5.0}
    assert next_backoff(5.0, 10.0) == 0.0
    assert next_backoff(0.0, 1.0) == 0.2


def test_what_waits_to_be_started_again_is_due_once_a_server_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: dict[str, Check] = {"kafka": "kafka", "worker": "http", "console": "http"}
    specs = [
        ProcessSpec(name, ["x"], str(tmp_path / name), tier=int(name != "kafka"), check=check)
        for name, check in kinds.items()
    ]
    supervisor = Supervisor(tmp_path, Plan(specs, bootstrap_servers="", postgres_dsn=""))
    kafka, *services = supervisor.supervised
    for each in services:
        each.started, each.backoff_s = time.monotonic(), 2.5
        each.wait_longer(each.started)
        assert each.due > each.started + 4
    kafka.status.state = "starting"
    monkeypatch.setattr("trackside.embedded.supervision.supervisor.is_responding", lambda *_, **__: True)
    supervisor._check()
    assert kafka.status.state == "ready"
    assert [(each.due, each.backoff_s) for each in services] == [(0.0, 0.0)] * 2


def test_a_service_that_folds_the_log_for_long_keeps_no_other_from_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ProcessSpec("indexer", ["x"], str(tmp_path / "x"), check="http", health_port=1)
    each, now_s = SupervisedProcess(spec), time.monotonic()
    answers = {"ready": False, "behind": 7}
    monkeypatch.setattr("trackside.embedded.supervision.supervised.json_answer", lambda *_: answers)
    each.look_late(now_s)
    assert (each.status.behind, each.has_begun) == (7, False)
    each.late_since_s = now_s - LATE_AFTER_S
    assert each.has_begun
    answers["behind"] = 0
    each.look_late(now_s + 2)
    assert (each.status.behind, each.has_begun) == (0, False)


def test_ports_are_distinct_and_below_the_ephemeral_range() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(FIRST_PORT <= port <= LAST_PORT < 32_768 for port in ports)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ports are not held")
def test_a_port_that_somebody_has_chosen_is_given_only_to_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with held_ports(1) as (port,):
        drawn = iter([port - FIRST_PORT, *range(LAST_PORT - FIRST_PORT)])
        monkeypatch.setattr(secrets, "randbelow", lambda _: next(drawn))
        assert free_ports(1) != [port]
        with socket.create_server(("127.0.0.1", port)):
            assert not is_free(port)
    assert is_free(port)


def test_a_plan_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    spec = ProcessSpec("kafka", ["java"], "kafka.log", env={"A": "b"}, tier=2, check="kafka", port=1, uid=3)
    plan = Plan([spec], "127.0.0.1:1", "postgresql://", ephemeral=True, leash="leash", grace_s=1.0)
    write_plan(tmp_path, plan)
    assert read_plan(tmp_path) == plan


@pytest.mark.parametrize("check", ["kafka", "postgres", "http"])
@pytest.mark.parametrize(
    "said", [b"", b"\0", b"HTTP/1.1 503 No\r\n\r\n", b"\0\0\0\x04\0\0\0\x07", b"E\0\0\0\x0a57P03\0"]
)
def test_an_open_port_that_does_not_speak_the_protocol_is_no_server(check: Check, said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(said)

        thread = threading.Thread(target=speak)
        thread.start()
        assert not is_responding(check, server.getsockname()[1])
        thread.join()


def test_every_jar_is_pinned_by_size_and_hash() -> None:
    pinned = jars.pinned()
    assert len({jar.coordinate for jar in pinned}) == len(pinned) > 40
    assert {len(jar.sha256) for jar in pinned} == {64}
    versions = {jar.coordinate.rpartition(":")[2] for jar in pinned if ":kafka" in jar.coordinate}
    assert len(versions) == 1 and versions.pop().startswith("4.1.")


def pin(repository: Path, content: bytes, monkeypatch: pytest.MonkeyPatch, sha256: str | None = None) -> Jar:
    """Pins one jar, and lets jgo find the content in a repository folder instead of the network."""
    jar = Jar("org.example:thing:1.0", len(content), sha256 or hashlib.sha256(content).hexdigest())

    class Found:
        def create_dependency(self, _: str) -> "Found":
            return self

        @property
        def artifact(self) -> "Found":
            return self

        def resolve(self) -> Path:
            path = jar.path(repository / jars.INCOMING)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return path

    monkeypatch.setattr(jars, "pinned", lambda: [jar])
    monkeypatch.setattr(jars, "_maven", lambda _: Found())
    return jar


def test_a_jar_is_fetched_once_or_again_if_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = pin(tmp_path, b"jar", monkeypatch)
    said: list[str] = []
    assert jars.classpath(said.append, tmp_path) == [jar.path(tmp_path)]
    assert len(said) == 2
    assert jars.classpath(said.append, tmp_path) == [jar.path(tmp_path)]
    assert len(said) == 2
    jar.path(tmp_path).write_bytes(b"ja")
    jars.classpath(said.append, tmp_path)
    assert jar.path(tmp_path).read_bytes() == b"jar"


def test_a_jar_of_another_hash_is_never_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = pin(tmp_path, b"jar", monkeypatch, sha256="0" * 64)
    with pytest.raises(StackError, match=r"org\.example:thing.*expected 0000.*HTTPS_PROXY"):
        jars.classpath(lambda _: None, tmp_path)
    assert not jar.path(tmp_path).exists()


def test_the_broker_creates_no_topic_by_itself_and_forgets_a_dead_one_fast() -> None:
    settings = kafka.server_properties(Path("data"), 20_001, 20_002).splitlines()
    assert {"auto.create.topics.enable=false", "broker.session.timeout.ms=1000"} <= set(settings)


def test_a_pid_file_whose_number_belongs_to_another_process_is_removed(tmp_path: Path) -> None:
    stale = tmp_path / "postmaster.pid"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, cwd="/") as other:
        stale.write_text(f"{other.pid}\n")
        clear_stale_pid(tmp_path)
    assert not stale.exists()


def test_the_pid_file_of_a_postmaster_that_nobody_waits_for_is_removed(tmp_path: Path) -> None:
    stale = tmp_path / "postmaster.pid"
    with subprocess.Popen(["true"], cwd=tmp_path) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        stale.write_text(f"{zombie.pid}\n")
        clear_stale_pid(tmp_path)
    assert not stale.exists()


@pytest.mark.parametrize("text", [None, "", "no number", "4194305\n"])
def test_a_pid_file_that_says_nothing_is_left_to_postgres(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "postmaster.pid"
    if text is not None:
        path.write_text(text)
    clear_stale_pid(tmp_path)
    assert path.exists() == (text is not None)


@pytest.mark.parametrize("mode", [0o700, 0o711])
def test_a_private_folder_is_seen_as_out_of_reach_and_stays_private(mode: int) -> None:
    stranger = Account("stranger", uid=65_533, gid=65_533)
    with tempfile.TemporaryDirectory() as above:  # not tmp_path: pytest keeps that one to its owner
        Path(above).chmod(0o711)
        home = Path(above) / "home"
        home.mkdir()
        home.chmod(mode)
        assert can_enter(home, stranger) == (mode == 0o711)
        assert home.stat().st_mode & 0o777 == mode


def test_one_stack_holds_the_lock_and_another_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(StackRunning, match="already runs"), locked(tmp_path):
            pass
    assert not is_locked(tmp_path)


def test_who_only_looks_keeps_nobody_from_starting_a_stack(tmp_path: Path) -> None:
    with locked(tmp_path):
        pass  # the file is there now
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            is_locked(tmp_path)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(300):
            with locked(tmp_path):
                pass
    finally:
        over.set()
        for looker in lookers:
            looker.join()


def test_a_folder_with_a_log_is_not_started_on_another_kafka(tmp_path: Path) -> None:
    (tmp_path / "kafka" / "data").mkdir(parents=True)
    (tmp_path / "kafka" / "data" / "meta.properties").write_text("cluster.id=Aown\nnode.id=1\n")
    with pytest.raises(StackError, match="has a log of its own, Aown, but TRACKSIDE_KAFKA_BOOTSTRAP"):
        identify(tmp_path, lambda _: None, has_log=False)
    assert identify(tmp_path, lambda _: None, has_log=True) == "Aown"


def test_a_long_log_is_moved_and_its_process_appends_to_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "worker.log"
    written = open_log(str(path))
    try:
        os.write(written, b"a" * ROTATED_BYTES + b"\n")
        rotate_logs(path.parent)
        os.write(written, b"next\n")
    finally:
        os.close(written)
    before = path.with_suffix(".log.1")
    assert path.read_bytes() == b"next\n"
    assert before.stat().st_size == ROTATED_BYTES + 1
    assert before.stat().st_mode & 0o777 == 0o600


def test_only_one_part_of_what_was_before_is_kept_and_a_short_log_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "kafka.log"
    for letter in (b"a", b"b"):
        path.write_bytes(letter * (ROTATED_BYTES + 1))
        rotate_logs(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kafka.log", "kafka.log.1"]
    assert path.with_suffix(".log.1").read_bytes()[:1] == b"b"
    assert path.stat().st_size == 0
    path.write_bytes(b"short\n")
    rotate_logs(tmp_path)
    assert path.read_bytes() == b"short\n"
    rotate_logs(tmp_path / "absent")
