"""Each service is replaced by its next build while work goes on, as `docs/operations.md` says."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.harness import UserFolder
from tests.e2e.next_build import NEXT, python_path
from tests.integration.installed import NOOP, prepared, variables_of
from tests.polling import poll_until
from tests.service_processes import ServiceProcess
from tests.stack import Servers
from trackside.aggregates.batch.messages import GroupSpec, SubmitTasks, TaskSpec
from trackside.aggregates.search.messages import StartSearch, StopSearch
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk.async_client import AsyncClient

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
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


CATALOGUE = Path(__file__).parents[1] / "chaos" / "kills" / "catalogue.yaml"
TASKS, STEPS = 8, 300
TRAINING = {"rate": 0.1, "steps": STEPS, "every": STEPS + 1, "seconds": 0.05, "waits": True}


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
        self.env = {**variables_of(settings), "TRACKSIDE_WORKER_PRELOAD": ""}
        self._folder, self._path = folder, path
        self._changed = asyncio.Condition()

    def start(self, name: str, build: str, **more: str) -> ServiceProcess:
        """Starts a service of a build."""
        output = self._folder / f"{name}-{build}.log"
        started = ServiceProcess(name, self.env | self._of(build) | more, output)
        self.processes.append(started)
        return started

    async def start_next(self, name: str, **more: str) -> ServiceProcess:
        """Starts a service of the next build, and waits until it has logged that it started."""
        following = self.start(name, NEXT, **more)

        async def is_up() -> bool:
            return following.is_up

        await poll_until(is_up, WAIT_S)
        return following

    def start_worker(self, build: str) -> ServiceProcess:
        """Starts a worker of a build, which has a name and a folder of its own."""
        return self.start(
            "worker",
            build,
            TRACKSIDE_WORKER_ID=build or OLDER,
            TRACKSIDE_WORKER_CATALOGUE=str(NOOP),
            TRACKSIDE_WORKER_CPU_SLOTS=str(SLOTS),
            TRACKSIDE_WORKER_DATA_DIR=str(self._folder / (build or OLDER)),
        )

    async def command(self, *arguments: str) -> str:
        """Runs a command of the next build, which must end with 0; returns its output."""
        code = "import sys; from trackside.cli.app import call; sys.exit(call(sys.argv[1:]))"
        user = UserFolder(self._folder, self.env | self._of(NEXT))
        return await asyncio.to_thread(user.python, "-c", code, *arguments)

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
async def running(
    stack: Servers, database: str, folder: Path, *, new_tables: bool
) -> AsyncIterator[tuple[Installation, AsyncClient]]:
    """Yields an installation without services, and a client of it; stops its services after the block."""
    path = python_path(folder / "next", new_tables=new_tables)
    settings = await asyncio.to_thread(prepared, stack, database)
    async with (
        KafkaLog(settings.kafka_bootstrap, "upgrade-test") as log,
        AsyncClient(settings.kafka_bootstrap, settings.topic_prefix) as client,
    ):
        on = Installation(settings, folder, path, log)
        following = asyncio.create_task(on.follow())
        try:
            yield on, client
            assert "nothing found" in await on.command("verify-log")
            assert "equal" in await on.command("replay", "rebuild")
        except BaseException:
            sys.stderr.write(on.output())
            raise
        finally:
            await asyncio.gather(*(asyncio.to_thread(each.stop) for each in on.processes))
            following.cancel()


async def ended(process: ServiceProcess) -> int:
    """Waits for the end of a service that stops by itself; returns its exit code."""
    return await asyncio.to_thread(process.process.wait, WAIT_S)


async def upgrade_deciders(
    on: Installation, order: Sequence[str], old: Mapping[str, ServiceProcess], *, new_tables: bool
) -> None:
    """Replaces the dispatcher and the scheduler in an order."""
    decisions = {"dispatcher": "trial-suggested", "scheduler": "task-assigned"}
    for name in order:
        if new_tables:  # the first one that starts makes the tables, and no older build may write them
            on.start(name, NEXT)
            assert await ended(old[name]) != 0
        else:
            await on.start_next(name)
            await on.until_more("trial-ended")  # both run
            assert await asyncio.to_thread(old[name].stop) == 0
        if not new_tables or name == order[-1]:
            await on.until_more(decisions[name], NEXT)


@pytest.mark.parametrize(
    ("order", "new_tables"), [(("scheduler", "dispatcher"), False), (("dispatcher", "scheduler"), True)]
)
async def test_a_search_continues_while_each_service_is_replaced_by_its_next_build(
    stack: Servers, database: str, tmp_path: Path, order: tuple[str, ...], new_tables: bool
) -> None:
    async with running(stack, database, tmp_path, new_tables=new_tables) as (on, client):
        old = {name: on.start(name, "") for name in ("dispatcher", "scheduler", "summary_indexer")}
        older_worker = on.start_worker("")
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
    assigned = [event.body for event in on.of("task-assigned")]
    again = {each["task_id"] for each in assigned if each["attempt"] > 1}
    assert again <= {each["task_id"] for each in assigned if each["worker_id"] == OLDER}
    assert len(again) <= SLOTS


async def test_no_task_is_repeated_or_waits_while_worker_scheduler_and_dispatcher_are_replaced(
    stack: Servers, database: str, tmp_path: Path
) -> None:
    tasks = [f"upgraded.1.{number + 1}" for number in range(TASKS)]
    home = tmp_path / "worker" / "home"
    async with running(stack, database, tmp_path, new_tables=False) as (on, client):
        on.env["TRACKSIDE_SCHEDULER_LEASE_S"] = "60"  # a worker is back before, on a busy machine too
        on.env |= {"TRACKSIDE_WORKER_CATALOGUE": str(CATALOGUE), "TRACKSIDE_WORKER_CPU_SLOTS": str(TASKS)}
        same = {"TRACKSIDE_WORKER_ID": "w1", "TRACKSIDE_WORKER_DATA_DIR": str(tmp_path / "worker")}
        old = {name: on.start(name, "") for name in ("dispatcher", "scheduler")}
        worker = on.start("worker", "", **same)
        group = GroupSpec(tasks=[TaskSpec(task_type="training", parameters=TRAINING) for _ in tasks])
        await on.until("worker-joined", 1)
        await client.send(SubmitTasks(groups=[group]), "upgraded")
        await on.until("task-accepted", TASKS)
        for name in ("scheduler", "dispatcher"):
            await on.start_next(name)
            assert await asyncio.to_thread(old[name].stop) == 0
        following = await on.start_next("worker", **same)  # it waits for the folder
        worker.process.send_signal(signal.SIGUSR1)
        assert await ended(worker) == 0
        await on.until("attempt-adopted", TASKS)
        await asyncio.to_thread(following.restart)  # an upgrade that fails is one more restart
        await on.until("attempt-adopted", 2 * TASKS)
        for task_id in tasks:
            (home / f"{task_id}.released").touch()
        await client.wait("upgraded", WAIT_S)
    for task_id in tasks:  # it has noted its attempt and each step that it has begun
        noted = (home / f"{task_id}.notes").read_text().splitlines()
        assert noted == [f"1 {step}" for step in range(STEPS)]
    assert [event.body["end"] for event in on.of("attempt-ended")] == ["finished"] * TASKS
    assert {event.body["attempt"] for event in on.of("task-assigned")} == {1}
