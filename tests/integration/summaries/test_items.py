"""Values that are no numbers, read back from rows and from the store."""

from pathlib import Path

import numpy as np
import pytest

from tests.integration.summaries.given import Rows, items, reported
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.errors import ArtifactMissing
from trackside.artifacts.store import Store
from trackside.contracts.tasks.summaries import ItemArtifact, ReportedItem
from trackside.projections.summaries.errors import SummaryReadRefused
from trackside.projections.summaries.items import ValueQuery, read_value, read_values
from trackside.projections.summaries.values import GraphQuery, read_graph, read_tensor, unpack_value
from trackside.summaries.event_files.values import Graph, GraphNode, Image, TextRows


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "store").mkdir()
    return Store(FileBlobs(tmp_path / "store"))


async def refusal(rows: Rows, query: ValueQuery, step: int) -> SummaryReadRefused:
    with pytest.raises(SummaryReadRefused) as refused:
        await rows.read(lambda c: read_value(c, query, step))
    return refused.value


async def test_a_page_of_values_keeps_the_first_and_the_last_step(rows: Rows, store: Store) -> None:
    """S15: a cap is the size of a page, and all values stay."""
    texts = [reported(store, "text", TextRows([f"text {step}"]), step) for step in range(700)]
    await rows.write(items("j", *texts))
    page = await rows.read(lambda c: read_values(c, ValueQuery("j", "text", "a")))
    assert (page.steps, len(page.values)) == (700, 500)
    assert (page.values[0].step, page.values[-1].step) == (0, 699)
    left_out = min(set(range(700)) - {value.step for value in page.values})
    value = await rows.read(lambda c: read_value(c, ValueQuery("j", "text", "a"), left_out))
    assert unpack_value(store, value) == TextRows([f"text {left_out}"])


async def test_values_of_a_session_count_until_a_later_one_begins(rows: Rows, store: Store) -> None:
    """S17."""
    for session, first in ((10_000, 0), (20_000, 2)):
        found = [reported(store, "text", TextRows([str(session)]), step) for step in range(first, first + 4)]
        await rows.write(items("j", *found, attempt=session, stream="j"))
    page = await rows.read(lambda c: read_values(c, ValueQuery("j", "text", "a")))
    assert [(value.step, value.attempt) for value in page.values] == [
        *((0, 10_000), (1, 10_000)),
        *((step, 20_000) for step in range(2, 6)),
    ]
    every = await rows.read(lambda c: read_values(c, ValueQuery("j", "text", "a", superseded=True)))
    assert len(every.values) == 8


async def test_an_image_is_read_by_its_step_and_a_missing_step_names_those_near(
    rows: Rows, store: Store
) -> None:
    """S21."""
    picture = Image(b"\x89PNG\r\n\x1a\n" + bytes(32), 3, 2)
    await rows.write(items("j", *(reported(store, "image", picture, step) for step in (0, 10, 20))))
    query = ValueQuery("j", "image", "a")
    value = await rows.read(lambda c: read_value(c, query, 10))
    assert unpack_value(store, value).data == picture.data
    assert "10, 20" in (await refusal(rows, query, 14)).hint
    assert (await refusal(rows, query, 14)).code == "unknown_step"
    assert (await refusal(rows, ValueQuery("j", "image", "b"), 10)).code == "unknown_tag"
    assert (await refusal(rows, ValueQuery("nobody", "image", "a"), 10)).code == "unknown_job"
    assert (await refusal(rows, ValueQuery("j", "scalar", "a"), 10)).path == "kind"


async def test_a_tensor_is_read_as_statistics_histogram_or_slice(rows: Rows, store: Store) -> None:
    """S21."""
    array = np.arange(60_000, dtype=np.float32).reshape(300, 200)
    await rows.write(items("j", reported(store, "tensor", array)))
    value = await rows.read(lambda c: read_value(c, ValueQuery("j", "tensor", "a"), 0))
    assert value.sha256 is not None
    assert read_tensor(store, value, "statistics")["maximum"] == 59_999
    assert sum(read_tensor(store, value, "histogram")["counts"]) == 60_000
    assert read_tensor(store, value, "slice", "[1, 0:3]") == [200.0, 201.0, 202.0]
    for part, dims in (("slice", None), ("slice", "[0]"), ("slice", "[0, 999]"), ("statistics", "[0, 0]")):
        with pytest.raises(SummaryReadRefused) as refused:
            read_tensor(store, value, part, dims)  # type: ignore[arg-type]
        assert refused.value.path == "dims"


async def test_a_tensor_that_is_too_large_is_refused_before_it_is_read(rows: Rows, store: Store) -> None:
    """S21."""
    body = {"dtype": "float32", "shape": [10_000, 10_000]}
    large = ItemArtifact(sha256="5c" * 32, size_bytes=400_000_000)
    item = ReportedItem(kind="tensor", tag="a", step=0, time_ms=0, body=body, artifact=large)
    await rows.write(items("j", item))
    value = await rows.read(lambda c: read_value(c, ValueQuery("j", "tensor", "a"), 0))
    with pytest.raises(SummaryReadRefused, match="100,000,000 values"):
        read_tensor(store, value, "slice", "[0, 0]")


async def test_nodes_of_a_graph_are_read_by_scope_by_search_or_all(rows: Rows, store: Store) -> None:
    """S21."""
    names = [f"layer{layer}/{name}" for layer in range(300) for name in ("weight", "bias", "matmul")]
    graph = Graph([GraphNode(name, "Op", [], []) for name in names])
    await rows.write(items("j", reported(store, "graph", graph)))
    value = await rows.read(lambda c: read_value(c, ValueQuery("j", "graph", "a"), 0))
    assert value.sha256 is not None
    top = read_graph(store, value, GraphQuery())
    assert (top.total, top.entries[0].path, top.entries[0].nodes) == (300, "layer0", 3)
    below = read_graph(store, value, GraphQuery(parent="layer7"))
    assert [entry.name for entry in below.entries] == ["weight", "bias", "matmul"]
    found = read_graph(store, value, GraphQuery(search="BIAS", limit=5))
    assert (found.total, len(found.entries)) == (300, 5)
    assert read_graph(store, value, GraphQuery(everything=True)).total == 900
    with pytest.raises(SummaryReadRefused):
        read_graph(store, value, GraphQuery(parent="nowhere"))


async def test_bytes_that_the_store_lacks_are_said_to_be_missing(rows: Rows, store: Store) -> None:
    item = reported(store, "image", Image(b"no picture", 0, 0))
    await rows.write(items("j", item))
    assert item.artifact is not None
    store.delete(item.artifact.sha256, 2**62)
    value = await rows.read(lambda c: read_value(c, ValueQuery("j", "image", "a"), 0))
    with pytest.raises(ArtifactMissing):
        unpack_value(store, value)
