"""A Prometheus with the shipped rules, in which a minute may be shorter.

The rules have whole minutes and hours as durations, and write seconds as minutes, such as `> 5 * 60`. With a
minute of one second `for: 5m` becomes 5 s, `[5m]` a window of 5 s, and `5 * 60` is 5: the same expressions.
"""

import asyncio
import json
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.polling import poll_until, poll_until_sync
from tests.unit.alerts import rules
from trackside.embedded import processes
from trackside.embedded.ports import HOST, free_ports
from trackside.embedded.processes import ProcessSpec

PROGRAM = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(
    PROGRAM is None, reason="prometheus is not on PATH (Debian: apt install prometheus)"
)
SCRAPES_PER_MINUTE = 1
"""So few that a scrape may take long: a service that a busy machine answers for late is not down."""
CONFIG = "prometheus.yml"
ANSWER_S = 10.0
FIRES_WITHIN_S = 180.0
ENDS_WITHIN_S = 300.0
_DURATION = re.compile(r"\b(\d+)([mh])\b")
_IN_SECONDS = re.compile(r"\* 60\b")


def with_minutes_of(text: str, minute_s: float) -> str:
    """Returns rules in which each minute has so many seconds."""

    def shorter(found: re.Match[str]) -> str:
        minutes = int(found[1]) * (60 if found[2] == "h" else 1)
        return f"{int(minutes * minute_s * 1000)}ms"

    return _IN_SECONDS.sub(f"* {minute_s:g}", _DURATION.sub(shorter, text))


class Prometheus:
    """A running Prometheus; `targets` are the ports of what it scrapes, by the name of the job."""

    def __init__(self, folder: Path, targets: Mapping[str, int], port: int, minute_s: float) -> None:
        self._folder = folder
        self._targets = targets
        self.url = f"http://{HOST}:{port}"
        self._configure(minute_s)

    def set_minute(self, minute_s: float) -> None:
        """Uses minutes of so many seconds from now on."""
        self._configure(minute_s)
        request = urllib.request.Request(f"{self.url}/-/reload", method="POST")
        urllib.request.urlopen(request, timeout=ANSWER_S).close()

    def _configure(self, minute_s: float) -> None:
        """Writes the rules, and the configuration that names them and the targets."""
        names = []
        for path in rules.FOLDER.glob("*.yml"):
            (self._folder / path.name).write_text(with_minutes_of(path.read_text("utf-8"), minute_s))
            names.append(path.name)
        interval = f"{int(1000 * minute_s / SCRAPES_PER_MINUTE)}ms"
        jobs = [
            {
                "job_name": job,
                "static_configs": [{"targets": [f"{HOST}:{port}"], "labels": {"instance": job}}],
            }
            for job, port in self._targets.items()
        ]
        config = {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "rule_files": names,
            "scrape_configs": jobs,
        }
        (self._folder / CONFIG).write_text(yaml.safe_dump(config))

    def is_ready(self) -> bool:
        """Returns whether it answers."""
        try:
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=ANSWER_S).close()
        except urllib.error.URLError:
            return False
        return True

    def get(self, path: str, **parameters: str) -> Any:
        """Returns the `data` of an answer of the HTTP API."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}{query}", timeout=ANSWER_S) as answer:
            return json.load(answer)["data"]

    def query(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """Returns the series of an expression now, with their values."""
        found = self.get("query", query=expr)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def firing(self) -> set[str]:
        """Returns the names of the alerts that fire now."""
        found = self.get("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in found if each["state"] == "firing"}

    def fired(self) -> dict[str, Any]:
        """Returns the alerts that have fired at any time, each with the labels of one of them."""
        ever = self.query('count_over_time(ALERTS{alertstate="firing"}[1d])')
        return {labels["alertname"]: labels for labels, _ in ever}

    async def until_fired(self, *alerts: str) -> None:
        """Waits until each of these alerts has fired; AssertionError names those that have not."""
        missing = set(alerts)

        async def all_fired() -> bool:
            missing.difference_update(await asyncio.to_thread(self.firing))
            return not missing

        try:
            await poll_until(all_fired, FIRES_WITHIN_S)
        except TimeoutError:
            shown = {alert.name: alert.expr for alert in rules.alerts() if alert.name in missing}
            raise AssertionError(f"never fired: {shown}") from None

    async def until_silent(self) -> None:
        """Waits until no alert fires; AssertionError names those that still do."""

        async def silent() -> bool:
            return not await asyncio.to_thread(self.firing)

        try:
            await poll_until(silent, ENDS_WITHIN_S)
        except TimeoutError:
            raise AssertionError(f"still firing: {self.firing()}") from None

    async def until_scraped(self) -> None:
        """Waits until each service was scraped twice: a counter that grows from then on has an increase."""

        async def scraped() -> bool:
            expr = "count_over_time(trackside_build_info[1h]) >= 2"
            found = await asyncio.to_thread(self.query, expr)
            return {labels["service"] for labels, _ in found} >= rules.service_names()

        await poll_until(scraped)

    def await_evaluation(self) -> None:
        """Waits until all rules were evaluated once more."""
        before = self._evaluations()
        poll_until_sync(lambda: all(self._evaluations()[name] > at for name, at in before.items()))

    def _evaluations(self) -> dict[str, str]:
        return {group["name"]: group["lastEvaluation"] for group in self.get("rules")["groups"]}

    def broken_rules(self) -> list[str]:
        """Lists the rules that could not be evaluated."""
        groups = self.get("rules")["groups"]
        return [each["name"] for group in groups for each in group["rules"] if each["health"] != "ok"]

    def absent_metrics(self) -> list[str]:
        """Lists the series of the rules that no service has exported: an alert on these could never fire."""
        names = {name for rule in rules.rules() for name in rules.series(rule)}
        return sorted(name for name in names if not self.query(f"last_over_time({name}[1h])"))


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, int], minute_s: float) -> Iterator[Prometheus]:
    """Runs a Prometheus that scrapes these ports, by the name of their job."""
    assert PROGRAM is not None
    folder.mkdir()
    port = free_ports(1)[0]
    made = Prometheus(folder, targets, port, minute_s)
    arguments = [
        PROGRAM,
        f"--config.file={folder / CONFIG}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={HOST}:{port}",
        "--web.enable-lifecycle",
    ]
    log = folder / "prometheus.log"
    process = processes.spawn(ProcessSpec(name="prometheus", argv=arguments, log=str(log)))
    try:
        poll_until_sync(lambda: made.is_ready() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield made
    finally:
        process.terminate()
        process.wait()
