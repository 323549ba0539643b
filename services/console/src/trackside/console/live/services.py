"""Asks the services whether they are ready, so that open pages say when one is down or waits."""

import asyncio
import json
from collections.abc import Mapping

import aiohttp

from trackside.console.live.hub import Hub

EVERY_S = 1.0
LIMIT_S = 2.0
MISSES = 2
"""How often in a row a service does not answer before pages say so: once may be its restart."""


async def ask_services(hub: Hub, addresses: Mapping[str, str]) -> None:
    """Asks each service at its `/ready` once a second while pages are open, until cancelled."""
    limit = aiohttp.ClientTimeout(total=LIMIT_S)
    async with aiohttp.ClientSession(timeout=limit) as client, asyncio.TaskGroup() as group:
        for name, address in addresses.items():
            group.create_task(_ask(hub, client, name, address))


async def _ask(hub: Hub, client: aiohttp.ClientSession, name: str, address: str) -> None:
    misses = 0
    while True:
        problem = ""
        try:
            async with client.get(f"{address}/ready") as answer:
                if answer.status != 200:
                    problem = f"The {name} waits: {_reason(await answer.text())}"
            misses = 0
        except (aiohttp.ClientError, TimeoutError):
            misses += 1
            if misses >= MISSES:
                problem = f"The {name} does not answer; what it does waits until it is back"
        hub.state(name, problem)
        await hub.pause(EVERY_S)


def _reason(body: str) -> str:
    try:
        return str(json.loads(body)["waiting"] or "it starts")[:300]
    except (ValueError, KeyError, TypeError):
        return "it starts"
