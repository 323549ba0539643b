"""The stack that alerts are tested on: scraped, with connections that are disturbed and a disk to fill."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.chaos.alerts.prometheus import Prometheus, prometheus
from tests.chaos.proxy import PlainProxy, Proxy
from tests.full_disk import public_folder
from tests.small_disk import SmallDisk, small_disk
from tests.stack import Servers
from trackside.aggregates.search.messages import SearchSpec, StartSearch, Tuner
from trackside.aggregates.search.space.space import Uniform
from trackside.cli.commands import stack_process
from trackside.contracts.envelope.topics import Topics
from trackside.embedded import stack
from trackside.embedded.options import ServiceSpec, StackOptions
from trackside.embedded.ports import HOST, free_ports
from trackside.embedded.stack import Stack
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.sdk import Client
from trackside.sdk.connection.publication import Accepted

SLOTS = 2
DISK = "1g"
SETTINGS = {
    "TRACKSIDE_SCHEDULER_LEASE_S": "4",
    "TRACKSIDE_SCHEDULER_HEARTBEAT_S": "0.5",
    "TRACKSIDE_WORKER_HEARTBEAT_INTERVAL_S": "0.5",
    "TRACKSIDE_WORKER_PRELOAD": "",
}
"""A lease as short as a busy machine permits."""
SECOND = "second"
"""The name of a second instance of a service, which some faults start."""
RANDOM = Tuner(name="random")


@dataclass
class Installation:
    """A stack, what disturbs it, what watches it, and a client of it that is not disturbed."""

    running: Stack
    disk: SmallDisk
    to_dispatcher: Proxy
    to_scheduler: Proxy
    to_postgres: PlainProxy
    watched_by: Prometheus
    topics: Topics
    log: KafkaLog
    client: Client
    variables: Mapping[str, str]
    second_port: int

    def pid(self, name: str) -> int:
        """Returns the pid of a process that runs."""
        found = self.running.pid(name)
        assert found is not None
        return found

    async def start_search(
        self, search_id: str, trials: int, seconds: float, concurrency: int, tuner: Tuner = RANDOM
    ) -> None:
        """Starts a search of trials that work for so long."""
        spec = SearchSpec(
            task_type="working",
            space={"seconds": Uniform(type="uniform", low=seconds, high=1.2 * seconds)},
            tuner=tuner,
            max_trials=trials,
            concurrency=concurrency,
            seed=1,
        )
        published = await self.client.publish(StartSearch(**spec.model_dump()), search_id)
        assert isinstance(await self.client.answer(published), Accepted)

    async def command(self, *arguments: str) -> str:
        """Runs a command of `trackside` in the folder of the stack; it must succeed. Returns its output."""
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("trackside")),
            *arguments,
            cwd=self.running.folder.parent,
            env={**os.environ, **self.variables},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        return output.decode()


@asynccontextmanager
async def installation(
    servers: Servers, dsn: str, prefix: str, leash: Path, minute_s: float
) -> AsyncIterator[Installation]:
    """Starts a stack on a small disk, with proxies before Kafka and Postgres, and a Prometheus."""
    kafka_port, postgres_port = (
        int(servers.kafka_bootstrap.rpartition(":")[2]),
        urlsplit(dsn).port or 5432,
    )
    ports = free_ports(4)
    with (
        public_folder() as public,
        small_disk(public / ".trackside", DISK) as disk,
        Proxy(ports[0], lambda: kafka_port) as to_dispatcher,
        Proxy(ports[1], lambda: kafka_port) as to_scheduler,
        PlainProxy(ports[2], lambda: postgres_port) as to_postgres,
        _stack(
            disk.folder,
            leash,
            servers.kafka_bootstrap,
            dsn,
            prefix,
            _disturbed(to_dispatcher, to_scheduler, _through(dsn, to_postgres)),
        ) as running,
        prometheus(public / "prometheus", {**_health_ports(running), SECOND: ports[3]}, minute_s) as watching,
    ):
        topics = Topics(prefix=prefix)
        async with (
            KafkaLog(servers.kafka_bootstrap, client_id="alerts") as log,
            Client(servers.kafka_bootstrap, prefix, name="alerts") as client,
        ):
            variables = _addresses(servers.kafka_bootstrap, dsn, prefix)
            yield Installation(
                running,
                disk,
                to_dispatcher,
                to_scheduler,
                to_postgres,
                watching,
                topics,
                log,
                client,
                variables,
                ports[3],
            )


def _addresses(bootstrap: str, dsn: str, prefix: str) -> dict[str, str]:
    return {
        "TRACKSIDE_KAFKA_BOOTSTRAP": bootstrap,
        "TRACKSIDE_POSTGRES_DSN": dsn,
        "TRACKSIDE_TOPIC_PREFIX": prefix,
    }


def _through(dsn: str, proxy: Proxy) -> str:
    parts = urlsplit(dsn)
    login = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{login}@{HOST}:{proxy.port}"))


def _disturbed(to_dispatcher: Proxy, to_scheduler: Proxy, dsn: str) -> dict[str, dict[str, str]]:
    """Returns the addresses of the services whose connections are disturbed."""
    return {
        "dispatcher": {
            "TRACKSIDE_KAFKA_BOOTSTRAP": to_dispatcher.address,
            "TRACKSIDE_POSTGRES_DSN": dsn,
        },
        "scheduler": {"TRACKSIDE_KAFKA_BOOTSTRAP": to_scheduler.address},
        "summary-indexer": {"TRACKSIDE_POSTGRES_DSN": dsn},
    }


@contextmanager
def _stack(
    folder: Path, leash: Path, bootstrap: str, dsn: str, prefix: str, own: Mapping[str, Mapping[str, str]]
) -> Iterator[Stack]:
    listed: Sequence[ServiceSpec] = [
        ServiceSpec(each.name, env={**each.env, **own.get(each.name, {})})
        for each in stack_process.services(folder, Path(__file__).with_name("catalogue.yaml"), SLOTS)
    ]
    options = StackOptions(
        listed,
        setup=stack_process.SETUP,
        env={**SETTINGS, "TRACKSIDE_TOPIC_PREFIX": prefix},
        bootstrap_servers=bootstrap,
        postgres_dsn=dsn,
        leash=leash,
        timeout_s=240,
    )
    running = stack.start(folder, options)
    try:
        yield running
    finally:
        stack.stop(folder)


def _health_ports(running: Stack) -> dict[str, int]:
    processes = running.status.processes.values()
    return {each.name: each.health_port for each in processes if each.health_port}
