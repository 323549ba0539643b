"""S18: what is whole is read, the rest is named, and reading continues where the log ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rights import obeying_rights
from trackside.artifacts.errors import StoreFull, StoreMissing
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.summaries import MetricPointsReported, SummaryItemsReported
from trackside.summaries.directories import FileFormat
from trackside.summaries.event_files import reading
from trackside.summaries.event_files.framing import frame
from trackside.summaries.event_files.protos import mindspore_pb2
from trackside.summaries.event_files.values import Image
from trackside.summaries.event_files.writing import first_record, record
from trackside.summaries.kinds.registry import KINDS
from trackside.summary_indexer.watching.file_reader import (
    ComparedFile,
    FileReader,
    JobFile,
    ReadStep,
    compare_files,
)
from trackside.summary_indexer.watching.packing import ArtifactStore, ItemPacker
from trackside.summary_indexer.watching.records import TagLimit, session_of

NAME = "events.out.tfevents.1"
RECORDS = [first_record(1_000), *(record("loss", step, step * 1000, step / 2) for step in range(1, 6))]
FILE = b"".join(RECORDS)


def no_store() -> ArtifactStore:
    raise StoreMissing("no store for artifacts is set")


def reader() -> FileReader:
    return FileReader(ItemPacker(KINDS, no_store))


def file_in(folder: Path, data: bytes, name: str = NAME, held: FileFormat = "tensorboard") -> JobFile:
    (folder / name).write_bytes(data)
    return JobFile("summary-1", 1, str(folder), ".", name, held)


def read(by: FileReader, file: JobFile, start: int = 0, fingerprint: str = "") -> list[ReadStep]:
    return list(by.read(file, start, TagLimit(), fingerprint))


def steps_of(found: list[ReadStep], but: type[Message] | None = None) -> list[int]:
    messages = [message for step in found for message in step.messages]
    messages = [message for message in messages if but is None or not isinstance(message, but)]
    assert all(isinstance(message, MetricPointsReported) for message in messages)
    return [at for message in messages for series in message.series for at in series.steps]  # type: ignore[attr-defined]


def test_a_file_that_grows_is_read_on_by_the_same_reader_and_by_another(tmp_path: Path) -> None:
    first = reader()
    cut = len(RECORDS[0] + RECORDS[1] + RECORDS[2])
    (step,) = read(first, file_in(tmp_path, FILE[: cut + 5]))
    assert (steps_of([step]), step.start, step.end, step.problem) == ([1, 2], 0, cut, None)
    file = file_in(tmp_path, FILE)
    for each in (reader(), first):
        (step,) = read(each, file, cut)
        assert (steps_of([step]), step.end, step.points) == ([3, 4, 5], len(FILE), 3)


def test_a_file_that_shrinks_or_is_replaced_or_vanishes_is_named(tmp_path: Path) -> None:
    by = reader()
    file = file_in(tmp_path, FILE)
    read(by, file)
    file_in(tmp_path, FILE[:-10])
    assert [(step.problem, step.end) for step in read(by, file, len(FILE))] == [("file_shrunk", len(FILE))]
    file_in(tmp_path, first_record(2_000) + FILE[len(RECORDS[0]) :] + RECORDS[1])
    assert [step.problem for step in read(by, file, len(FILE))] == ["file_replaced"]
    (tmp_path / NAME).unlink()
    assert [step.problem for step in read(by, file, len(FILE))] == ["file_vanished"]
    file_in(tmp_path, FILE + RECORDS[1])
    assert [(step.problem, step.points) for step in read(by, file, len(FILE))] == [(None, 1)]


@pytest.mark.parametrize("more", [b"", RECORDS[1], FILE])
def test_another_file_of_no_lesser_length_is_noticed_after_a_restart(tmp_path: Path, more: bytes) -> None:
    """S18: all of its records have the lengths of those that were read, only the times are others."""
    file = file_in(tmp_path, FILE)
    (step,) = read(reader(), file)
    assert read(reader(), file, step.end, step.fingerprint) == []
    other = first_record(2_000) + b"".join(record("loss", at, at, 9.0) for at in range(1, 6))
    assert len(other) == len(FILE)
    file_in(tmp_path, other + more)
    (found,) = read(reader(), file, step.end, step.fingerprint)
    assert (found.problem, found.end, found.points) == ("file_replaced", len(FILE), 0)
    file_in(tmp_path, FILE + more)
    assert [each.problem for each in read(reader(), file, step.end, step.fingerprint)] == [None] * bool(more)
    assert compare_files(str(tmp_path), [ComparedFile(NAME, step.end, step.fingerprint)]) == [True]
    file_in(tmp_path, other + more)
    missing = ComparedFile("missing", step.end, step.fingerprint)
    assert compare_files(str(tmp_path), [missing, missing._replace(path=NAME)]) == [False, False]


READS = """
import sys
from tests.unit.summary_indexer.watching.test_file_reader import NAME, read, reader
from trackside.summary_indexer.watching.file_reader import ComparedFile, JobFile, compare_files

folder = sys.argv[1]
file = JobFile("summary-1", 1, folder, ".", NAME, "tensorboard")
for start in (0, 10):
    print(*(step.problem for step in read(reader(), file, start)))
print(compare_files(folder, [ComparedFile(NAME, 10, "ab")]))
"""


@pytest.mark.thorough
def test_a_file_without_rights_is_named(tmp_path: Path) -> None:
    """S18: by a process that must obey them, also where the tests are run by root."""
    file_in(tmp_path, FILE)
    (tmp_path / NAME).chmod(0)
    command = obeying_rights([sys.executable, "-c", READS, str(tmp_path)])
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout.split("\n")[:3] == ["no_rights", "no_rights", "[False]"], found.stderr


def test_a_link_in_the_place_of_a_file_is_not_read(tmp_path: Path) -> None:
    file = file_in(tmp_path, FILE)
    (tmp_path / NAME).rename(tmp_path / "moved")
    (tmp_path / NAME).symlink_to(tmp_path / "moved")
    assert [(step.problem, step.points) for step in read(reader(), file)] == [("file_vanished", 0)]


def test_a_store_that_is_missing_or_full_stops_a_file_before_images_until_it_works(tmp_path: Path) -> None:
    pytest.importorskip("trackside.summaries.kinds.image")
    picture = record("picture", 1, 1, Image(PNG, 1, 1))
    file = file_in(tmp_path, FILE + picture)
    full: list[bool] = [True]

    def store() -> ArtifactStore:
        raise StoreFull("no space") if full[0] else StoreMissing("none")

    by = FileReader(ItemPacker(KINDS, store))
    for _ in range(2):
        (step,) = read(by, file)
        assert (step.problem, step.end, step.messages) == ("store_failed", 0, [])
        full[0] = False


def test_a_store_that_fails_late_keeps_the_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S17: reading goes on behind the piece that the log has, and its points begin nothing again."""
    monkeypatch.setattr(reading, "PIECE", 256)
    rest = b"".join(record("loss", step, step, step / 2) for step in range(6, 12))
    file = file_in(tmp_path, FILE + record("picture", 1, 1, Image(PNG, 1, 1)) + rest)
    stores: list[ArtifactStore] = []

    def store() -> ArtifactStore:
        if not stores:
            raise StoreMissing("none yet")
        return stores[0]

    by = FileReader(ItemPacker(KINDS, store))
    *first, failed = read(by, file)
    assert first and failed.problem == "store_failed"
    (tmp_path / "store").mkdir()
    stores.append(open_store(StoreSettings(store=str(tmp_path / "store"))))
    found = read(by, file, failed.end, first[-1].fingerprint)
    messages = [message for step in [*first, *found] for message in step.messages]
    sessions = {message.attempt for message in messages if isinstance(message, MetricPointsReported)}
    assert sessions == {session_of(1, 0)}
    assert steps_of([*first, *found], but=SummaryItemsReported) == list(range(1, 12))


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000"
    "00000301010018dd8db00000000049454e44ae426082"
)


def test_a_graph_of_mindspore_is_read_once_and_one_that_is_damaged_is_named(tmp_path: Path) -> None:
    model = mindspore_pb2.Model()
    model.graph.node.add(name="1", op_type="Add", full_name="a/Add")
    data = model.SerializeToString()
    graph = file_in(tmp_path, data, "ms_output.pb", "mindspore_graph")
    (step,) = read(reader(), graph)
    assert (step.end, step.problem) == (len(data), None)
    assert read(reader(), graph, len(data)) == []
    (step,) = read(reader(), file_in(tmp_path, b"\xff\xff", "ms_output.pb", "mindspore_graph"))
    assert (step.end, step.problem) == (0, "damaged_graph")


def test_decoders_of_the_newest_files_only_are_remembered(tmp_path: Path) -> None:
    by = FileReader(ItemPacker(KINDS, no_store), remembered=2)
    for name in ("a", "b", "c", "a"):
        read(by, file_in(tmp_path, FILE, f"{NAME}.{name}"))
    for name in ("a", "b", "c"):
        file = file_in(tmp_path, FILE + RECORDS[1], f"{NAME}.{name}")
        assert [step.points for step in read(by, file, len(FILE))] == [1]


def test_the_lineage_of_mindspore_is_reported_as_hyper_parameters(tmp_path: Path) -> None:
    """S22: by the name of the file, as field 6 of a record is another thing in other files."""
    parameters = mindspore_pb2.TrainLineage.HyperParameters(optimizer="Momentum", learning_rate=0.1)
    lineage = mindspore_pb2.TrainLineage(hyper_parameters=parameters)
    version = mindspore_pb2.LineageEvent(wall_time=1.0, version="Mindspore.Event:1")
    events = [version, mindspore_pb2.LineageEvent(wall_time=2.0, train_lineage=lineage)]
    frames = [frame(event.SerializeToString()) for event in events]
    name = "events.summary.1700000000.host_lineage"
    file = file_in(tmp_path, b"".join(frames), name, "mindspore_lineage")
    for start in (0, len(frames[0])):
        (step,) = read(reader(), file, start)
        assert (step.problem, step.end, step.items) == (None, len(b"".join(frames)), 1)
        (message,) = step.messages
        assert isinstance(message, SummaryItemsReported)
        (item,) = message.items
        assert (item.kind, item.tag) == ("hparams", "lineage/train")
        assert item.body["value"]["values"] == {"optimizer": "Momentum", "learning_rate": 0.1}
    (step,) = read(reader(), file, len(frames[0]) - 1)
    assert step.problem == "file_replaced"
    (step,) = read(reader(), file_in(tmp_path, FILE, name, "mindspore_lineage"))
    assert step.problem == "unknown_format"
