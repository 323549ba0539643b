"""An installation that runs: dispatcher, scheduler and a worker as processes, and the command line to it."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.service_processes import ServiceProcess, service_process
from tests.stack import Servers
from trackside.cli.setup import prepare
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.fleet.fleet import WorkerJoined
from trackside.domain.streams.stream import Stream
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk.client import Client

E = TypeVar("E", bound=Event)
NOOP = Path("deploy/examples/noop/catalogue.yaml").absolute()


def variables_of(settings: StackSettings) -> dict[str, str]:
    """Returns the environment that finds an installation."""
    return {
        "TRACKSIDE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "TRACKSIDE_POSTGRES_DSN": settings.postgres_dsn,
        "TRACKSIDE_TOPIC_PREFIX": settings.topic_prefix,
    }


def prepared(stack: Servers, database: str) -> StackSettings:
    """Returns an installation without services: its own topics, and its tables in an empty database."""
    settings = StackSettings(
        kafka_bootstrap=stack.kafka_bootstrap,
        postgres_dsn=database,
        topic_prefix=f"t{secrets.token_hex(4)}.",
    )
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, prepare(settings)).result()
    return settings


@contextmanager
def installation(
    stack: Servers, database: str, folder: Path, catalogue: Path = NOOP
) -> Iterator[StackSettings]:
    """Starts the services over a prefix and a database, gives where they are, and ends them."""
    with processes(stack, database, folder, catalogue) as (settings, _):
        yield settings


@contextmanager
def processes(
    stack: Servers, database: str, folder: Path, catalogue: Path = NOOP, **of_worker: str
) -> Iterator[tuple[StackSettings, Mapping[str, ServiceProcess]]]:
    """Runs an installation as `installation` does, and gives its processes by name too."""
    with processes_at(stack, database, folder, catalogue, {}, **of_worker) as running:
        yield running


@contextmanager
def processes_at(
    stack: Servers, database: str, folder: Path, catalogue: Path, ports: Mapping[str, int], **more: str
) -> Iterator[tuple[StackSettings, Mapping[str, ServiceProcess]]]:
    """Runs an installation whose services serve their health at these ports, by name; 0 if none is given."""
    settings = prepared(stack, database)
    variables = {
        **variables_of(settings),
        "TRACKSIDE_WORKER_ID": "w1",
        "TRACKSIDE_WORKER_CATALOGUE": str(catalogue),
        "TRACKSIDE_WORKER_CPU_SLOTS": "2",
        "TRACKSIDE_WORKER_DATA_DIR": str(folder / "w1"),
        "TRACKSIDE_WORKER_PRELOAD": "",
        **more,
    }
    with ExitStack() as running:
        started = {
            name: running.enter_context(
                service_process(name, {**variables, "TRACKSIDE_HEALTH_PORT": str(ports.get(name, 0))}, folder)
            )
            for name in ("dispatcher", "scheduler", "worker")
        }
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, worker_has_joined(settings)).result(300)
        yield settings, started


async def changes(
    settings: StackSettings, stream_id: str, within_s: float = 120
) -> AsyncGenerator[tuple[Record, Stream], None]:
    """Returns each event of a stream with the state it led to, for at most `within_s`."""
    async with (
        asyncio.timeout(within_s),
        Client(settings.kafka_bootstrap, settings.topic_prefix) as client,
        aclosing(client.follow(stream_id)) as followed,
    ):
        async for record, stream in followed:
            yield record, stream


async def event_of(
    settings: StackSettings, stream_id: str, kind: type[E], so: Callable[[E], bool] = lambda _: True
) -> E:
    """Waits for the first event of a stream that is of this kind and so, and returns it."""
    async with aclosing(changes(settings, stream_id)) as followed:
        async for record, _ in followed:
            if isinstance(record.message, kind) and so(record.message):
                return record.message
    raise AssertionError(f"stream {stream_id} is over")


async def worker_has_joined(settings: StackSettings) -> None:
    """Waits until the worker is in the log: a search of an unknown task type is refused."""
    async with KafkaLog(settings.kafka_bootstrap, "test") as log:
        reader = log.reader({(settings.topics.fleet.name, 0): 0})
        while True:
            entries = await reader.read(1.0)
            if any(isinstance(r.message, WorkerJoined) for e in entries if (r := decode(e)) is not None):
                return
