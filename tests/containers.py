"""Kafka and Postgres in containers, for one test run: started by testcontainers, removed when it ends.

A process of its own (`python -m tests.containers FOLDER`) waits until the run's leash is released, and then
removes the containers, even if the run was killed. Ryuk, which does that for testcontainers, would be a third
image to pull, with the engine's socket mounted into it.
"""

import os
import re
import select
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside.embedded.folder import is_cut, open_leash
from trackside.embedded.kafka.kafka import FAST_START, HEAP, PATIENT_SESSION_MS, server_properties
from trackside.embedded.postgres.server import UNSAFE_SETTINGS

ROOT = Path(__file__).resolve().parents[1]
KAFKA_IMAGE = "apache/kafka:4.1.1"
POSTGRES_IMAGE = "postgres:18.3-bookworm"
LABEL = "trackside.test-run"
MARK = "containers"  # the file in a run's folder that marks that there may be containers
KAFKA_PORT, POSTGRES_PORT = 9092, 5432
POSTGRES_ENVIRONMENT = {f"POSTGRES_{name}": "trackside" for name in ("USER", "PASSWORD", "DB")}
POSTGRES_SETTINGS = {**UNSAFE_SETTINGS, "max_connections": "200", "jit": "off", "timezone": "UTC"}
ADDRESS = "/tmp/advertised"  # in the container, which waits for it: its port is known only once it runs
START_KAFKA = f"until [ -f {ADDRESS} ]; do sleep 0.1; done; . {ADDRESS}; exec /etc/kafka/docker/run"
ANSWERS_WITHIN_S = 10  # Podman is slow to answer while it builds an image
SILENT_AT_MOST_S = 20
# A test has 120 s with its fixtures, and after that the embedded servers may still have to start.
READY_WITHIN_S = 75


class NoContainersError(Exception):
    """Containers can't be used: the text has the engine and the reason; it is empty if there is no engine."""


@dataclass(frozen=True)
class Engine:
    """A container engine that responds: its client, its address, and whether it runs on this machine."""

    client: Any
    address: str
    near: bool


def start(run: Path, bootstrap: str | None = None, dsn: str | None = None) -> tuple[str, str, str]:
    """Starts the servers without an address; returns the addresses of Kafka, of Postgres and of the engine.

    NoContainersError within 75 s, or 20 s later if the engine stops responding; no container is left then.
    """
    engine = find_engine()
    by = time.monotonic() + READY_WITHIN_S
    try:
        for image in [KAFKA_IMAGE] * (bootstrap is None) + [POSTGRES_IMAGE] * (dsn is None):
            _pull(engine, image, by)
        _remove_at_the_end(run)
        kafka = None if bootstrap else _start_kafka(engine, run)
        postgres = None if dsn else _start_postgres(engine, run)
        bootstrap = bootstrap or _kafka(engine, kafka, by)
        dsn = dsn or _postgres(engine, postgres, by)
    except BaseException as error:
        remove(run)
        if not isinstance(error, Exception):
            raise
        # Any error of the engine, its client or an image means that there are no servers.
        raise NoContainersError(f"{engine.address}: {_one_line(error)}") from error
    finally:
        engine.client.client.close()
    return bootstrap, dsn, engine.address


def find_engine() -> Engine:
    """Returns the engine of DOCKER_HOST, the context in use or the usual socket; else NoContainersError."""
    from testcontainers.core.config import ConnectionMode, testcontainers_config
    from testcontainers.core.docker_client import DockerClient, get_docker_host

    testcontainers_config.ryuk_disabled = True
    address = get_docker_host() or "unix:///var/run/docker.sock"
    if address.startswith("unix://") and not Path(address.removeprefix("unix://")).exists():
        named = f"{address}: there is no such socket" if os.environ.get("DOCKER_HOST") else ""
        raise NoContainersError(named)
    try:
        client = DockerClient(timeout=ANSWERS_WITHIN_S)  # asks for its version
        here = client.get_connection_mode() is ConnectionMode.docker_host
    except Exception as error:
        raise NoContainersError(f"{address} does not answer: {_one_line(error)}") from error
    return Engine(client, address, near=here and client.host() in ("localhost", "127.0.0.1"))


def broker_environment() -> dict[str, str]:
    """Returns the settings of the embedded broker as the image's variables, with listeners of its own."""
    data = Path("/var/lib/kafka/data")
    lines = server_properties(data, KAFKA_PORT, 9093, PATIENT_SESSION_MS).splitlines()
    settings = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    settings |= {
        "listeners": f"PLAINTEXT://:{KAFKA_PORT},INSIDE://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    del settings["advertised.listeners"]
    variables = {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in settings.items()}
    return {**variables, "KAFKA_HEAP_OPTS": HEAP, "KAFKA_JVM_PERFORMANCE_OPTS": FAST_START}


def remove(run: Path) -> None:
    """Removes the containers of a run, with their volumes."""
    from testcontainers.core.docker_client import DockerClient

    with suppress(Exception):  # an engine that is gone has nothing to remove
        client = DockerClient(timeout=SILENT_AT_MOST_S).client
        # Not `containers.list`, which asks for each one again and fails where another removes it meanwhile.
        for container in client.api.containers(all=True, filters={"label": f"{LABEL}={run.name}"}):
            with suppress(Exception):  # go on with the next one
                client.api.remove_container(container["Id"], force=True, v=True)
        client.close()


def _pull(engine: Engine, image: str, by: float) -> None:
    from docker.errors import ImageNotFound
    from testcontainers.core.docker_client import DockerClient

    with suppress(ImageNotFound):
        engine.client.client.images.get(image)
        return
    name, tag = image.rsplit(":", 1)
    patient = DockerClient(timeout=SILENT_AT_MOST_S).client
    try:
        for line in patient.api.pull(name, tag=tag, stream=True, decode=True):
            if "error" in line:
                raise NoContainersError(f"{image} can't be pulled: {line['error']}")
            if time.monotonic() > by:
                raise NoContainersError(
                    f"{image} took over {READY_WITHIN_S} s to pull: pull it by hand, once"
                )
    except NoContainersError:
        raise
    except Exception as error:
        raise NoContainersError(f"{image} can't be pulled: {_one_line(error)}") from error
    finally:
        patient.close()


def _start_kafka(engine: Engine, run: Path) -> Any:
    kafka = _container(engine, run, KAFKA_IMAGE, KAFKA_PORT).with_envs(**broker_environment())
    kafka.with_command(["bash", "-c", START_KAFKA]).start()
    advertised = f"PLAINTEXT://{_address(engine, kafka, KAFKA_PORT)},INSIDE://127.0.0.1:9094"
    said = f"echo export KAFKA_ADVERTISED_LISTENERS={advertised} >{ADDRESS}.new && mv {ADDRESS}.new {ADDRESS}"
    kafka.exec(["bash", "-c", said])
    return kafka


def _kafka(engine: Engine, kafka: Any, by: float) -> str:
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    _wait(kafka, LogMessageWaitStrategy("Kafka Server started"), by)
    return _address(engine, kafka, KAFKA_PORT)


def _start_postgres(engine: Engine, run: Path) -> Any:
    postgres = _container(engine, run, POSTGRES_IMAGE, POSTGRES_PORT).with_envs(**POSTGRES_ENVIRONMENT)
    settings = [f"--{name}={value}" for name, value in POSTGRES_SETTINGS.items()]
    return postgres.with_command(["postgres", *settings]).start()


def _postgres(engine: Engine, postgres: Any, by: float) -> str:
    from testcontainers.core.wait_strategies import ExecWaitStrategy

    # By TCP: while the image sets its database up, a first server answers on its Unix socket only.
    _wait(postgres, ExecWaitStrategy(["pg_isready", "-h", "127.0.0.1"]), by)
    return f"postgresql://trackside:trackside@{_address(engine, postgres, POSTGRES_PORT)}/trackside"


def _wait(container: Any, strategy: Any, by: float) -> None:
    strategy.with_poll_interval(0.2).with_startup_timeout(max(1, int(by - time.monotonic())))
    strategy.wait_until_ready(container)


def _container(engine: Engine, run: Path, image: str, port: int) -> Any:
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(image, docker_client_kw={"timeout": SILENT_AT_MOST_S})
    container.with_kwargs(labels={LABEL: run.name})
    container.with_exposed_ports(port)
    if engine.near:
        container.ports[str(port)] = ("127.0.0.1",)  # nobody else's to connect to
    return container


def _address(engine: Engine, container: Any, port: int) -> str:
    host = "127.0.0.1" if engine.near else container.get_container_host_ip()
    return f"{host}:{container.get_exposed_port(port)}"


def _one_line(error: BaseException) -> str:
    said = getattr(error, "explanation", None) or str(error) or type(error).__name__
    return re.sub(r"\s+", " ", said)[:300]


def _remove_at_the_end(run: Path) -> None:
    (run / MARK).touch()
    subprocess.run([sys.executable, "-m", __name__, str(run)], cwd=ROOT, stdin=subprocess.DEVNULL, check=True)


def _main(run: Path) -> None:
    leash = open_leash(str(run / "leash"))
    assert leash is not None
    if os.fork():
        return
    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(quiet, stream)
    while not is_cut(leash):
        select.select([leash], [], [])
    remove(run)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
