import re
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from trackside.summaries.event_files import values
from trackside.summaries.kinds.arrays import DTYPES

FLOATS = st.floats() | st.sampled_from([5e-324, -5e-324, 1.7976931348623157e308, -0.0])
ANY_TEXT = st.text() | st.text(st.sampled_from("\x00\x1b\r\n\t\x9b\u202eé漢\ud800"))
SIGNED = st.integers(-(1 << 63), (1 << 63) - 1)


def shapes(draw_max: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Returns shapes of few dimensions, also of none and of size 0."""
    return arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=draw_max)


TENSORS = st.sampled_from(sorted(DTYPES)).flatmap(lambda dtype: arrays.arrays(dtype, shapes(4))) | st.builds(
    lambda seed, size: np.random.default_rng(seed).random(size, np.float32),
    st.integers(0, 99),
    st.sampled_from([5_000, 10_000]),
)
AXES: st.SearchStrategy[NDArray[np.float64] | None] = st.none() | arrays.arrays(np.float64, shapes(3))


@st.composite
def histograms(draw: st.DrawFn) -> values.Histogram:
    """Returns histograms, those too whose edges are in no order."""
    count = draw(st.integers(0, 8) | st.just(3_000))
    left, right, counts = ((draw(st.lists(FLOATS, min_size=8, max_size=8)) * 400)[:count] for _ in range(3))
    least, greatest, total = (draw(st.none() | FLOATS) for _ in range(3))
    nan, positive, negative = (draw(SIGNED) for _ in range(3))
    return values.Histogram(left, right, counts, least, greatest, total, nan, positive, negative)


NODES = st.builds(values.GraphNode, ANY_TEXT, ANY_TEXT, st.lists(ANY_TEXT), st.lists(ANY_TEXT), ANY_TEXT)
GRAPHS = st.builds(values.Graph, st.lists(NODES, max_size=8)) | st.builds(
    lambda node, count: values.Graph([node] * count), NODES, st.sampled_from([1, 2_000])
)
LANDSCAPES = st.builds(
    values.LossLandscape,
    AXES,
    AXES,
    AXES,
    st.none() | st.tuples(st.lists(SIGNED), st.lists(FLOATS), st.lists(FLOATS), st.lists(FLOATS)),
    st.none() | st.tuples(FLOATS, FLOATS, FLOATS),
    ANY_TEXT,
    ANY_TEXT,
    st.none() | SIGNED,
)
HPARAMS = st.builds(
    values.HParams,
    st.dictionaries(ANY_TEXT, st.none() | st.booleans() | FLOATS | ANY_TEXT | st.sampled_from(["nan", "inf"]))
    | st.integers(1, 3_000).map(lambda count: {f"layer {at}": at / 7 for at in range(count)}),
    st.lists(ANY_TEXT),
    ANY_TEXT,
    st.sampled_from([None, "succeeded", "failed", "running"]),
)
OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    "scalar": FLOATS,
    "image": st.builds(values.Image, st.binary(), SIGNED, SIGNED),
    "histogram": histograms(),
    "tensor": TENSORS,
    "text": st.builds(
        values.TextRows,
        st.lists(ANY_TEXT) | st.lists(ANY_TEXT.map(lambda text: text * 5_000), max_size=2),
        st.lists(SIGNED).map(tuple),
    ),
    "graph": GRAPHS,
    "loss_landscape": LANDSCAPES,
    "hparams": HPARAMS,
}


def same(one: Any, other: Any) -> bool:
    """Returns whether two values are the same, NaN too; of arrays every bit, of numbers all but -0.0."""
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, values.LossLandscape):
        axes = [(one.x, other.x), (one.y, other.y), (one.z, other.z)]
        rest = [(found.path, found.converged, found.decomposition, found.unit, found.steps_per_epoch)
                for found in (one, other)]  # fmt: skip
        return _text(rest[0]) == _text(rest[1]) and all(
            left is right if left is None else same(left, right) for left, right in axes
        )
    return _text(one) == _text(other)


def _text(value: Any) -> str:
    return re.sub(r"-0\.0(?![\de])", "0.0", repr(value))
