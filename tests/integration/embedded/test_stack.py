"""A stack of its own is started, hurt and stopped: what is killed comes back, and nothing stays behind.

A service that is alive and does nothing is ended, with its stack traces, and started again.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.polling import poll_until_sync
from trackside.embedded import stack
from trackside.embedded.checks import is_responding
from trackside.embedded.errors import StackError, StackMissing, StackRunning
from trackside.embedded.folder import StackStatus, is_locked, read_status
from trackside.embedded.options import ServiceSpec, StackOptions
from trackside.embedded.postgres.server import remove_data
from trackside.embedded.processes import Check, children_of, is_alive
from trackside.embedded.supervision import readiness

SERVICE = """
import http.server, os
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["TRACKSIDE_HEALTH_PORT"])), Ready).serve_forever()
"""
FAILING = [sys.executable, "-c", "raise SystemExit('no topics here')"]


class StackArguments(TypedDict):
    """Addresses of servers that nobody asks: the stack then runs services only."""

    bootstrap_servers: str
    postgres_dsn: str


WITHOUT_SERVERS: StackArguments = {
    "bootstrap_servers": "127.0.0.1:1",
    "postgres_dsn": "postgresql://nobody@127.0.0.1:1/none",
}


def service(name: str = "echo", before: str = "") -> ServiceSpec:
    return ServiceSpec(name, argv=[sys.executable, "-c", before + SERVICE])


def kill(running: stack.Stack, name: str) -> int:
    pid = running.pid(name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def await_another(running: stack.Stack, name: str, victim: int) -> None:
    """Waits until the program is ready as another process than the killed one."""

    def is_back(status: StackStatus) -> bool:
        return status.processes[name].state == "ready" and status.processes[name].pid != victim

    poll_until_sync(lambda: is_back(stack.load(running.folder).status))


def all_end(pids: list[int], within_s: float = 60.0) -> bool:
    """Waits until none of the processes runs; False if one still does."""
    deadline = time.monotonic() + within_s
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            ended, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        finally:
            os.close(descriptor)
        if not ended:
            return False
    return True


def pids_of(folder: Path) -> list[int]:
    return [each.pid for each in read_status(folder).processes.values() if each.pid is not None]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / ".trackside"
    yield home
    stack.stop(home)
    remove_data(home / "postgres")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[stack.Stack]:
    """Returns a Kafka and a Postgres that a test may kill."""
    home = tmp_path_factory.mktemp("servers")
    yield stack.start(home, StackOptions(leash=leash, durable=False, ephemeral=True))
    stack.stop(home)


def port_of(running: stack.Stack, name: str) -> int:
    address = running.bootstrap_servers if name == "kafka" else urlsplit(running.postgres_dsn).netloc
    return int(address.rpartition(":")[2])


@pytest.mark.parametrize("name", ["kafka", pytest.param("postgres", marks=pytest.mark.long)])
def test_a_killed_server_answers_again_on_its_port(servers: stack.Stack, name: Check) -> None:
    victim = kill(servers, name)
    await_another(servers, name, victim)
    assert is_responding(name, port_of(servers, name), timeout_s=60.0)


def variables_of(running: stack.Stack, name: str) -> dict[str, str]:
    """Returns the environment that a process of a stack was started in."""
    packed = Path(f"/proc/{running.pid(name)}/environ").read_text()
    return dict(line.split("=", 1) for line in packed.split("\0") if "=" in line)


def test_of_the_services_a_worker_is_given_nothing_that_leads_into_postgres(
    folder: Path, leash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "of the owner")
    monkeypatch.setenv("TRACKSIDE_POSTGRES_PASSWORD_FILE", "/run/secrets/owner")
    services = [service("worker"), service("dispatcher")]
    options = StackOptions(services, leash=leash, **WITHOUT_SERVERS)
    running = stack.start(folder, options)
    given = variables_of(running, "dispatcher")
    assert (given["PGPASSWORD"], given["TRACKSIDE_POSTGRES_DSN"]) == (
        "of the owner",
        WITHOUT_SERVERS["postgres_dsn"],
    )
    assert given["TRACKSIDE_POSTGRES_PASSWORD_FILE"] == "/run/secrets/owner"
    worker = variables_of(running, "worker")
    assert worker["TRACKSIDE_KAFKA_BOOTSTRAP"] == given["TRACKSIDE_KAFKA_BOOTSTRAP"]
    assert [name for name in worker if "POSTGRES" in name or "READER" in name or name.startswith("PG")] == []


async def test_what_was_committed_outlives_a_kill_of_postgres(servers: stack.Stack) -> None:
    connection = await asyncpg.connect(servers.postgres_dsn)
    await connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    victim = kill(servers, "postgres")
    await_another(servers, "postgres", victim)
    connection.terminate()
    again = await asyncpg.connect(servers.postgres_dsn)
    assert await again.fetchval("SELECT value FROM kept") == 7
    await again.close()


def test_servers_listen_on_loopback_below_the_ephemeral_range_and_their_files_are_the_owners_alone(
    servers: stack.Stack,
) -> None:
    assert {port_of(servers, name) < 32_768 for name in ("kafka", "postgres")} == {True}
    assert servers.bootstrap_servers.startswith("127.0.0.1:")
    names = ("stack.json", "plan.json", "postgres/password", "kafka", "logs", "services")
    assert {(servers.folder / name).stat().st_mode & 0o077 for name in names} == {0}
    logs = {log.name: log.stat().st_mode & 0o777 for log in (servers.folder / "logs").iterdir()}
    assert logs == dict.fromkeys(("kafka.log", "postgres.log", "supervisor.log"), 0o600)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """Returns a stack of services that a test may kill, with a log that an earlier release has left."""
    home = tmp_path_factory.mktemp("services") / ".trackside"
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "echo.log").touch(0o644)
    (home / "logs" / "echo.log").chmod(0o644)
    forks = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n"
    specs = [service(), service("forks", before=forks)]
    yield stack.start(home, StackOptions(specs, **WITHOUT_SERVERS))
    stack.stop(home)


def test_the_log_of_a_service_is_its_owners_alone_also_one_of_an_earlier_release(
    services: stack.Stack,
) -> None:
    assert {log.stat().st_mode & 0o777 for log in (services.folder / "logs").iterdir()} == {0o600}


def test_a_killed_service_is_started_again(services: stack.Stack) -> None:
    before = stack.load(services.folder).status.processes["echo"].restarts
    await_another(services, "echo", kill(services, "echo"))
    assert stack.load(services.folder).status.processes["echo"].restarts == before + 1


def test_what_a_service_leaves_behind_is_killed_with_it(services: stack.Stack) -> None:
    parent = services.pid("forks")
    assert parent is not None
    (child,) = children_of(parent)
    await_another(services, "forks", kill(services, "forks"))
    assert all_end([child])


def test_a_stack_is_found_from_a_folder_below_and_a_second_one_on_its_folder_is_refused(
    services: stack.Stack,
) -> None:
    below = services.folder.parent / "some" / "where"
    below.mkdir(parents=True, exist_ok=True)
    assert stack.find(below).folder == services.folder
    with pytest.raises(StackRunning, match="already runs"):
        stack.start(services.folder, StackOptions(**WITHOUT_SERVERS))
    assert stack.load(services.folder).status.state == "running"


@pytest.mark.parametrize(
    "servers", [WITHOUT_SERVERS, pytest.param({}, id="with_servers", marks=pytest.mark.long)]
)
def test_a_killed_supervisor_leaves_no_process_and_the_stack_starts_again(
    folder: Path, leash: Path, servers: StackArguments
) -> None:
    options = StackOptions([service()], durable=False, leash=leash, **servers)
    running = stack.start(folder, options)
    left = pids_of(folder)
    backends = [pid for parent in left for pid in children_of(parent)]
    assert (len(left), len(backends) > 0) == ((1, False) if servers else (3, True))
    os.kill(running.status.supervisor_pid, signal.SIGKILL)
    assert all_end([*left, *backends])
    poll_until_sync(lambda: not is_locked(folder))
    with pytest.raises(StackMissing, match="is down"):
        stack.load(folder)
    assert stack.start(folder, options).status.supervisor_pid != running.status.supervisor_pid


NESTED = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
    time.sleep(600)
"""


def test_stopping_leaves_no_process_whatever_it_does_and_the_next_start_keeps_the_ports(folder: Path) -> None:
    deaf = service("deaf", before="import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n")
    specs = [service("one"), deaf, service("forks", before=NESTED)]
    options = StackOptions(specs, grace_s=0.2, **WITHOUT_SERVERS)
    running = stack.start(folder, options)
    parent = running.pid("forks")
    assert parent is not None
    (child,) = children_of(parent)
    left = [*pids_of(folder), child, *children_of(child)]
    assert len(left) == 5
    before = json.loads((folder / "ports.json").read_text())
    assert stack.stop(folder) is True
    assert [is_alive(pid) for pid in left] == [False] * 5
    assert stack.stop(folder) is False
    stack.start(folder, options)
    assert json.loads((folder / "ports.json").read_text()) == before


def test_setup_runs_before_the_services_with_the_addresses(folder: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    said = "os.environ['TRACKSIDE_KAFKA_BOOTSTRAP']"
    write = f"import os, pathlib\npathlib.Path({str(seen)!r}).write_text({said})"
    late = service("late", before=f"import pathlib\nassert pathlib.Path({str(seen)!r}).exists()\n")
    running = stack.start(
        folder, StackOptions([late], setup=[[sys.executable, "-c", write]], **WITHOUT_SERVERS)
    )
    assert (seen.read_text(), running.status.processes["late"].restarts) == (
        WITHOUT_SERVERS["bootstrap_servers"],
        0,
    )


def test_a_setup_that_fails_says_so_with_its_output_and_leaves_nothing(folder: Path) -> None:
    with pytest.raises(StackError, match=r"(?s)setup-0 ended with 1 3 times.*no topics here"):
        stack.start(folder, StackOptions([service()], setup=[FAILING], **WITHOUT_SERVERS))
    assert not is_locked(folder)


class FastClock:
    """A clock that is hours ahead once a log contains a text."""

    sleep = staticmethod(time.sleep)

    def __init__(self, log: Path, text: str) -> None:
        self._log, self._text = log, text

    def monotonic(self) -> float:
        found = self._log.exists() and self._text in self._log.read_text()
        return time.monotonic() + (10_000 if found else 0)


def test_a_service_that_never_gets_ready_is_named_with_its_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ServiceSpec("broken", argv=FAILING)
    monkeypatch.setattr(readiness, "time", FastClock(folder / "logs" / "broken.log", "no topics here"))
    with pytest.raises(StackError, match=r"(?s)broken is .*no topics here"):
        stack.start(folder, StackOptions([broken], **WITHOUT_SERVERS))
    assert not is_locked(folder)


def test_a_killed_starter_takes_its_stack_and_an_ephemeral_folder_along(folder: Path, tmp_path: Path) -> None:
    starter = f"""
import pathlib, time
from trackside.embedded import stack
from trackside.embedded.supervision import readiness
from trackside.embedded.folder import held_leash
from trackside.embedded.options import StackOptions
with held_leash(pathlib.Path({str(tmp_path / "leash")!r})) as held:
    options = StackOptions(leash=held, ephemeral=True, **{WITHOUT_SERVERS!r})
    stack.start(pathlib.Path({str(folder)!r}), options)
    print("up", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        supervisor = stack.load(folder).status.supervisor_pid
        process.kill()
    assert all_end([supervisor])
    assert not folder.exists()


STUCK_S = 1.5
STUCK = f"it was stuck: no turn of its event loop for {STUCK_S} s; its log has the stack traces"
WAITS_AT_A_REQUEST = """
import faulthandler, pathlib, time
faulthandler.enable()
def wait_while_told():
    while pathlib.Path({flag!r}).exists():
        pass
"""


def started(folder: Path, spec: ServiceSpec) -> tuple[stack.Stack, int]:
    """Starts a stack with one service; returns it and the pid of the service."""
    running = stack.start(folder, StackOptions([spec], stuck_s=STUCK_S, **WITHOUT_SERVERS))
    pid = running.pid("echo")
    assert pid is not None
    return running, pid


def test_a_service_whose_loop_takes_no_turn_writes_its_stack_traces_and_is_started_again(
    folder: Path, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    code = SERVICE.replace("self.send_response", "wait_while_told(); self.send_response")
    code = WAITS_AT_A_REQUEST.format(flag=str(flag)) + code
    running, victim = started(folder, ServiceSpec("echo", argv=[sys.executable, "-c", code]))
    flag.touch()
    poll_until_sync(lambda: not is_alive(victim))
    flag.unlink()
    await_another(running, "echo", victim)
    status = stack.load(folder).status.processes["echo"]
    assert (status.last_end, status.restarts) == (STUCK, 1)
    assert "in wait_while_told" in Path(status.log).read_text()


def test_a_service_that_was_stopped_and_ignores_the_signal_is_killed_and_started_again(folder: Path) -> None:
    running, victim = started(folder, service(before="import signal; signal.signal(6, lambda *_: None)\n"))
    os.kill(victim, signal.SIGSTOP)
    await_another(running, "echo", victim)
    assert stack.load(folder).status.processes["echo"].last_end == STUCK


def test_the_status_says_with_which_code_a_service_ended(folder: Path) -> None:
    ends = "import os, signal; signal.signal(2, lambda *_: os._exit(3))\n"
    running, victim = started(folder, service(before=ends))
    os.kill(victim, signal.SIGINT)
    await_another(running, "echo", victim)
    status = stack.load(folder).status.processes["echo"]
    assert status.last_end == "it ended with exit code 3" and status.last_end_ms > 0
