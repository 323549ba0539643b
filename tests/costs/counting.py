"""Counts what a stack does for pieces of work: calls of functions, requests to Kafka, records, statements.

The counts do not depend on how fast the machine is, unless how much is done at once does. A stack of its own
is started for them, in which each Python process counts its calls (see counted/sitecustomize.py), the broker
writes a line for each request and Postgres one for each statement.
"""

import asyncio
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from tests.polling import poll_until
from trackside.aggregates.batch.messages import SubmitTasks
from trackside.aggregates.run.messages import StartPipelineRun
from trackside.aggregates.search.messages import StartSearch
from trackside.cli.commands import stack_process as stacks
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Command
from trackside.contracts.envelope.topics import Topics
from trackside.embedded import stack
from trackside.embedded.folder import held_leash
from trackside.embedded.kafka import kafka
from trackside.embedded.options import StackOptions
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Log
from trackside.sdk import Client

TASKS = Path(__file__).parents[2] / "deploy" / "bench" / "tasks" / "catalogue.yaml"
COUNTED = Path(__file__).parent / "counted"
PREFIX = "trackside."
SERVICES = ("dispatcher", "scheduler", "worker", "summary_indexer", "console")
IDLE = "an idle second"
WARM, PROCESS = "a warm trial", "a trial with a process"
BATCH, STEP = "a task of a batch", "a step of a pipeline run"
IDLE_S = 10
SETTLE_S = 2.5
"""Until then the rows of what was done are written."""
REQUEST_LOG = "requests.log"
LOG4J = f"""\
appender.requests.type=File
appender.requests.name=requests
appender.requests.fileName={REQUEST_LOG}
appender.requests.layout.type=PatternLayout
appender.requests.layout.pattern=%m%n
logger.requests.name=kafka.request.logger
logger.requests.level=debug
logger.requests.additivity=false
logger.requests.appenderRef.requests.ref=requests
"""
"""Makes the broker write a line for each request, with the client and the kind."""
STATEMENTS = {"log_statement": "all", "log_parameter_max_length": "0"}
_COMPLETED = "Completed request:"
_STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]*):")
_REQUESTS = ("fetch", "produce", "list_offsets", "metadata")
_OPENED = ("<built-in method _io.open>", "<built-in method posix.open>")
_MADE = ("<built-in method posix.mkdir>", "<built-in method posix.rename>", "<built-in method posix.link>")
_SYNCED = ("<built-in method posix.fsync>", "<built-in method posix.fdatasync>")
_REMOVED = (
    "<built-in method posix.unlink>",
    "<built-in method posix.rmdir>",
    "<built-in method posix.remove>",
)
_SYSTEM = ("<built-in method posix.", "<built-in method _io.open>", "<method 'send", "<method 'recv")
_PURE = ("posix.fspath", "posix.WIFEXITED", "posix.getpid")
"""Calls of posix that ask nothing of the kernel."""

Functions = Mapping[str, Counter[str]]
"""Calls by service and function."""
Counts = dict[str, float]
"""What was counted, by name."""


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of work: a command, and how many pieces it is."""

    command: Command
    pieces: int


def search(task_type: str, trials: int) -> Work:
    """Returns a search with one trial at a time: then each of its records is read and written by itself."""
    space = {"x": {"type": "uniform", "low": 0, "high": 1}}
    fields = {"task_type": task_type, "max_trials": trials, "concurrency": 1, "tuner": {"name": "random"}}
    return Work(StartSearch.model_validate(fields | {"seed": 1, "space": space}), trials)


def batch(tasks: int) -> Work:
    """Returns a batch of tasks that are all submitted at once."""
    group = {"name": "g", "tasks": [{"task_type": "stamp-warm", "parameters": {"x": 1.0}}] * tasks}
    return Work(SubmitTasks.model_validate({"groups": [group]}), tasks)


def run(steps: int) -> Work:
    """Returns a pipeline run of steps after each other."""
    listed = [
        {"name": f"s{at}", "task_type": "stamp-warm", "parameters": {"x": 1.0}}
        | ({"needs": [f"s{at - 1}"]} if at else {})
        for at in range(steps)
    ]
    return Work(StartPipelineRun.model_validate({"pipeline": {"steps": listed}, "use_cache": False}), steps)


WORKS = {
    WARM: search("stamp-warm", 200),
    PROCESS: search("stamp", 50),
    BATCH: batch(200),
    STEP: run(20),
}


class GrowingFile:
    """A file that a server appends to."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, path.stat().st_size

    def new_lines(self) -> list[str]:
        """Returns what was written since the last call."""
        with self._path.open(errors="replace") as file:
            file.seek(self._read)
            text = file.read()
            self._read = file.tell()
        return text.splitlines()


@dataclass(frozen=True, slots=True)
class Reading:
    """What was counted until a moment: `at_s` on the monotonic clock, ends of topics in records."""

    at_s: float
    functions: Functions
    wake_ups: Counter[str]
    ends: Mapping[str, Mapping[int, int]]


class CountedStack:
    """A stack whose processes and servers count what they do."""

    def __init__(self, home: Path, counts: Path, log: Log, client: Client) -> None:
        self._counts = counts
        self._log, self._client = log, client
        self._topics = Topics()
        self._asked = 0
        self._requests = GrowingFile(next(home.rglob(REQUEST_LOG)))
        self._statements = GrowingFile(home / "logs" / "postgres.log")
        self.functions: dict[str, Functions] = {}

    async def do(self, work: Work) -> None:
        """Does a piece of work."""
        stream = new_id()
        await self._client.publish(work.command, stream)
        await self._client.wait(stream, timeout_s=300)
        await asyncio.sleep(SETTLE_S)

    async def count(self, name: str, work: Work | None) -> tuple[Counts, float]:
        """Returns what is counted while a piece of work is done, or for IDLE_S; and the seconds it took."""
        before = await self._read()
        self._requests.new_lines(), self._statements.new_lines()
        if work is None:
            await asyncio.sleep(IDLE_S)
        else:
            await self.do(work)
        requests, statements = self._requests.new_lines(), self._statements.new_lines()
        after = await self._read()
        calls = {each: after.functions[each] - before.functions[each] for each in SERVICES}
        self.functions[name] = calls
        found = _counts_of_calls(calls) | _requests(requests) | _statements(statements)
        for each in SERVICES:
            found[f"wake-ups of {each}"] = after.wake_ups[each] - before.wake_ups[each]
        return found | await self._records(before, after), after.at_s - before.at_s

    async def _read(self) -> Reading:
        self._asked += 1
        fresh = self._counts / "new"
        fresh.write_text(str(self._asked))
        fresh.rename(self._counts / "asked")
        at_s = monotonic_s()
        await poll_until(self._have_answered, 30)
        answers = self._answers()
        ends = {topic.name: await self._log.ends(topic.name) for topic in self._topics.shared}
        functions = {service: Counter(calls) for service, (_, calls) in answers.items()}
        return Reading(at_s, functions, Counter({each: answers[each][0] for each in answers}), ends)

    async def _have_answered(self) -> bool:
        return len(self._answers()) == len(SERVICES)

    def _answers(self) -> dict[str, tuple[int, dict[str, int]]]:
        found = {}
        for path in self._counts.glob(f"{self._asked}-*.json"):
            argv, waits, calls = json.loads(path.read_text())
            if (service := argv[-1].removeprefix(PREFIX)) in SERVICES:
                found[service] = waits, calls
        return found

    async def _records(self, before: Reading, after: Reading) -> Counts:
        found: Counts = {}
        for topic, ends in after.ends.items():
            name, starts = topic.removeprefix(PREFIX), before.ends[topic]
            if records := sum(ends.values()) - sum(starts.values()):
                found[f"records of {name}"] = records
                found[f"bytes of {name}"] = await self._bytes(topic, starts, ends)
        return found

    async def _bytes(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> int:
        """Returns the bytes of the records between: their keys, values and headers."""
        at = {(topic, partition): start for partition, start in starts.items() if ends[partition] > start}
        reader, found = self._log.reader(dict(at)), 0
        try:
            while any(position < ends[partition] for (_, partition), position in at.items()):
                for each in await reader.read(1.0):
                    if each.offset < ends[each.partition]:
                        headers = sum(len(name) + len(value or b"") for name, value in each.headers)
                        found += len(each.key or b"") + len(each.value or b"") + headers
                    at[topic, each.partition] = each.offset + 1
        finally:
            await reader.close()
        return found


def _counts_of_calls(calls: Functions) -> Counts:
    found: Counts = {}
    for service, functions in calls.items():
        found[f"function calls of {service}"] = functions.total()
    worker = calls["worker"]
    asked = (name for name in worker if name.startswith(_SYSTEM) and not any(each in name for each in _PURE))
    found["system calls of worker"] = sum(worker[name] for name in asked)
    for what, names in (("opened", _OPENED), ("made", _MADE), ("synced", _SYNCED), ("removed", _REMOVED)):
        found[f"files {what} by worker"] = sum(worker[name] for name in names)
    return found


def _requests(lines: list[str]) -> Counts:
    found: Counter[str] = Counter()
    for line in lines:
        if _COMPLETED in line:
            head = json.loads(line.split(_COMPLETED, 1)[1])["requestHeader"]
            client = str(head["clientId"]).removeprefix("trackside-").replace("-", "_")
            kind = str(head["requestApiKeyName"]).lower()
            if client in SERVICES and kind in _REQUESTS:
                found[f"{kind} requests of {client}"] += 1
    return dict(found)


def _statements(lines: list[str]) -> Counts:
    return {"SQL statements": sum(_STATEMENT.search(line) is not None for line in lines)}


@asynccontextmanager
async def counted_stack(tasks: Path = TASKS) -> AsyncIterator[CountedStack]:
    """Starts a stack that counts, with a worker that has one slot."""
    with (
        tempfile.TemporaryDirectory(prefix="trackside-costs-") as name,
        pytest.MonkeyPatch.context() as patch,
    ):
        folder = Path(name)
        home, counts = folder / "stack", folder / "counts"
        _make(folder, counts)
        patch.setattr(kafka, "LOG4J", kafka.LOG4J + LOG4J)
        path = os.pathsep.join([str(COUNTED), *filter(None, [os.environ.get("PYTHONPATH")])])
        # A folder of its own: workers of other stacks on this host would be looked at.
        host = {"TRACKSIDE_WORKER_HOST_DIR": str(folder / "workers")}
        env = {"PYTHONPATH": path, "TRACKSIDE_COUNTS": str(counts), **host}
        services = stacks.services(home, tasks, 1)
        with held_leash(folder / "leash") as leash:
            options = StackOptions(services, setup=stacks.SETUP, leash=leash, ephemeral=True, env=env)
            started = await asyncio.to_thread(stack.start, home, options, lambda _: None)
            try:
                await _log_statements(started.postgres_dsn)
                kafka_settings = started.kafka("admin")
                async with (
                    KafkaLog(kafka_settings, client_id="costs") as log,
                    Client(kafka_settings, name="costs") as client,
                ):
                    yield CountedStack(home, counts, log, client)
            finally:
                await asyncio.to_thread(stack.stop, home)


def _make(folder: Path, counts: Path) -> None:
    folder.chmod(0o711)  # Postgres may run as another user, who must be able to pass through
    counts.mkdir()
    (counts / "asked").write_text("")


async def _log_statements(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    for name, value in STATEMENTS.items():
        await connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()


async def counted_table() -> tuple[dict[str, Counts], dict[str, Functions]]:
    """Returns the counts of a piece of each kind of work, without what an idle stack does in the same time.

    Also returns the calls of functions, for all pieces of a kind, by kind.
    """
    async with counted_stack() as counting:
        await counting.do(search("stamp-warm", 40))  # what is done once
        idle, took_s = await counting.count(IDLE, None)
        table = {IDLE: {what: count / took_s for what, count in idle.items()}}
        for name, work in WORKS.items():
            counts, took_s = await counting.count(name, work)
            table[name] = {
                what: _own(what, count, table[IDLE], took_s, work) for what, count in counts.items()
            }
        return table, counting.functions


def _own(what: str, count: float, idle: Counts, took_s: float, work: Work) -> float:
    return max(0.0, count - idle.get(what, 0.0) * took_s) / work.pieces
