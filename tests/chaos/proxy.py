"""A proxy between services and the broker that delays or holds back requests, and cuts connections.

It runs in its own thread. The broker returns its address to clients that ask for the brokers; the proxy
replaces the port in it by its own, so that clients keep using the proxy. `PlainProxy` is one to any server.
"""

import asyncio
import re
import struct
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Self

from tests.polling import elapse
from trackside.embedded.ports import HOST

CHUNK_BYTES = 65_536
_SIZE = struct.Struct(">i")
_KEY = struct.Struct(">h")
_PRODUCE, _FETCH = 0, 1
"""The keys with which requests to append and to read begin."""
_LISTENS = re.compile(r"^listeners=PLAINTEXT://[^:]+:(\d+)", re.MULTILINE)


def port_of_broker(folder: Path) -> int:
    """Returns the port of the broker of a stack."""
    found = _LISTENS.search((folder / "kafka" / "server.properties").read_text("utf-8"))
    assert found is not None
    return int(found[1])


class Proxy:
    """Listens on a port while the block runs; `upstream` returns the broker's port."""

    def __init__(self, port: int, upstream: Callable[[], int]) -> None:
        self.port = port
        self._upstream = upstream
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._flows: asyncio.Event | None = None
        self._passes: dict[int, asyncio.Event] = {}
        self._append_delay_s = 0.0
        self._refuses = False
        self._connections: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """The address to connect to."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def cut(self) -> None:
        """Ends all connections at once, with whatever is in flight."""
        self._loop.call_soon_threadsafe(self._cut)

    def refuse(self) -> None:
        """Ends all connections, and each new one at once."""
        self._refuses = True
        self.cut()

    def accept(self) -> None:
        """Accepts connections again."""
        self._refuses = False

    def hold(self) -> None:
        """Holds all data back, in both directions; connections stay open."""
        self._loop.call_soon_threadsafe(self._set, self._flows, False)

    def flow(self) -> None:
        """Passes the data that was held back, in order, and all further data."""
        self._loop.call_soon_threadsafe(self._set, self._flows, True)

    def hold_appends(self) -> None:
        """Holds requests to append back, and what follows on their connections; reading continues."""
        self._loop.call_soon_threadsafe(self._set, self._passes[_PRODUCE], False)

    def pass_appends(self) -> None:
        """Passes the requests to append that were held back."""
        self._loop.call_soon_threadsafe(self._set, self._passes[_PRODUCE], True)

    def hold_reads(self) -> None:
        """Holds requests to read back, and what follows on their connections; other requests are answered."""
        self._loop.call_soon_threadsafe(self._set, self._passes[_FETCH], False)

    def pass_reads(self) -> None:
        """Passes the requests to read that were held back."""
        self._loop.call_soon_threadsafe(self._set, self._passes[_FETCH], True)

    def slow_appends(self, delay_s: float) -> None:
        """Passes each request to append so many seconds late; 0: at once."""
        self._append_delay_s = delay_s

    async def _listen(self) -> None:
        self._flows = asyncio.Event()
        self._passes = {_PRODUCE: asyncio.Event(), _FETCH: asyncio.Event()}
        for each in (self._flows, *self._passes.values()):
            each.set()
        self._server = await asyncio.start_server(self._accepted, HOST, self.port)

    async def _end(self) -> None:
        assert self._server is not None
        # asyncio leaves a connection open that it accepted just before its server was closed, or whose task
        # is cancelled before it began: nothing is accepted from now on, and what was accepted is waited for.
        self._loop.remove_reader(self._server.sockets[0])
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._serving:
                task.cancel()
            await asyncio.wait(tasks)
        self._server.close()
        self._cut()
        await asyncio.sleep(0)  # the sockets of aborted connections are closed in the next turn of the loop

    def _cut(self) -> None:
        for writer in list(self._connections):
            writer.transport.abort()

    def _set(self, gate: asyncio.Event | None, is_open: bool) -> None:
        assert gate is not None
        if is_open:
            gate.set()
        else:
            gate.clear()

    def _accepted(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Registers a connection as soon as it is there: a task that is cancelled before it runs can't."""
        self._connections.add(to_client)
        task = self._loop.create_task(self._serve(client, to_client))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        writers = [to_client]
        try:
            if self._refuses:
                return
            broker, to_broker = await asyncio.open_connection(HOST, self._upstream())
            writers.append(to_broker)
            self._connections.add(to_broker)
            pumps = [
                asyncio.create_task(self._ask(client, to_broker)),
                asyncio.create_task(self._answer(broker, to_client)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # the broker is down: the client sees a connection that ends at once
        finally:
            for writer in writers:
                self._connections.discard(writer)
                writer.transport.abort()

    async def _ask(self, client: asyncio.StreamReader, to_broker: asyncio.StreamWriter) -> None:
        assert self._flows is not None
        while True:
            size = await client.readexactly(_SIZE.size)
            request = await client.readexactly(*_SIZE.unpack(size))
            (key,) = _KEY.unpack_from(request)
            if key == _PRODUCE:
                await elapse(self._append_delay_s)
            if key in self._passes and not self._passes[key].is_set():
                await self._passes[key].wait()
            await self._flows.wait()
            to_broker.write(size + request)
            await to_broker.drain()

    async def _answer(self, broker: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        assert self._flows is not None
        theirs, ours = (HOST.encode() + _SIZE.pack(port) for port in (self._upstream(), self.port))
        while True:
            size = await broker.readexactly(_SIZE.size)
            octets = await broker.readexactly(*_SIZE.unpack(size))
            await self._flows.wait()
            to_client.write(size + octets.replace(theirs, ours))
            await to_client.drain()


class PlainProxy(Proxy):
    """A proxy to a server of any protocol: it passes what it reads, unless it refuses connections."""

    async def _ask(self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        while octets := await client.read(CHUNK_BYTES):
            to_server.write(octets)
            await to_server.drain()

    async def _answer(self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        await self._ask(server, to_client)
