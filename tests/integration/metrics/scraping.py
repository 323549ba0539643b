"""Scrapes services as Prometheus does, and adds up by how much their counters have increased."""

import asyncio
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from tests.polling import elapse

EVERY_S = 0.5
Series = tuple[str, tuple[tuple[str, str], ...]]


class Scraper:
    """Adds up the increases of counters over all targets; a counter that falls began again at 0."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._increases: dict[Series, float] = {}
        self._scrapes: Counter[str] = Counter()
        self._ports = ports
        self._last: dict[tuple[str, Series], float] = {}

    async def run(self) -> None:
        while True:
            await asyncio.gather(*map(self._scrape, self._ports))
            await elapse(EVERY_S)

    @property
    def scrapes(self) -> int:
        """How often each target was scraped, by the most seldom scraped one."""
        return min(self._scrapes[target] for target in self._ports)

    def increase(self, name: str, label: str = "") -> dict[str, float]:
        """Returns the increase of a counter by the values of a label, without those that stayed at 0."""
        found: dict[str, float] = defaultdict(float)
        for (series, labels), value in self._increases.items():
            if series == name and value:
                found[dict(labels).get(label, "")] += value
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
