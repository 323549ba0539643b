"""The disk of the store is full while images are read: that is said and tried again, and nothing is lost."""

import hashlib
import random
from pathlib import Path

import pytest

from tests.integration.summary_indexer.harness import Sandbox
from tests.integration.summary_indexer.watched import (
    begin_file,
    event_file,
    has,
    has_event,
    has_problem,
    items_of,
    points,
    records,
    watching,
)
from tests.polling import poll_until
from tests.small_disk import small_disk
from trackside.contracts.summaries import MetricPointsReported
from trackside.eventlog.kafka import KafkaLog
from trackside.summaries.event_files.values import Image
from trackside.summaries.event_files.writing import record

HOUR_S = 3_600
IMAGES, IMAGE_BYTES = 40, 20_000
ROOM_BYTES = 200_000
"""Less than the images need."""

pytestmark = pytest.mark.usefixtures("dispatcher")


async def test_a_full_store_holds_back_images_and_no_points_of_other_files(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path, seed: int
) -> None:
    """S18: the bytes are in the store before the log refers to them."""
    rng = random.Random(seed)
    base, pictures = tmp_path / "runs", [rng.randbytes(IMAGE_BYTES) for _ in range(IMAGES)]
    path = begin_file(base / "pictures")
    points(begin_file(base / "numbers", 2), 0, 5)
    with small_disk(sandbox.folder / "small", "8m") as disk:
        disk.fill(leave_bytes=ROOM_BYTES)
        with path.open("ab") as file:
            file.write(b"".join(record("it", at, at, Image(each, 1, 1)) for at, each in enumerate(pictures)))
        async with watching(log, sandbox, base, HOUR_S, store="small") as report:
            await poll_until(has_problem(report, "pictures", "store_failed"))
            await poll_until(has_event(log, sandbox, "SummaryFileQuarantined"))
            points(event_file(base / "numbers", 2), 5, 5)
            await poll_until(has(report, 10))
            assert report.items == 0
            disk.empty()

            async def is_read() -> bool:
                return report.items == IMAGES and not report.problems

            await poll_until(is_read)
        digests = [hashlib.sha256(each).hexdigest() for each in pictures]
        items = await items_of(log, sandbox)
        assert [(item.step, item.artifact and item.artifact.sha256) for item in items] == [
            *enumerate(digests)
        ]
        stored = {each.name: each.read_bytes() for each in disk.folder.rglob("*") if each.is_file()}
        assert stored == dict(zip(digests, pictures, strict=True))
    messages = [each.message for each in await records(log, sandbox.topics.metrics)]
    reported = [each.series for each in messages if isinstance(each, MetricPointsReported)]
    assert [step for batch in reported for series in batch for step in series.steps] == list(range(10))
