"""Scrapes services as Prometheus does, and adds up by how much their counters have increased."""

import asyncio
import json
import os
import subprocess
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from prometheus_client.parser import text_string_to_metric_families

from tests.polling import elapse

EVERY_S = 0.5
Series = tuple[str, tuple[tuple[str, str], ...]]


class Watcher(Protocol):
    """What scrapes the services, and knows by how much each counter has increased over restarts."""

    async def scrapes(self) -> int:
        """Returns how often each target was scraped, by the most seldom scraped one."""
        ...

    async def has_scraped(self, times: int) -> bool:
        """Returns whether each target was scraped so often."""
        ...

    async def increase(self, name: str, label: str = "") -> dict[str, int]:
        """Returns the increase of a counter by the values of a label, without those that stayed at 0."""
        ...


class Scraper:
    """Adds up the increases of counters over all targets; a counter that falls began again at 0."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._increases: dict[Series, float] = {}
        self._scrapes: Counter[str] = Counter()
        self._ports = ports
        self._last: dict[tuple[str, Series], float] = {}

    async def run(self) -> None:
        """Scrapes until it is cancelled."""
        while True:
            await asyncio.gather(*map(self._scrape, self._ports))
            await elapse(EVERY_S)

    async def scrapes(self) -> int:
        """Returns how often each target was scraped, by the most seldom scraped one."""
        return min(self._scrapes[target] for target in self._ports)

    async def has_scraped(self, times: int) -> bool:
        """Returns whether each target was scraped so often."""
        return await self.scrapes() >= times

    async def increase(self, name: str, label: str = "") -> dict[str, int]:
        """Returns the increase of a counter by the values of a label, without those that stayed at 0."""
        found: Counter[str] = Counter()
        for (series, labels), value in self._increases.items():
            if series == name and value:
                found[dict(labels).get(label, "")] += round(value)
        return dict(found)

    async def _scrape(self, target: str) -> None:
        try:
            text = await asyncio.to_thread(_read, f"http://127.0.0.1:{self._ports[target]}/metrics")
        except OSError:
            return  # it is down
        self._scrapes[target] += 1
        for family in text_string_to_metric_families(text):
            for sample in family.samples if family.type == "counter" else ():
                series = (sample.name, tuple(sorted(sample.labels.items())))
                before = self._last.get((target, series), sample.value)
                rise = sample.value - before
                more = rise if rise >= 0 else sample.value
                self._increases[series] = self._increases.get(series, 0.0) + more
                self._last[target, series] = sample.value


async def values(port: int) -> dict[str, list[float]]:
    """Returns what a service shows now: the values of all series of a name."""
    text = await asyncio.to_thread(_read, f"http://127.0.0.1:{port}/metrics")
    found: dict[str, list[float]] = defaultdict(list)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name].append(sample.value)
    return found


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        body: bytes = answer.read()
    return body.decode()


class Prometheus:
    """A Prometheus that scrapes the targets."""

    def __init__(self, port: int, targets: int) -> None:
        self._port, self._targets = port, targets

    async def scrapes(self) -> int:
        """Returns how often each target was scraped, by the most seldom scraped one."""
        try:
            found = await self._query("count_over_time(trackside_build_info[1h])", "instance")
        except OSError:
            return 0  # it starts
        return min(found.values()) if len(found) == self._targets else 0

    async def has_scraped(self, times: int) -> bool:
        """Returns whether each target was scraped so often."""
        return await self.scrapes() >= times

    async def increase(self, name: str, label: str = "") -> dict[str, int]:
        """Returns the rises between samples of a counter by a label; increase() would extrapolate."""
        found: Counter[str] = Counter()
        for row in await self._rows(f"{name}[1h]"):
            samples = [float(value) for _, value in row["values"]]
            rises = (after - before if after >= before else after for before, after in pairwise(samples))
            found[row["metric"].get(label, "")] += round(sum(rises))
        return {value: count for value, count in found.items() if count}

    async def _query(self, query: str, label: str) -> dict[str, int]:
        rows = await self._rows(query)
        return {row["metric"].get(label, ""): round(float(row["value"][1])) for row in rows}

    async def _rows(self, query: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self._port}/api/v1/query?{urlencode({'query': query})}"
        answer = json.loads(await asyncio.to_thread(_read, url))
        rows: list[dict[str, Any]] = answer["data"]["result"]
        return rows


@contextmanager
def prometheus(binary: str, ports: Mapping[str, int], port: int, folder: Path) -> Iterator[Prometheus]:
    """Runs Prometheus over these targets while the block does."""
    targets = [{"targets": [f"127.0.0.1:{each}"]} for each in ports.values()]
    jobs = [{"job_name": "trackside", "static_configs": targets}]
    text = json.dumps({"global": {"scrape_interval": "500ms"}, "scrape_configs": jobs})  # YAML, too
    (folder / "prometheus.yml").write_text(text)
    argv = [
        binary,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as output:
        running = subprocess.Popen(argv, stdout=output, stderr=output, env=dict(os.environ))
        try:
            yield Prometheus(port, len(ports))
        finally:
            running.terminate()
            running.wait()
