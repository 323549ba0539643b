"""Directories with many jobs and jobs with many tags: shared requests, and a count of what is left out."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient

from tests.integration.summary_indexer.harness import Sandbox, until_caught_up
from tests.integration.summary_indexer.watched import (
    begin_file,
    event_file,
    letters_of,
    metrics_of,
    points,
    read_in,
    store_of,
    watcher_service,
)
from trackside.aggregates.summary.messages import SummaryFileIndexed
from trackside.contracts.message import Record
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Entry
from trackside.summaries.event_files.writing import record
from trackside.summary_indexer.watching import log_positions
from trackside.summary_indexer.watching.tag_limits import IndexedTags
from trackside.summary_indexer.watching.watched_directories import import_directory

JOBS = 300
TURNS = 4
"""How often a job waits for the log; what other jobs append meanwhile may share its request."""

pytestmark = pytest.mark.usefixtures("dispatcher")


@contextmanager
def counted_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yields the names of all requests that this process sends to Kafka and that append."""
    sent: list[str] = []
    send = AIOKafkaClient.send

    async def counted(client: AIOKafkaClient, node: int, request: Any, **options: Any) -> Any:
        if "Produce" in type(request).__name__:
            sent.append(type(request).__name__)
        return await send(client, node, request, **options)

    with monkeypatch.context() as patch:
        patch.setattr(AIOKafkaClient, "send", counted)
        yield sent


async def test_many_small_jobs_share_the_requests_of_an_import(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1: and a second import of them appends nothing."""
    base = tmp_path / "runs"
    for run in range(JOBS):
        points(begin_file(base / f"run-{run}"), 0, 5)
    with counted_requests(monkeypatch) as sent:
        report = await read_in(log, sandbox, base)
        assert (report.jobs, report.points, report.found, report.visited) == (JOBS, 5 * JOBS, JOBS, JOBS)
        assert TURNS <= len(sent) <= TURNS * JOBS / 2  # the slower a machine, the fewer turns meet
        sent.clear()
        report = await read_in(log, sandbox, base)
        assert (report.jobs, report.files, report.found, sent) == (0, 0, 0, [])
    assert len(await metrics_of(log, sandbox)) == JOBS


async def test_jobs_of_other_directories_are_passed_over(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the log has of them, nothing is decoded but how they begin: the command and the job."""
    for run in range(10):
        points(begin_file(tmp_path / "others" / f"run-{run}"), 0, 5)
    points(begin_file(tmp_path / "ours" / "run"), 0, 5)
    for directory in ("others", "ours"):
        await read_in(log, sandbox, tmp_path / directory)
    points(event_file(tmp_path / "ours" / "run"), 5, 5)
    decoded: list[object] = []

    def counted(entry: Entry) -> Record | None:
        found = decode(entry)
        decoded.append(found and found.message)
        return found

    monkeypatch.setattr(log_positions, "decode", counted)
    report = await read_in(log, sandbox, tmp_path / "ours")
    assert (report.jobs, report.points) == (0, 5)
    indexed = [message for message in decoded if isinstance(message, SummaryFileIndexed)]
    assert len(indexed) == 3
    assert (await metrics_of(log, sandbox))["run", 10_000, "loss"] == list(range(10))


async def test_tags_of_a_job_are_counted_on_after_a_restart(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S15: 12,000 tags of which 8,000 have rows before the watcher starts again."""
    base = tmp_path / "runs"
    file = begin_file(base / "a")
    add_tags(file, range(8_000))
    await sandbox.indexer().start()
    report = await read_in(log, sandbox, base)
    assert (report.points, report.left_out) == (8_000, 0)
    await until_caught_up(log, sandbox)
    add_tags(file, [*range(8_000, 12_000), 5], step=1)
    indexed = IndexedTags(sandbox.dsn)
    report = await import_directory(watcher_service(log, sandbox), store_of(sandbox), base, indexed=indexed)
    assert (report.points, report.left_out) == (2_001, 2_000)
    found = {tag for _, _, tag in await metrics_of(log, sandbox)}
    assert found == {f"tag/{number}" for number in range(10_000)}
    message = "2,000 values have tags after the first 10,000 of their job: these are not indexed"
    assert await letters_of(log, sandbox) == [("too_many_tags", message)]


async def test_tags_are_counted_from_the_start_of_a_watcher_while_postgres_is_away(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    base = tmp_path / "runs"
    file = begin_file(base / "a")
    add_tags(file, range(10))
    await read_in(log, sandbox, base)
    add_tags(file, range(10, 20))
    indexed = IndexedTags("postgresql://nobody@127.0.0.1:1/none")
    report = await import_directory(watcher_service(log, sandbox), store_of(sandbox), base, indexed=indexed)
    assert (report.points, report.left_out) == (10, 0)


def add_tags(file: Path, numbers: Iterable[int], step: int = 0) -> None:
    """Appends a point of each of these tags to an event file."""
    with file.open("ab") as opened:
        opened.write(b"".join(record(f"tag/{number}", step, step, 0.5) for number in numbers))
