"""What is imported from event files is exported again: as event files of the same values, and as tables."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from pyarrow import parquet
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.integration.command_line import answer, tried
from tests.integration.summaries.given import Rows, given_tables, points
from tests.unit.summaries.tensorboard_files import (
    items_of,
    only_file,
    same,
    scalars_of,
    scalars_of_tensorboard,
    whole,
)
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.store import Store
from trackside.projections.summaries.series import read_series
from trackside.projections.summaries.whole_series import all_values, point_chunks
from trackside.summaries.event_files.values import Graph, GraphNode, Histogram, HParams, Image, TextRows
from trackside.summaries.event_files.writing import (
    first_record,
    graph_record,
    hparams_records,
    record,
    tensor_scalar,
)
from trackside.summaries.kinds.registry import KINDS
from trackside.summary_indexer.watching import records
from trackside.summary_indexer.watching.packing import ItemPacker

pytestmark = pytest.mark.usefixtures("store_address")

JOB, TASK = "summary-00000000000000cc", "digits-1.1"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x03\x00\x00\x00\x02\x08\x02\x00\x00\x00" + bytes(
    range(256)
)
SINGLE = [0.5, math.nan, math.inf, -math.inf, 0.0, 3.0]
DOUBLE = [0.1, math.nan, 1e300, 5e-324, -math.inf]


def written(path: Path) -> Path:
    """Writes an event file with values of all kinds."""
    parts = [first_record(1_000)]
    parts += [record("loss", step, 1_000 + step, value) for step, value in enumerate(SINGLE)]
    parts += [
        tensor_scalar("exact", -3 + step, 2_000 + step, value, double=True)
        for step, value in enumerate(DOUBLE)
    ]
    parts += [record("picture", step, 5_000, Image(PNG, 3, 2)) for step in (1, 2)]
    parts.append(record("weights", 4, 6_000, Histogram([0.0, 1.0], [1.0, 2.5], [3.0, 1.0], 0.0, 2.5, 4.0)))
    parts.append(record("notes", 5, 7_000, TextRows(["a line", "another \N{SNOWMAN}"], (2,))))
    parts.append(record("t", 6, 8_000, np.arange(6, dtype=np.int32).reshape(2, 3)))
    parts.append(
        graph_record(0, 9_000, Graph([GraphNode("a", "Const", [], []), GraphNode("b", "Relu", ["a"], [])]))
    )
    parts.append(hparams_records(0, 9_500, HParams({"lr": 0.1, "name": "x"}, ["loss"])))
    path.write_bytes(b"".join(parts))
    return path


async def index(rows: Rows, store: Store, path: Path) -> None:
    """Writes the rows of a file as the watcher's records make them."""
    packer, limit = ItemPacker(KINDS, lambda: store), records.TagLimit()
    for piece in whole(path):
        items = packer.pack(1, records.items_of(piece.decoded, limit))
        await rows.write(
            *records.point_messages(JOB, 1, piece.decoded, limit), *records.item_messages(JOB, items)
        )


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the file that is imported."""
    return written(tmp_path_factory.mktemp("runs") / "events.out.tfevents.1.host")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(module_tables: str, store_folder: Path, original: Path) -> str:
    """Returns a database with the rows of the file, and of a task of two attempts."""
    async with given_tables(module_tables) as rows:
        await rows.directory(JOB, "run", 1)
        await index(rows, Store(FileBlobs(store_folder)), original)
        await rows.write(points(TASK, "loss", [1.0, 2.0, 3.0]), points(TASK, "loss", [9.0], 1, attempt=2))
        await rows.attempt(TASK, "s", 2, 1)
    return module_tables


def test_event_files_have_all_that_was_imported_and_tensorboard_shows_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, original: Path
) -> None:
    found = answer(capsys, "summaries", "export", JOB, "--out", str(tmp_path / "out"))
    values = len(items_of(whole(original)))
    assert (found["points"], found["values"], found["left_out"]) == (len(SINGLE) + len(DOUBLE), values, 0)
    path = only_file(tmp_path / "out" / JOB)
    before, after = whole(original), whole(path)
    assert all(piece.problem is None for piece in after)
    assert same(scalars_of(before), scalars_of(after))
    assert same(scalars_of_tensorboard(original), scalars_of_tensorboard(path))
    assert shape(items_of(before)) == shape(items_of(after))
    shown = EventAccumulator(str(path))
    shown.Reload()
    scalars = shown.Scalars("loss")
    assert [point.step for point in scalars] == list(range(len(SINGLE)))
    assert np.array_equal([point.value for point in scalars], SINGLE, equal_nan=True)
    assert [image.encoded_image_string for image in shown.Images("picture")] == [PNG, PNG]
    assert shown.Histograms("weights")[0].histogram_value.num == 4
    assert {"exact", "notes", "t"} <= set(shown.Tags()["tensors"])
    assert len(shown.Graph().node) == 2


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_have_every_point_and_the_digests_of_images(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
) -> None:
    out = tmp_path / "out"
    answer(capsys, "summaries", "export", JOB, TASK, "--format", form, "--out", str(out))
    rows = table(out / f"scalars.{form}")
    exact = [row["value"] for row in rows if row["tag"] == "exact"]
    assert exact == pytest.approx(DOUBLE, rel=0, nan_ok=True)
    of_task = [(row["attempt"], row["step"], row["value"]) for row in rows if row["job"] == TASK]
    assert of_task == [(1, 0, 1.0), (2, 1, 9.0)]
    images = [row for row in table(out / f"values.{form}") if row["kind"] == "image"]
    assert len(images) == 2 and len({row["sha256"] for row in images}) == 1
    other = tmp_path / "all"
    answer(capsys, "summaries", "export", TASK, "--superseded", "--format", form, "--out", str(other))
    assert [row["value"] for row in table(other / f"scalars.{form}")] == [1.0, 2.0, 3.0, 9.0]


def test_nothing_is_overwritten_and_nothing_is_left_of_an_export_that_failed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("kept")
    code, _, err = tried(capsys, "summaries", "export", JOB, "--out", str(out))
    assert code == 2 and "exists already" in err and [path.name for path in out.iterdir()] == ["mine"]
    monkeypatch.setenv("TRACKSIDE_STORE", str(tmp_path / "empty"))
    code, _, err = tried(capsys, "summaries", "export", JOB, "--out", str(tmp_path / "failed"))
    assert code == 1 and err
    assert [path for path in (tmp_path / "failed").rglob("*") if path.is_file()] == []
    code, _, err = tried(capsys, "summaries", "export", "nothing", "--out", str(tmp_path / "new"))
    assert code == 1 and "unknown_job" in err and not (tmp_path / "new").exists()
    assert tried(capsys, "summaries", "export", JOB, "--superseded", "--out", str(tmp_path / "new"))[0] == 2


async def test_a_series_is_read_in_parts_without_gaps_or_repeats(tables: str) -> None:
    async with given_tables(tables) as rows:
        again = points("j", "loss", [50.0] * 5, first=20, attempt=2)
        await rows.write(points("j", "loss", [float(step) for step in range(25)]), again)
        await rows.attempt("j", "s", 2, 20)

        async def read(connection: Any) -> list[list[float]]:
            series = await read_series(connection, ["j"], "scalar")
            assert [each async for each in all_values(connection, series[0], "text", superseded=True)] == []
            parts = point_chunks(connection, series, superseded=False, size=10)
            return [list(part.steps) async for part in parts]

        parts = await rows.read(read)
        assert [step for part in parts for step in part] == list(range(25)) and max(map(len, parts)) <= 10


def shape(items: list[Any]) -> list[Any]:
    """Returns items in a form that can be compared, by kind."""
    found = [(each.kind, each.tag, each.step, each.time_ms, each.index, repr(each.value)) for each in items]
    return sorted(found)


def table(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a table."""
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return rows
    numbers = {"attempt": int, "step": int, "value": float}
    with path.open(newline="") as file:
        return [
            {name: numbers.get(name, str)(text) for name, text in row.items()} for row in csv.DictReader(file)
        ]
