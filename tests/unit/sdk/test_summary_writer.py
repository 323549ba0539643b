"""SummaryWriter without a worker: torch's calls, and event files that hold what torch's hold."""

import inspect
import io
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image as PilImage
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.unit.summaries.tensorboard_files import items_of, scalars_of, whole
from trackside.sdk import SummaryWriter
from trackside.sdk.summaries.histograms import histogram_of
from trackside.sdk.summaries.pictures import encoded_image, image_of
from trackside.sdk.summaries.writer import INSTEAD
from trackside.summaries.event_files.values import Histogram

torch = pytest.importorskip("torch")
NAMES = [
    "__init__", "add_scalar", "add_scalars", "add_histogram", "add_histogram_raw", "add_image", "add_images",
    "add_figure", "add_text", "add_hparams", "add_graph", "add_tensor", "flush", "close", "get_logdir",
]  # fmt: skip


def torch_writer() -> Any:
    return pytest.importorskip("torch.utils.tensorboard").SummaryWriter


@pytest.mark.parametrize("name", NAMES)
def test_each_call_has_the_parameters_of_torchs_in_their_order_with_their_defaults(name: str) -> None:
    def shape(of: Any) -> list[tuple[str, Any, Any]]:
        return [(each.name, each.kind, each.default) for each in inspect.signature(of).parameters.values()]

    assert shape(getattr(SummaryWriter, name)) == shape(getattr(torch_writer(), name))


def test_arguments_of_tensorboardx_are_taken_too() -> None:
    theirs: Any = pytest.importorskip("tensorboardX").SummaryWriter
    for name in ("add_scalars", "add_histogram", "add_histogram_raw", "add_image", "add_images", "add_text"):
        ours = inspect.signature(getattr(SummaryWriter, name)).parameters
        assert [*ours] == [*inspect.signature(getattr(theirs, name)).parameters]


@pytest.mark.thorough
def test_a_task_that_writes_no_summaries_does_not_import_numpy() -> None:
    code = "import sys, trackside.sdk; from trackside.sdk import trial; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def log_all(make: Callable[..., Any], folder: Path) -> None:
    random = np.random.default_rng(7)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    with make(str(folder), filename_suffix=".ours") as writer:
        for step in range(5):
            writer.add_scalar("loss", torch.tensor(1 / (step + 1)), step, walltime=1_700_000_000 + step)
        writer.add_scalar("array", np.array([0.5]), np.int64(7), 1_700_000_000.5)
        writer.add_scalar("odd", math.nan, 1, 1_700_000_000)
        writer.add_scalar("new", 0.1, 1, 1_700_000_000, new_style=True)
        writer.add_scalar("wide", 0.1, 1, 1_700_000_000, new_style=True, double_precision=True)
        writer.add_scalar("no step", 3)
        writer.add_scalars("both/parts", {"a": 1, "b": torch.tensor([2.0])}, 3, 1_700_000_000)
        writer.add_histogram("weights", torch.tensor(random.normal(size=200)), 2)
        writer.add_histogram("ten", random.normal(size=200), 2, bins=10)
        writer.add_histogram("joined", random.normal(size=200), 2, bins="fd", max_bins=4)
        writer.add_histogram("constant", np.ones(9), 2)
        writer.add_histogram_raw("raw", 0.0, 3.0, 4, 6.0, 10.0, [1.0, 2.0, 3.0], [1, 2, 1], 2)
        writer.add_text("notes", "# *hello*", 4)
        writer.add_tensor("tensor", torch.arange(6, dtype=torch.float32).reshape(2, 3), 5)
        writer.add_image("chw", random.random((3, 5, 4)), 1)
        writer.add_image("hw", random.integers(0, 255, (5, 4), np.uint8), 1, dataformats="HW")
        writer.add_image("rgba", random.integers(0, 255, (5, 4, 4), np.uint8), 1, dataformats="HWC")
        writer.add_images("batch", random.random((10, 3, 4, 5)), 1)
        writer.add_images("gray batch", torch.rand(3, 4, 5, 1), 1, dataformats="NHWC")
        writer.add_hparams({"rate": 0.1, "name": "adam", "none": None}, {"best": 0.9}, run_name="hp")
        writer.add_graph(model, torch.rand(2, 3))
        assert writer.get_logdir() == str(folder)


def read_folder(folder: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    points: dict[str, Any] = {}
    items: dict[str, list[Any]] = {}
    for path in sorted(folder.rglob("events.out.tfevents.*")):
        run = path.parent.relative_to(folder)
        for tag, rows in scalars_of(whole(path)).items():
            # Without a walltime it is now.
            points[f"{run}:{tag}"] = [row if row[1] < 1_700_000_010_000 else (row[0], row[2]) for row in rows]
        for item in items_of(whole(path)):
            items.setdefault(f"{run}:{item.kind}:{item.tag}", []).append((item.step, item.index, item.value))
    return points, items


def pixels_of(data: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(PilImage.open(io.BytesIO(data)).convert("RGBA"))


def without_edge(histogram: Histogram) -> Histogram:
    """Returns a histogram without the bucket that only has its left edge, which torch always writes."""
    if histogram.counts[0] or histogram.left[0] != histogram.right[0]:
        return histogram
    left, right, counts = histogram.left[1:], histogram.right[1:], histogram.counts[1:]
    return replace(histogram, left=left, right=right, counts=counts)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:`torch.jit.trace.*` is deprecated")  # torch's writer calls it
def test_files_hold_what_those_of_torchs_writer_hold(tmp_path: Path) -> None:
    """S14: scalars, histograms, images, texts, tensors, graphs and hyper-parameters."""
    torch.manual_seed(1)
    log_all(torch_writer(), tmp_path / "theirs")
    torch.manual_seed(1)
    log_all(SummaryWriter, tmp_path / "ours")
    theirs, their_items = read_folder(tmp_path / "theirs")
    ours, our_items = read_folder(tmp_path / "ours")
    assert repr(ours) == repr(theirs)  # NaN is not equal to itself
    graph, their_graph = our_items.pop(".:graph:graph")[0][2], their_items.pop(".:graph:graph")[0][2]
    assert [*our_items] == [*their_items]
    operators = [node.op for node in graph.nodes]
    assert sorted(operators) == sorted(node.op for node in their_graph.nodes)
    for key, items in our_items.items():
        for (step, index, value), (step_2, index_2, their_value) in zip(items, their_items[key], strict=True):
            assert (step, index) == (step_2, index_2), key
            if ":image:" in key:
                assert (pixels_of(value.data) == pixels_of(their_value.data)).all(), key
                assert (value.width, value.height) == (their_value.width, their_value.height)
            elif ":tensor:" in key:
                assert value.dtype == their_value.dtype
                assert (value == their_value).all()
            elif ":histogram:" in key:
                assert without_edge(value) == without_edge(their_value), key
            else:
                assert value == their_value, key


@pytest.mark.thorough
def test_a_graph_has_the_edges_between_modules(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), torch.rand(2, 3))
    (item,) = items_of(whole(next(tmp_path.iterdir())))
    names = {node.name for node in item.value.nodes}
    assert all(each in names for node in item.value.nodes for each in node.inputs)
    (relu,) = [node for node in item.value.nodes if node.op == "aten::relu"]
    assert relu.name.startswith("Sequential/ReLU[1]/") and relu.inputs[0].startswith("Sequential/Linear[0]/")


def test_figures_are_drawn_and_closed(tmp_path: Path) -> None:
    mpl.use("agg")
    import matplotlib.pyplot as plt

    def drawn() -> Any:
        figure, axes = plt.subplots(figsize=(2, 1), dpi=50)
        axes.plot([1, 2])
        return figure

    theirs = torch_writer()(str(tmp_path / "theirs"))
    ours = SummaryWriter(str(tmp_path / "ours"))
    for writer in (theirs, ours):
        writer.add_figure("one", drawn(), 1)
        writer.add_figure("two", [drawn(), drawn()], 1)
        writer.add_figure("kept", kept := drawn(), 1, close=False)
        assert plt.get_fignums() == [kept.number]
        plt.close(kept)
        writer.close()
    (_, their_items), (_, our_items) = read_folder(tmp_path / "theirs"), read_folder(tmp_path / "ours")
    for key, [(_, _, value)] in our_items.items():
        assert (pixels_of(value.data) == pixels_of(their_items[key][0][2].data)).all(), key


def test_each_value_is_in_the_file_at_once_and_steps_from_purge_step_on_are_replaced(tmp_path: Path) -> None:
    """S17."""
    writer = SummaryWriter(tmp_path / "a")
    writer.add_scalar("loss", 1.0, 0)
    (path,) = (tmp_path / "a").iterdir()
    assert scalars_of(whole(path))["loss"][0][0] == 0
    writer.close()
    writer.close()
    writer.add_scalar("loss", 2.0, 1)  # as with torch's: another file
    writer.close()
    assert len([*(tmp_path / "a").iterdir()]) == 2
    for purge_step in (None, 3):
        with SummaryWriter(tmp_path / "b", purge_step=purge_step) as writer:
            for step in range(purge_step or 0, 5):
                writer.add_scalar("loss", purge_step or 0, step)
    found = EventAccumulator(str(tmp_path / "b"))
    found.Reload()
    assert [event.value for event in found.Scalars("loss")] == [0, 0, 0, 3, 3]


@given(arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2, 3, 4]))))
def test_a_png_holds_the_pixels(pixels: Any) -> None:
    found = PilImage.open(io.BytesIO(encoded_image(pixels).data))
    assert (np.asarray(found).reshape(pixels.shape) == pixels).all()


@given(st.lists(st.floats(allow_subnormal=True), min_size=1, max_size=40), st.sampled_from([None, 1, 3]))
def test_a_histogram_counts_each_value_that_is_finite(values: list[float], max_bins: int | None) -> None:
    finite = [value for value in values if math.isfinite(value) and abs(value) < 1e150]
    beyond = [math.nan, math.inf, -math.inf, -math.inf]
    histogram = histogram_of([*finite, *beyond], "tensorflow", max_bins)
    assert sum(histogram.counts) == len(finite)
    assert (histogram.nan, histogram.positive_inf, histogram.negative_inf) == (1, 1, 2)
    if finite:
        assert (histogram.minimum, histogram.maximum) == (min(finite), max(finite))
        assert histogram.left[0] <= min(finite) and max(finite) <= histogram.right[-1]


@pytest.mark.parametrize(
    ("call", "given", "error", "said"),
    [
        ("scalar", ("loss", np.ones(2)), TypeError, r"add_scalar: expected one number, got .* \(2,\)"),
        ("scalar", ("loss", "much"), TypeError, "got str"),
        ("histogram", ("weights", []), ValueError, "at least one value"),
        ("histogram_raw", ("w", 0, 1, 2, 3, 4, [1], [1, 2]), ValueError, "2 bucket_counts have 1 bucket"),
        ("image", ("picture", np.ones((2, 2))), ValueError, "doesn't have the axes 'CHW'"),
        ("image", ("p", np.ones((2, 2)), 0, 0.0, "XY"), ValueError, "expected the letters HW, CHW or NCHW"),
        ("image", ("picture", np.ones((5, 2, 2))), ValueError, "1 to 4 channels"),
        ("hparams", ([1], {}), TypeError, "must be dicts"),
        ("hparams", ({"rate": [1]}, {}), ValueError, "rate must be a number"),
        ("hparams", ({"rate": 1.0}, {}, {"rate": ["a"]}), TypeError, "hparam_domain_discrete"),
        ("graph", ({},), TypeError, "expected a model of torch, got dict"),
    ],
)
def test_values_that_are_none_are_refused_with_what_was_expected(
    tmp_path: Path, call: str, given: tuple[Any, ...], error: type[Exception], said: str
) -> None:
    with SummaryWriter(tmp_path) as writer, pytest.raises(error, match=said):
        getattr(writer, f"add_{call}")(*given)


def test_a_call_that_is_not_there_says_what_to_use(tmp_path: Path) -> None:
    theirs: Any = pytest.importorskip("tensorboardX").SummaryWriter
    with SummaryWriter(tmp_path) as writer:
        absent = {
            name
            for of in (torch_writer(), theirs)
            for name, call in inspect.getmembers(of, inspect.isfunction)
            if not name.startswith("_") and not hasattr(writer, name)
        }
        assert absent <= {*INSTEAD}
        for name, instead in INSTEAD.items():
            with pytest.raises(AttributeError, match=re.escape(f"has no {name}; instead: {instead}")):
                getattr(writer, name)
        with pytest.raises(AttributeError, match=r"has no add_scaler$"):
            writer.add_scaler("loss", 1)  # type: ignore[attr-defined]


def test_numbers_that_are_not_finite_are_as_dark_or_as_bright_as_can_be() -> None:
    image = image_of([[math.nan, math.inf], [-math.inf, 0.5]], "HW")
    assert pixels_of(image.data)[:, :, 0].tolist() == [[0, 255], [0, 127]]
