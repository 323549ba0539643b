"""A small installation after real work, with a Prometheus that scrapes it where there is one."""

import asyncio
import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from boards.expansion import View

from tests.integration.installed import prepared, variables_of, worker_has_joined
from tests.polling import poll_until_sync
from tests.service_processes import service_process
from tests.stack import Servers
from trackside.cli.app import call
from trackside.embedded.ports import free_ports
from trackside.eventlog.clock import now_ms
from trackside.eventlog.settings.settings import StackSettings

TASKS = '''
from trackside.sdk import Task, trial


class Bowl(Task):
    """Takes its least value at 0.3; one kind fails, one needs more memory than there is."""

    def train(self, device):
        asked = trial.parameters()
        if asked["kind"] == "bad":
            raise ValueError("asked to fail")
        if asked["kind"] == "big":
            raise MemoryError("asked for more memory than there is")
        value = (asked["x"] - 0.3) ** 2
        for step in range(8):
            trial.report(value + 1 / (1 + step), step=step)
        trial.result(value)
        return {"value": value}


class Two(Task):
    """Returns two objectives."""

    def train(self, device):
        x = trial.parameters()["x"]
        trial.result({"loss": x**2, "latency": (x - 1) ** 2})
'''
CATALOGUE = """
tasks:
  bowl: {entry: "tasks_of_boards:Bowl", path: .}
  two: {entry: "tasks_of_boards:Two", path: .}
"""
SPACE = "{x: {type: uniform, low: 0, high: 1}, kind: {type: choice, values: [a, b, c, d, bad, big]}}"
SEARCH = "{kind: search, direction: minimize, concurrency: 2, seed: 5, tuner: {name: random}"
SPECS = {
    "two": "{kind: search, task_type: two, max_trials: 5, concurrency: 2, seed: 5, tuner: {name: random}, "
    "objectives: [{name: loss, direction: minimize}, {name: latency, direction: minimize}], "
    "space: {x: {type: uniform, low: 0, high: 1}}}",
    "fits": "{kind: tasks, name: fits, groups: [{name: first, tasks: ["
    "{name: a, task_type: bowl, parameters: {x: 0.1, kind: good}}, "
    "{name: b, task_type: bowl, parameters: {x: 0.1, kind: bad}}]}]}",
    "steps": "{kind: pipeline, name: steps, steps: ["
    "{name: one, task_type: bowl, parameters: {x: 0.1, kind: good}, mirror: {metrics: {objective: loss}}}, "
    "{name: two, task_type: bowl, parameters: {x: 0.2, kind: good}, needs: [one]}]}",
    "bowl": f"{SEARCH}, task_type: bowl, max_trials: 70, assessor: {{name: median}}, space: {SPACE}}}",
}
ENDED_TRIALS = 75
BEST_TASK = "SELECT task_id FROM trials WHERE best AND search_id = 'bowl'"
MINUTE_S = 60
"""How long the range goes on after the work, s: bars of a minute end at a whole one."""
SCRAPES = 5
"""How often Prometheus reads each service before the work, and again after it."""
ENDED = {
    "trials WHERE ended_at IS NOT NULL": ENDED_TRIALS,
    "attempts WHERE ended_at IS NOT NULL": ENDED_TRIALS + 4,
    "runs WHERE ended_at IS NOT NULL": 1,
    "batches WHERE ended_at IS NOT NULL": 1,
    "(SELECT DISTINCT task_id FROM series_totals) AS reporting": 20,
}
"""What is counted when all has ended and is written, and how much of it there is at least."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the rows and the metrics are, and what a viewer sees. Without a Prometheus its URL is None."""

    dsn: str
    prometheus: str | None
    view: View


@pytest.fixture(scope="module")
def worked(
    stack: Servers, module_tables: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Yields an installation in which searches, a batch and a run have ended; its services still run."""
    folder = tmp_path_factory.mktemp("boards")
    (folder / "tasks_of_boards.py").write_text(TASKS)
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    settings = prepared(stack, module_tables)
    variables = {
        **variables_of(settings),
        "TRACKSIDE_WORKER_ID": "w1",
        "TRACKSIDE_WORKER_CATALOGUE": str(folder / "catalogue.yaml"),
        "TRACKSIDE_WORKER_CPU_SLOTS": "2",
        "TRACKSIDE_WORKER_DATA_DIR": str(folder / "w1"),
    }
    began = now_ms() / 1000
    with ExitStack() as running:
        names = ("dispatcher", "scheduler", "summary_indexer", "worker")
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        for name, port in ports.items():
            own = {**variables, "TRACKSIDE_HEALTH_PORT": str(port)}
            running.enter_context(service_process(name, own, folder))
        url = running.enter_context(_prometheus(folder, ports))
        _await_scrapes(url, len(ports))  # each counter at 0, so that its first event is an increase
        _work(settings, folder, variables)
        _await_rows(module_tables, url)
        _await_scrapes(url, len(ports))
        chosen: dict[str, Any] = dict.fromkeys(("run", "batch", "job", "metric", "contains"), "")
        chosen |= {
            "search": "bowl",
            "task": _fetched(module_tables, BEST_TASK),
            "tag": "objective",
            "worker": ["w1"],
        }
        chosen |= {"instance": [f"127.0.0.1:{port}" for port in ports.values()], "service": list(ports)}
        view = View(began - 5, now_ms() / 1000 + MINUTE_S, variables=chosen)
        yield Installation(module_tables, url, view)


@contextmanager
def _prometheus(folder: Path, ports: Mapping[str, int]) -> Iterator[str | None]:
    """Runs a Prometheus that scrapes the services every half second, and yields its URL; None without one."""
    program = shutil.which("prometheus")
    if program is None:
        yield None
        return
    jobs = [{"targets": [f"127.0.0.1:{port}"], "labels": {"service": name}} for name, port in ports.items()]
    scrape = {"job_name": "trackside", "honor_labels": True, "static_configs": jobs}
    config = {"global": {"scrape_interval": "500ms"}, "scrape_configs": [scrape]}
    (folder / "prometheus.json").write_text(json.dumps(config))  # JSON is YAML
    (port,) = free_ports(1)
    with (folder / "prometheus.log").open("wb") as output:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.json'}",
                f"--storage.tsdb.path={folder / 'series'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _work(settings: StackSettings, folder: Path, variables: Mapping[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, worker_has_joined(settings)).result(120)
        for name, value in variables.items():
            patched.setenv(name, value)
        for name, spec in SPECS.items():
            (folder / f"{name}.yaml").write_text(spec)
            code = thread.submit(call, ["submit", str(folder / f"{name}.yaml"), "--id", name]).result()
            assert code == 0, name


def _fetched(dsn: str, statement: str) -> Any:
    """Returns what a query of one value gives."""

    async def fetched() -> Any:
        connection = await asyncpg.connect(dsn, server_settings={"search_path": "dashboards"})
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, fetched()).result()


def _await_rows(dsn: str, url: str | None) -> None:
    """Waits until the read models and Prometheus have all trials."""

    def complete() -> bool:
        found = [_fetched(dsn, f"SELECT count(*) FROM {what}") for what in ENDED]  # noqa: S608  # of this file
        scraped = url is None or _value(url, "sum(trackside_dispatcher_ended_trials_total)") == ENDED_TRIALS
        return scraped and all(have >= wanted for have, wanted in zip(found, ENDED.values(), strict=True))

    poll_until_sync(complete)


def _await_scrapes(url: str | None, services: int) -> None:
    """Waits until Prometheus has read each service some times more: rates need several points."""
    if url is None:
        return
    scrapes = "sum_over_time(up[1h])"
    before = _value(url, f"min({scrapes})") or 0.0

    def read() -> bool:
        return _value(url, f"count({scrapes} >= {before + SCRAPES})") == services

    poll_until_sync(read)


def _value(url: str, expression: str) -> float | None:
    """Returns the value of an expression now; None while Prometheus does not serve or has no such series."""
    try:
        with urllib.request.urlopen(
            f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        ) as response:
            found = json.load(response)["data"]["result"]
    except (urllib.error.URLError, ConnectionError):
        return None
    return float(found[0]["value"][1]) if found else None
