"""A broker that takes a connection and then falls silent: whoever gives up on it leaves nothing open."""

import asyncio
import gc
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from trackside.eventlog.errors import PreflightError, TransientError
from trackside.eventlog.kafka import kafka_log as kafka
from trackside.eventlog.kafka.kafka_log import KafkaLog

VERSIONS = (3, 18)
"""The requests that this broker knows: one for the topics, and the one that asks for this list."""


class SilentBroker:
    """Returns which requests it knows, and answers none of the others."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listed = b"".join(struct.pack(">hhh", key, 0, 0) for key in VERSIONS)
        try:
            correlation = (await _request(reader))[4:8]
            answer = correlation + struct.pack(">hi", 0, len(VERSIONS)) + listed
            writer.write(struct.pack(">i", len(answer)) + answer)
            await _request(reader)
            self.asked.set()
            await reader.read()
        finally:
            self.left.set()
            writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[SilentBroker, str]]:
    broker = SilentBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with server:
        yield broker, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_who_is_told_to_stop_while_a_broker_is_silent_closes_the_connection() -> None:
    async with silent() as (broker, bootstrap), KafkaLog(bootstrap, "test") as log, asyncio.timeout(60):
        asking = asyncio.create_task(log.ends("events"))
        await broker.asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        del asking
        gc.collect()  # would tell of a connection that nobody closed
        await broker.left.wait()


async def test_who_loses_patience_with_a_silent_broker_hangs_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "ANSWER_S", 0.2)
    async with silent() as (broker, bootstrap), KafkaLog(bootstrap, "test") as log, asyncio.timeout(60):
        with pytest.raises(TransientError):
            await log.ends("events")
        with pytest.raises((TransientError, PreflightError)):
            await log.preflight([])
        gc.collect()
        await broker.left.wait()
