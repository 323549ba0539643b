"""Each service is replaced by its next build while a search runs, as `docs/operations.md` says."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.next_build import NEXT, python_path
from tests.integration.installed import NOOP, prepared, variables_of
from tests.polling import poll_until
from tests.service_processes import ServiceProcess
from tests.stack import Servers
from trackside.aggregates.search.messages import StartSearch, StopSearch
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.settings import StackSettings
from trackside.sdk.async_client import AsyncClient

pytestmark = pytest.mark.timeout(900)
SEARCH, OLDER, SLOTS = "upgraded", "older", 2
SUGGESTED, STOPPED = "trackside.trial-suggested.v1", "trackside.search-stop-requested.v1"
TRIALS, WAIT_S = 4, 240
"""How many trials end between two replacements, and how long one may take, s."""
SPEC = {
    "task_type": "noop",
    "seed": 7,
    "max_trials": 1_000,
    "concurrency": 2,
    "tuner": {"name": "random"},
    "space": {
        "value": {"type": "uniform", "low": 0, "high": 1},
        "seconds": {"type": "choice", "values": [0.1]},
    },
}


LONG = pytest.mark.skipif("TRACKSIDE_CHAOS_RUNS" not in os.environ, reason="runs in `make chaos`")


class Event(NamedTuple):
    """An event as the log has it: its type, its writer, and its body with fields that this build ignores."""

    kind: str
    source: str
    body: Mapping[str, Any]


class Installation:
    """The services of one installation, each of the old or the next build, and all that they have written."""

    def __init__(self, settings: StackSettings, folder: Path, path: str, log: KafkaLog) -> None:
        self.settings, self.log, self.events = settings, log, list[Event]()
        self.processes: list[ServiceProcess] = []
        self.env = {
            **variables_of(settings),
            "TRACKSIDE_WORKER_CATALOGUE": str(NOOP),
            "TRACKSIDE_WORKER_PRELOAD": "",
        }
        self._folder, self._path = folder, path
        self._changed = asyncio.Condition()

    def start(self, name: str, build: str, **more: str) -> ServiceProcess:
        """Starts a service of a build."""
        output = self._folder / f"{name}-{build}.log"
        started = ServiceProcess(name, self.env | self._of(build) | more, output)
        self.processes.append(started)
        return started

    def start_worker(self, build: str) -> ServiceProcess:
        """Starts a worker of a build, which has a name and a folder of its own."""
        return self.start(
            "worker",
            build,
            TRACKSIDE_WORKER_ID=build or OLDER,
            TRACKSIDE_WORKER_CPU_SLOTS=str(SLOTS),
            TRACKSIDE_WORKER_DATA_DIR=str(self._folder / (build or OLDER)),
        )

    async def command(self, *arguments: str, build: str = NEXT) -> str:
        """Runs a command of a build, which must end with 0; returns its output."""
        code = "import sys; from trackside.cli.app import call; sys.exit(call(sys.argv[1:]))"
        running = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            code,
            *arguments,
            env={**os.environ, **self.env, **self._of(build)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output, _ = await running.communicate()
        assert running.returncode == 0, output.decode()
        return output.decode()

    def _of(self, build: str) -> dict[str, str]:
        return {"PYTHONPATH": self._path} if build == NEXT else {}

    async def follow(self) -> None:
        """Reads all events and the fleet until it is cancelled."""
        topics = self.settings.topics
        places = [(topics.events.name, at) for at in range(topics.event_partitions)]
        reader = self.log.reader(dict.fromkeys([*places, (topics.fleet.name, 0)], 0))
        try:
            while True:
                entries = await reader.read(1.0)
                async with self._changed:
                    for entry in entries:
                        headers = {name: (data or b"").decode() for name, data in entry.headers}
                        body = json.loads(entry.value or b"null")
                        self.events.append(Event(headers["ce_type"], headers["ce_source"], body))
                    self._changed.notify_all()
        finally:
            await reader.close()

    def output(self) -> str:
        """Returns the end of what each service has logged."""
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"--- {path.name} ---\n{path.read_text()[-2_000:]}" for path in logs)

    def of(self, name: str, build: str | None = None) -> list[Event]:
        """Returns the events of a type, those of a build if one is given."""
        kind = f"trackside.{name}.v1"
        return [e for e in self.events if e.kind == kind and build in (None, e.body.get("build", ""))]

    async def until_more(self, name: str, build: str | None = None, count: int = TRIALS) -> None:
        """Waits until the log has so many more events of a type."""
        await self.until(name, len(self.of(name, build)) + count, build)

    async def until(self, name: str, count: int, build: str | None = None) -> None:
        """Waits until the log has so many events of a type."""
        try:
            async with asyncio.timeout(WAIT_S), self._changed:
                while len(self.of(name, build)) < count:
                    await self._changed.wait()
        except TimeoutError:
            last = [f"{e.kind} {e.source}" for e in self.events[-20:]]
            raise AssertionError(f"the log never had {count} {name} of {build}: {last}") from None


@asynccontextmanager
async def running(settings: StackSettings, folder: Path, path: str) -> AsyncIterator[Installation]:
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(KafkaLog(settings.kafka_bootstrap, "upgrade-test"))
        installation = Installation(settings, folder, path, log)
        following = asyncio.create_task(installation.follow())
        stack.callback(following.cancel)
        yield installation


async def ended(process: ServiceProcess) -> int:
    """Waits for the end of a service that stops by itself; returns its exit code."""
    return await asyncio.to_thread(process.process.wait, WAIT_S)


async def is_up(process: ServiceProcess) -> bool:
    """Returns whether a service has logged that it started."""
    return process.is_up


async def upgrade_deciders(
    on: Installation, order: Sequence[str], old: Mapping[str, ServiceProcess], *, new_tables: bool
) -> None:
    """Replaces the dispatcher and the scheduler in an order."""
    decisions = {"dispatcher": "trial-suggested", "scheduler": "task-assigned"}
    for name in order:
        following = on.start(name, NEXT)
        if new_tables:  # the first one that starts makes the tables, and no older build may write them
            assert await ended(old[name]) != 0
        else:
            await poll_until(partial(is_up, following), WAIT_S)
            await on.until_more("trial-ended")  # both run
            assert await asyncio.to_thread(old[name].stop) == 0
        if not new_tables or name == order[-1]:
            await on.until_more(decisions[name], NEXT)


@pytest.mark.parametrize(
    ("order", "new_tables"),
    [
        (("scheduler", "dispatcher"), False),
        pytest.param(("dispatcher", "scheduler"), True, marks=LONG),
        pytest.param(("dispatcher", "scheduler"), False, marks=LONG),
        pytest.param(("scheduler", "dispatcher"), True, marks=LONG),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else f"new_tables={value}",
)
async def test_a_search_continues_while_each_service_is_replaced_by_its_next_build(
    stack: Servers, database: str, tmp_path: Path, order: tuple[str, ...], new_tables: bool
) -> None:
    path = python_path(tmp_path / "next", new_tables=new_tables)
    settings = await asyncio.to_thread(prepared, stack, database)
    async with (
        running(settings, tmp_path, path) as on,
        AsyncClient(settings.kafka_bootstrap, settings.topic_prefix) as client,
    ):
        old = {name: on.start(name, "") for name in ("dispatcher", "scheduler", "summary_indexer")}
        older_worker = on.start_worker("")
        try:
            await on.until_more("worker-joined", count=1)
            await client.send(StartSearch.model_validate(SPEC), SEARCH)
            await on.until_more("trial-ended")
            await upgrade_deciders(on, order, old, new_tables=new_tables)
            assert await asyncio.to_thread(old["summary_indexer"].stop) == 0
            on.start("summary_indexer", NEXT)
            on.start_worker(NEXT)
            await on.until_more("worker-joined", count=1)
            assert await asyncio.to_thread(older_worker.stop) == 0
            await on.until_more("task-accepted", NEXT)
            await on.until_more("trial-ended")
            await client.send(StopSearch(), SEARCH)
            await client.wait(SEARCH, WAIT_S)
            assert "nothing found" in await on.command("verify-log")
            assert "equal" in await on.command("replay", "rebuild")
        except BaseException:
            sys.stderr.write(on.output())
            raise
        finally:
            await asyncio.gather(*(asyncio.to_thread(each.stop) for each in on.processes))
        check(on)


def check(on: Installation) -> None:
    """Compares what the log has: each trial has an end, and only the replaced worker's were tried again.

    A suggestion that comes after the stop has no effect, so it has no end.
    """
    ended = {event.body["trial"] for event in on.of("trial-ended")}
    assert ended == set(range(len(ended)))
    stopped = next(at for at, event in enumerate(on.events) if event.kind == STOPPED)
    assert {event.body["trial"] for event in on.events[:stopped] if event.kind == SUGGESTED} <= ended
    assert {event.body.get("build", "") for event in on.of("task-accepted")} == {"", NEXT}
    again = {event.body["task_id"] for event in on.of("task-assigned") if event.body["attempt"] > 1}
    of_the_older = {
        event.body["task_id"] for event in on.of("task-assigned") if event.body["worker_id"] == OLDER
    }
    assert again <= of_the_older
    assert len(again) <= SLOTS
