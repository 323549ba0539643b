"""Names a server that does not answer while a command waits for it, long before the command gives up."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trackside.eventlog.settings.kafka_settings import KafkaSettings

FIRST_S = 0.2
"""A command that is done within so many seconds asks nobody else."""
WITHIN_S = 0.8
_watching: dict[str, "asyncio.Task[None]"] = {}


def watch_kafka(kafka: "KafkaSettings") -> None:
    """Writes on standard error if Kafka has not answered after a second, while a command waits for it."""
    _watch("kafka", lambda: _ask_kafka(kafka))


def watch_postgres(dsn: str) -> None:
    """Writes on standard error if Postgres has not let us in after a second, likewise."""
    _watch("postgres", lambda: _ask_postgres(dsn))


async def _ask_kafka(kafka: "KafkaSettings") -> None:
    from trackside.eventlog.kafka.kafka_probe import ask_kafka
    from trackside.eventlog.reachability import report_until_reachable

    server = f"Kafka at {kafka.kafka_bootstrap}"
    await report_until_reachable(server, lambda: ask_kafka(kafka), _say, WITHIN_S)


async def _ask_postgres(dsn: str) -> None:
    from trackside.projections.database.postgres import report_until_postgres_is_reachable

    await report_until_postgres_is_reachable(dsn, _say, WITHIN_S)


def _watch(server: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    known = _watching.get(server)
    if known is None or known.get_loop() is not loop:
        _watching[server] = loop.create_task(_after_a_moment(work))  # asyncio.run cancels it at the end


async def _after_a_moment(work: Callable[[], Coroutine[None, None, None]]) -> None:
    await asyncio.sleep(FIRST_S)
    await work()


def _say(sentence: str) -> None:
    sys.stderr.write(f"trackside: {sentence}\n")
