"""Directories with many jobs, many tags, odd names, and more images than the store has room for."""

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient

from tests.integration.summary_indexer.test_odd_values import tags
from tests.integration.summary_indexer.watched import (
    Runs,
    append,
    begin_file,
    points,
    until,
    until_problem,
    until_read,
)
from tests.small_disk import small_disk
from trackside.aggregates.summary.messages import SummaryFileIndexed
from trackside.contracts.envelope.message import Record
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry
from trackside.summaries.directories import printable_path
from trackside.summaries.event_files.values import Image
from trackside.summaries.event_files.writing import record
from trackside.summary_indexer.watching import log_positions
from trackside.summary_indexer.watching.tag_limits import IndexedTags

NAMES = [
    b"new\nline",
    b"no utf-8 \xff\xfe",
    b"tab\t and \x1b[31m",
    "学習 🔥".encode(),
    b" ",
    b"-rf",
    b"..a",
    b"a\\xff",
    b"a" * 255,
    b"\xff" * 255,
]
IMAGES, IMAGE_BYTES = 40, 20_000
ROOM_BYTES = 200_000
"""Less than the images need."""
JOBS = 300
TURNS = 4
"""How often a job waits for the log; what other jobs append meanwhile may share its request."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1: and a second import of them appends nothing."""
    for run in range(JOBS):
        begin_file(runs.base / f"run-{run}", steps=range(5))
    with counted_requests(monkeypatch) as sent:
        report = await runs.read_in()
        assert (report.jobs, report.points, report.found, report.scanned) == (JOBS, 5 * JOBS, JOBS, JOBS)
        assert TURNS <= len(sent) <= TURNS * JOBS / 2  # the slower a machine, the fewer turns meet
        sent.clear()
        report = await runs.read_in()
        assert (report.jobs, report.files, report.found, sent) == (0, 0, 0, [])
    assert len(await runs.metrics()) == JOBS


async def test_jobs_of_other_directories_are_passed_over(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the log has of them, nothing is decoded but how they begin: the command and the job."""
    for run in range(10):
        begin_file(runs.base / "others" / f"run-{run}", steps=range(5))
    path = begin_file(runs.base / "ours" / "run", steps=range(5))
    for directory in ("others", "ours"):
        await runs.read_in(runs.base / directory)
    points(path, range(5, 10))
    decoded: list[object] = []

    def counted(entry: Entry) -> Record | None:
        found = decode(entry)
        decoded.append(found and found.message)
        return found

    monkeypatch.setattr(log_positions, "decode", counted)
    report = await runs.read_in(runs.base / "ours")
    assert (report.jobs, report.points) == (0, 5)
    indexed = [message for message in decoded if isinstance(message, SummaryFileIndexed)]
    assert len(indexed) == 3
    assert (await runs.metrics())["run", 10_000, "loss"] == list(range(10))


async def test_tags_are_counted_from_the_start_of_a_watcher_while_postgres_is_away(runs: Runs) -> None:
    file = begin_file(runs.base / "a")
    append(file, *tags(range(10)))
    await runs.read_in()
    append(file, *tags(range(10, 20)))
    report = await runs.read_in(indexed=IndexedTags("postgresql://nobody@127.0.0.1:1/none"))
    assert (report.points, report.left_out) == (10, 0)


async def test_directories_and_files_of_any_name_are_read_and_known_again(runs: Runs) -> None:
    runs.base = runs.base.with_name(os.fsdecode(b"runs \xff\n"))
    for name in NAMES:
        path = begin_file(runs.base / os.fsdecode(name), steps=range(5))
        path.rename(path.with_name(os.fsdecode(name[:50] + b" tfevents \xff\n")))
    report = await runs.read_in()
    assert (report.jobs, report.points, report.problems) == (len(NAMES), 5 * len(NAMES), {})
    assert (await runs.read_in()).files == 0
    assert {path for path, _, _ in await runs.metrics()} == {
        printable_path(os.fsdecode(name)) for name in NAMES
    }


async def test_paths_and_names_that_are_too_long_for_the_log_are_said_and_the_rest_is_read(
    runs: Runs,
) -> None:
    """A file system has them: a path may have any length, and a byte that is no UTF-8 is shown as four."""
    path = begin_file(runs.base / "a", steps=range(5))
    too_long = os.fsdecode(b"\xff" * 252 + b".pb")
    (runs.base / "a" / too_long).write_bytes(b"")
    (runs.base / "a" / "events.summary.1.MS").write_bytes(path.read_bytes())
    at = os.open(runs.base, os.O_DIRECTORY)
    parts = ["d" * 250] * 20
    for part in parts:
        os.mkdir(part, dir_fd=at)
        below = os.open(part, os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    with os.fdopen(os.open(path.name, os.O_CREAT | os.O_WRONLY, dir_fd=at), "wb") as file:
        file.write(path.read_bytes())
    os.close(at)
    for _ in range(2):
        report = await runs.read_in()
        assert report.problems == {
            ("a", printable_path(too_long)): "name_too_long",
            ("/".join(parts), ""): "path_too_long",
        }
    assert await runs.metrics() == {("a", number, "loss"): list(range(5)) for number in (10_000, 20_000)}


async def test_a_full_store_holds_back_images_and_no_points_of_other_files(runs: Runs, seed: int) -> None:
    """S18: the bytes are in the store before the log refers to them."""
    rng = random.Random(seed)
    pictures = [rng.randbytes(IMAGE_BYTES) for _ in range(IMAGES)]
    path, numbers = begin_file(runs.base / "pictures"), begin_file(runs.base / "numbers", 2, steps=range(5))
    with small_disk(runs.folder / "small", "8m") as disk:
        disk.fill(leave_bytes=ROOM_BYTES)
        append(path, *(record("it", at, at, Image(each, 1, 1)) for at, each in enumerate(pictures)))
        async with runs.watching(store="small") as report:
            await until_problem(report, "pictures", "store_failed")
            await runs.until_event("SummaryFileQuarantined")
            points(numbers, range(5, 10))
            await until_read(report, 10)
            assert report.items == 0
            disk.empty()
            await until(lambda: report.items == IMAGES and not report.problems)
        digests = [hashlib.sha256(each).hexdigest() for each in pictures]
        items = [(item.step, item.artifact and item.artifact.sha256) for item in await runs.items()]
        assert items == [*enumerate(digests)]
        stored = {each.name: each.read_bytes() for each in disk.folder.rglob("*") if each.is_file()}
        assert stored == dict(zip(digests, pictures, strict=True))
    assert await runs.metrics() == {("numbers", 10_000, "loss"): [*range(10)]}
