"""Reads the alerts that fire from Prometheus, in the background: no page waits for it.

See https://prometheus.io/docs/prometheus/latest/querying/api/#alerts.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from trackside.console.live.hub import Hub
from trackside.console.web.page import Alert

EVERY_S = 15.0
LIMIT_S = 5.0
MAX_BYTES = 4_000_000
MOST = 100
"""How many alerts are kept; pages say how many fire."""


async def watch_alerts(hub: Hub, address: str, every_s: float = EVERY_S) -> None:
    """Reads the alerts of a Prometheus again and again, until cancelled."""
    limit = aiohttp.ClientTimeout(total=LIMIT_S)
    async with aiohttp.ClientSession(timeout=limit) as client:
        while True:
            before = replace(hub.alerts)
            try:
                hub.alerts.firing = await _firing(client, address)
                hub.alerts.problem = ""
            except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
                # What fired is not known any more: an old alert would look like one of now.
                hub.alerts.firing = ()
                reason = type(error).__name__ if isinstance(error, TimeoutError) else str(error)
                hub.alerts.problem = f"Prometheus at {address} does not answer: {reason[:200]}"
            hub.alerts.is_read = True
            if hub.alerts != before:
                hub.publish(frozenset())
            await asyncio.sleep(every_s)


async def _firing(client: aiohttp.ClientSession, address: str) -> tuple[Alert, ...]:
    async with client.get(f"{address}/api/v1/alerts", allow_redirects=False) as answer:
        if answer.status != 200:
            raise ValueError(f"it answered {answer.status} to /api/v1/alerts")
        if (answer.content_length or 0) > MAX_BYTES:
            raise ValueError("its answer is too long")
        body = await answer.json(content_type=None)
    found = [_alert(each) for each in body["data"]["alerts"] if each["state"] == "firing"]
    return tuple(sorted(found, key=lambda each: (each.since, each.name), reverse=True)[:MOST])


def _alert(given: Mapping[str, Any]) -> Alert:
    labels, annotations = given["labels"], given.get("annotations", {})
    runbook = str(annotations.get("runbook_url", ""))
    return Alert(
        name=str(labels["alertname"]),
        severity=str(labels.get("severity", "")),
        summary=str(annotations.get("summary") or annotations.get("description") or ""),
        since=datetime.fromisoformat(_whole_us(str(given["activeAt"]))),
        runbook=runbook if urlsplit(runbook).scheme in ("http", "https") else "",
        runbook_text=runbook,
    )


def _whole_us(text: str) -> str:
    """Returns a time of RFC 3339 with at most 6 digits of a second: Prometheus writes 9."""
    whole, dot, rest = text.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return f"{whole}.{rest[:digits][:6].ljust(6, '0')}{rest[digits:]}" if dot else text
