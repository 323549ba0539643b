"""Values of event files that are no numbers: in the log, and in the store of the installation."""

import hashlib
from pathlib import Path

import pytest

from tests.integration.summary_indexer.harness import Sandbox
from tests.integration.summary_indexer.watched import (
    begin_file,
    has,
    has_problem,
    items_of,
    points,
    read_in,
    watching,
)
from tests.polling import poll_until
from trackside.eventlog.kafka import KafkaLog
from trackside.summaries.event_files.framing import frame
from trackside.summaries.event_files.protos import mindspore_pb2
from trackside.summaries.event_files.values import Image, TextRows
from trackside.summaries.event_files.writing import record

HOUR_S = 3_600

pytestmark = pytest.mark.usefixtures("dispatcher")


async def test_equal_pictures_are_in_the_store_once_and_small_values_in_the_log(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    base = tmp_path / "runs"
    pictures = [record("picture", step, step, Image(PNG, 1, 1)) for step in range(3)]
    with begin_file(base / "a").open("ab") as file:
        file.write(b"".join(pictures) + record("note", 1, 1, TextRows(["a short text"])))
    report = await read_in(log, sandbox, base)
    assert (report.items, report.problems) == (4, {})
    items = await items_of(log, sandbox)
    digest = hashlib.sha256(PNG).hexdigest()
    assert [(item.kind, item.step, item.artifact and item.artifact.sha256) for item in items] == [
        ("image", 0, digest),
        ("image", 1, digest),
        ("image", 2, digest),
        ("text", 1, None),
    ]
    (stored,) = (sandbox.folder / "store").rglob(digest)
    assert stored.read_bytes() == PNG


async def test_a_store_that_fails_holds_back_its_file_alone_until_it_works(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    base = tmp_path / "runs"
    with begin_file(base / "a").open("ab") as file:
        file.write(record("picture", 1, 1, Image(PNG, 1, 1)))
    points(begin_file(base / "b"), 0, 5)
    async with watching(log, sandbox, base, HOUR_S, store="gone") as report:
        await poll_until(has_problem(report, "a", "store_failed"))
        await poll_until(has(report, 5))
        (sandbox.folder / "gone").mkdir()

        async def is_read() -> bool:
            return report.items == 1 and not report.problems

        await poll_until(is_read)


async def test_lineage_of_mindspore_is_read_with_the_values_of_its_job(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S22."""
    base = tmp_path / "runs"
    stem = base / "a" / "x.out.events.summary.1600000000.host_MS"
    stem.parent.mkdir(parents=True)
    summary = mindspore_pb2.Event(wall_time=1.0, step=1)
    summary.summary.value.add(tag="loss", scalar_value=0.5)
    training = mindspore_pb2.LineageEvent(wall_time=2.0)
    training.train_lineage.hyper_parameters.learning_rate = 0.25
    version = mindspore_pb2.Event(wall_time=1.0, version="MindSpore.Event:1")
    for path, event in ((stem, summary), (stem.with_name(f"{stem.name}_lineage"), training)):
        path.write_bytes(b"".join(frame(each.SerializeToString()) for each in (version, event)))
    report = await read_in(log, sandbox, base)
    assert (report.points, report.items, report.problems) == (1, 1, {})
    (item,) = await items_of(log, sandbox)
    assert (item.kind, item.body["value"]["values"]["learning_rate"]) == ("hparams", 0.25)


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000"
    "00000301010018dd8db00000000049454e44ae426082"
)
