"""A console in a process of its own, what a client of it reads, and how much memory it has."""

import os
import socket
import subprocess
import sys
from asyncio import sleep
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.measurements import MissingError
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s

LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class RunningConsole:
    """A console that answers: its address without a slash at the end, and its process."""

    address: str
    pid: int

    @property
    def resident_bytes(self) -> int:
        """Its resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Answered:
    """What a request took until its first and until its last byte, ms, and the bytes of its body."""

    first_ms: float
    whole_ms: float
    size: int


def console_of(stack: Stack) -> RunningConsole:
    """Returns the console of a stack; raises MissingError if it has none that runs."""
    address, pid = stack.console_url, stack.pid("console")
    if address is None or pid is None:
        raise MissingError("the stack has no console that runs")
    return RunningConsole(address.rstrip("/"), pid)


@asynccontextmanager
async def console_on(stack: Stack, dsn: str) -> AsyncIterator[RunningConsole]:
    """Runs a console on other read models than those of the stack while the block runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    variables = {
        **os.environ,
        "TRACKSIDE_KAFKA_BOOTSTRAP": stack.bootstrap_servers,
        "TRACKSIDE_POSTGRES_DSN": dsn,
        "TRACKSIDE_CONSOLE_PORT": str(port),
    }
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-m", "trackside.console"], env=variables, stderr=subprocess.DEVNULL
    )
    try:
        running = RunningConsole(f"http://127.0.0.1:{port}", process.pid)
        await _answers(running, process)
        yield running
        process.terminate()
        process.wait(LIMIT_S)
    finally:
        process.kill()
        process.wait()


async def _answers(running: RunningConsole, process: "subprocess.Popen[bytes]") -> None:
    """Waits until a console answers; raises MissingError if it ends or takes too long."""
    until_s = monotonic_s() + LIMIT_S
    async with aiohttp.ClientSession() as client:
        while monotonic_s() < until_s and process.poll() is None:
            try:
                async with client.get(f"{running.address}/static/") as answer:
                    await answer.read()
                return
            except aiohttp.ClientError:
                await sleep(0.05)
    raise MissingError("the console has not answered")


async def ask(client: aiohttp.ClientSession, address: str) -> Answered:
    """Asks for an address; raises MissingError if the answer is an error."""
    began_s = monotonic_s()
    async with client.get(address) as answer:
        first = await answer.content.readany()
        first_s = monotonic_s()
        rest = await answer.content.read()
        if answer.status != 200:
            raise MissingError(f"{address}: {answer.status} {(first + rest)[-300:]!r}")
    return Answered(1000 * (first_s - began_s), 1000 * (monotonic_s() - began_s), len(first) + len(rest))


async def events(client: aiohttp.ClientSession, address: str, page: str) -> AsyncIterator[tuple[str, str]]:
    """Yields the name and the data of each event that is pushed to an open page."""
    limit = aiohttp.ClientTimeout(total=None)
    async with client.get(f"{address}/live", params={"page": page}, timeout=limit) as answer:
        if answer.status != 200:
            raise MissingError(f"/live of {page}: {answer.status} {await answer.text()}")
        waiting = b""
        async for part, _ in answer.content.iter_chunks():
            *whole, waiting = (waiting + part).split(b"\n\n")
            for event in whole:
                lines = event.decode().split("\n")
                name = next((each[7:] for each in lines if each.startswith("event: ")), "")
                if name:
                    yield name, "\n".join(each[6:] for each in lines if each.startswith("data: "))
    raise MissingError(f"the console has closed the stream of {page}")
