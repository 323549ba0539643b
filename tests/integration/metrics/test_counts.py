"""What the services count is what the log has, once, whoever restarts meanwhile."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.installed import changes, processes_at, variables_of
from tests.integration.metrics.scraping import Scraper, values
from tests.polling import poll_until
from tests.service_processes import ServiceProcess, service_process
from tests.stack import Servers
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchEnded, StartSearch, TrialEnded, TrialSuggested
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import CommandReceived
from trackside.contracts.tasks.tasks import AttemptEnded, TaskAssigned
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.embedded.ports import free_ports
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.settings.settings import StackSettings

pytestmark = pytest.mark.long

TRIALS = 18
RESTARTS = {5: "scheduler", 9: "dispatcher", 13: "worker"}
"""What is restarted after so many trials have ended."""
SEARCH = f"""{{"task_type": "uneven", "space": {{"x": {{"type": "uniform", "low": 0, "high": 1}}}},
"tuner": {{"name": "random"}}, "max_trials": {TRIALS}, "concurrency": 2, "seed": 7,
"retry": {{"oom_host": 0}}}}"""
COUNTERS = {
    "received": ("trackside_dispatcher_received_commands_total", ""),
    "suggested": ("trackside_dispatcher_suggested_trials_total", ""),
    "trials": ("trackside_dispatcher_ended_trials_total", "status"),
    "assigned": ("trackside_scheduler_assigned_tasks_total", ""),
    "attempts": ("trackside_worker_ended_tasks_total", "status"),
}
TASK = """
import time

from trackside.sdk import Task, trial


class Uneven(Task):
    def load(self):
        if 0.2 <= trial.parameters()["x"] < 0.3:
            raise MemoryError("as on a host that has no more")

    def train(self, device):
        time.sleep(0.1)
        if trial.parameters()["x"] < 0.2:
            raise ValueError("as a task with an error")
        trial.result(trial.parameters()["x"])
"""


async def counted_in_the_log(settings: StackSettings) -> dict[str, dict[str, int]]:
    """Returns what the counters count, from the events that were applied."""
    found: dict[str, Counter[str]] = {name: Counter() for name in COUNTERS}
    streams, topic = Streams(AGGREGATES), settings.topics.events
    async with KafkaLog(settings.kafka_bootstrap, "test") as log:
        ends = await log.ends(topic.name)
        reader = log.reader({(topic.name, partition): 0 for partition in ends})
        while any(streams.positions.get(partition, 0) < end for partition, end in ends.items()):
            for entry in await reader.read(1.0):
                record = decode(entry)
                assert record is not None
                outcome = streams.fold(record)[1]
                message, applied = record.message, outcome is Outcome.APPLIED
                match message:
                    case AttemptEnded() if applied and record.envelope.role == "worker":
                        found["attempts"][message.end.value] += 1
                    case CommandReceived() if applied:
                        found["received"][""] += 1
                    case TrialSuggested() if applied:
                        found["suggested"][""] += 1
                    case TrialEnded() if applied:
                        found["trials"][message.status.value] += 1
                    case TaskAssigned() if applied:
                        found["assigned"][""] += 1
    return {name: dict(values) for name, values in found.items()}


async def start_search(settings: StackSettings, search: str) -> None:
    command = StartSearch.model_validate_json(SEARCH)
    topic = settings.topics.commands
    async with KafkaLog(settings.kafka_bootstrap, "test") as log:
        record = RecordWriter("publisher", "test").single(search, command, message_id=f"start-{search}")
        await log.append(topic.name, partition_of(search, topic.partitions), [record])


async def run_search(settings: StackSettings, services: Mapping[str, ServiceProcess]) -> None:
    """Runs a search to its end, and restarts each service during it as an operator does."""
    search, ended = f"s-{secrets.token_hex(4)}", 0
    await start_search(settings, search)
    async for record, _ in changes(settings, search, 600):
        ended += isinstance(record.message, TrialEnded)
        if isinstance(record.message, TrialEnded) and ended in RESTARTS:
            restarted = services[RESTARTS[ended]]
            assert await asyncio.to_thread(restarted.stop) == 0
            restarted.start()
        if isinstance(record.message, SearchEnded):
            return


@asynccontextmanager
async def watched(ports: Mapping[str, int]) -> AsyncIterator[Scraper]:
    """Gets the services scraped."""
    scraper = Scraper(ports)
    running = asyncio.create_task(scraper.run())
    try:
        yield scraper
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until_scraped(watcher: Scraper, times: int) -> None:
    async def is_scraped() -> bool:
        return watcher.scrapes >= times

    await poll_until(is_scraped, 300)


async def test_counters_over_restarts_increase_by_what_the_log_has(
    stack: Servers, tables: str, tmp_path: Path
) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "uneven.py").write_text(TASK)
    catalogue = tmp_path / "tasks" / "catalogue.yaml"
    catalogue.write_text("tasks:\n  uneven:\n    entry: uneven:Uneven\n    path: .\n")
    names = ("dispatcher", "scheduler", "worker", "standby")
    ports = dict(zip(names, free_ports(4), strict=True))
    (tmp_path / "standby").mkdir()
    running = ExitStack()
    async with watched(ports) as watcher:
        try:
            settings, services = running.enter_context(
                processes_at(stack, tables, tmp_path, catalogue, ports, TRACKSIDE_METRICS_LINGER_S="20")
            )
            of_standby = {
                **variables_of(settings),
                "TRACKSIDE_HEALTH_PORT": str(ports["standby"]),
                "TRACKSIDE_INSTANCE": "2",
                "TRACKSIDE_DISPATCHER_STANDBY": "true",
            }
            running.enter_context(service_process("dispatcher", of_standby, tmp_path / "standby"))
            await until_scraped(watcher, 2)
            await run_search(settings, services)
            await until_scraped(watcher, watcher.scrapes + 4)
            found = {name: watcher.increase(*series) for name, series in COUNTERS.items()}
            expected = await counted_in_the_log(settings)
            await poll_until(lambda: have_read_all(ports))
            shown = {name: await values(port) for name, port in ports.items()}
        finally:
            await asyncio.to_thread(running.close)  # they are scraped meanwhile
    assert sum(expected["trials"].values()) == TRIALS
    assert expected["attempts"].keys() >= {"finished", "failed", "oom_host"}
    assert found == expected
    # The worker that is left may have run nothing: the search went on until the other one stopped.
    assert sum(watcher.increase("trackside_worker_device_busy_seconds_total").values()) > 0
    check_gauges(shown)


def check_gauges(shown: Mapping[str, Mapping[str, list[float]]]) -> None:
    """Checks what services that have worked, and have nothing left to do, show of themselves and the log."""
    for name, of_service in shown.items():
        available = of_service["trackside_health_disk_available_bytes"]
        sizes = of_service["trackside_health_disk_size_bytes"]
        assert len(available) == len(sizes), name
        for left, size in zip(available, sizes, strict=True):
            assert 0 < left < size, name
        (skew_s,) = of_service["trackside_health_clock_skew_seconds"]
        assert abs(skew_s) < 10, name  # all clocks are one; it is measured by half the time of an append
    deciding = [shown[name] for name in ("dispatcher", "scheduler", "standby")]
    for of_service in deciding:
        hops = sum(of_service["trackside_eventlog_hop_seconds_count"])
        assert hops <= sum(of_service["trackside_eventlog_read_records_total"])
        (decisions,) = of_service["trackside_eventlog_decision_seconds_count"]
        assert decisions >= sum(of_service["trackside_eventlog_appended_batches_total"])
    # The standby may have decided all that came after the restart of the other dispatcher.
    for measure in ("hop", "decision"):
        assert sum(sum(each[f"trackside_eventlog_{measure}_seconds_count"]) for each in deciding) > 0
    for gauge in ("waiting_slots_trials", "oldest_progress_seconds", "running_searches"):
        assert shown["dispatcher"][f"trackside_dispatcher_{gauge}"] == [0], gauge
    assert len(shown["worker"]["trackside_health_disk_size_bytes"]) > 0


async def have_read_all(ports: Mapping[str, int]) -> bool:
    """Returns whether all services answer, and those that decide have no record of the log to read."""
    try:
        shown = {name: await values(port) for name, port in ports.items()}
    except OSError:
        return False  # one starts
    return all(
        len(shown[name]["trackside_health_log_lag_records"]) > 1
        and not sum(shown[name]["trackside_health_log_lag_records"])
        and not sum(shown[name]["trackside_health_log_lag_seconds"])
        for name in ("dispatcher", "scheduler")
    )
