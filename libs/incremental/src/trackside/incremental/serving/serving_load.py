"""Loads an inference service with clients, and measures each answer."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import aiohttp

from trackside.eventlog.clock import monotonic_s


class TimedAnswer(NamedTuple):
    """An answer to a client: when its request began (s, monotonic), how long it took, and what it is."""

    began_s: float
    seconds: float
    status: int
    inputs: Any
    body: dict[str, Any]
    sha256: str
    """The digest that its header has."""


async def load_service(
    address: str, clients: int, inputs: Callable[[int], Any], is_over: Callable[[], bool]
) -> list[TimedAnswer]:
    """Makes each of `clients` send one request after another, until it is over; returns all answers.

    `inputs` gives those of the nth request. Raises aiohttp.ClientError if a connection is lost.
    """
    found: list[TimedAnswer] = []

    async def run() -> None:
        while not is_over():
            asked = inputs(len(found))
            began_s = monotonic_s()
            async with session.post(f"{address}/predict", json={"inputs": asked}) as response:
                content = await response.read()
                took_s = monotonic_s() - began_s
                digest = response.headers.get("Trackside-Model-Sha256", "")
                found.append(
                    TimedAnswer(began_s, took_s, response.status, asked, json.loads(content), digest)
                )

    connector = aiohttp.TCPConnector(limit=clients)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(run())
    return found
