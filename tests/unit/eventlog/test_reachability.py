import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka.errors import KafkaConnectionError

from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import error_text
from trackside.eventlog.kafka.kafka_probe import ask_kafka
from trackside.eventlog.reachability import WITHIN_S, report_until_reachable
from trackside.projections.database.postgres import address_of, report_until_postgres_is_reachable

CLOSED = "127.0.0.1:1"


@asynccontextmanager
async def answering(said: bytes = b"") -> AsyncIterator[str]:

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def first_sentence(server: str, address: str) -> tuple[str, float]:
    said: asyncio.Queue[str] = asyncio.Queue()
    began_s = monotonic_s()
    if server == "Kafka":
        work = report_until_reachable(f"Kafka at {address}", lambda: ask_kafka(address), said.put_nowait)
    else:
        work = report_until_postgres_is_reachable(f"postgresql://me:hunter2@{address}/here", said.put_nowait)
    saying = asyncio.create_task(work)
    sentence = await asyncio.wait_for(said.get(), 60)
    saying.cancel()
    return sentence, monotonic_s() - began_s


@pytest.mark.thorough
@pytest.mark.parametrize("server", ["Kafka", "Postgres"])
async def test_a_closed_port_and_a_silent_server_are_named_with_the_address(server: str) -> None:
    assert WITHIN_S < 1.5
    sentence, _ = await first_sentence(server, CLOSED)
    assert sentence.startswith(f"no {server} at {CLOSED}") and "hunter2" not in sentence
    assert sentence.endswith("; still trying")
    async with answering() as address:
        sentence, took_s = await first_sentence(server, address)
    assert sentence.startswith(f"no {server} at {address}") and "no answer" in sentence
    assert WITHIN_S <= took_s < 30


async def test_a_server_of_another_kind_is_not_taken_for_kafka() -> None:
    async with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        sentence, _ = await first_sentence("Kafka", address)
    assert sentence == f"no Kafka at {address}: what answers there is not Kafka; still trying"


async def test_an_address_that_is_none_and_a_dsn_that_is_none_are_named() -> None:
    assert "'kafka' is not a host:port" in (await first_sentence("Kafka", "kafka"))[0]
    assert address_of("postgresql://me:hunter2@db.example:6000/here") == "db.example:6000/here"
    assert address_of("postgresql://me:pass/word@db/here") == "the address in TRACKSIDE_POSTGRES_DSN"


def test_an_error_without_a_text_is_still_told() -> None:
    assert error_text(TimeoutError()) == "no answer in time"
    assert error_text(OSError()) == "OSError"
    assert error_text(KafkaConnectionError("no broker")) == "KafkaConnectionError: no broker"
