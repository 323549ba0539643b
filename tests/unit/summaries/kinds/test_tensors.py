"""S21: a tensor as statistics, histogram or slice, within limits."""

import contextlib
import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as strategies
from numpy.typing import NDArray

from tests.unit.summaries.kinds.values import TENSORS
from trackside.summaries.kinds import arrays, tensor
from trackside.summaries.kinds.kind import ReadRefused
from trackside.summaries.kinds.tensor import TENSOR, slice_of

CUBE = np.arange(60).reshape(3, 4, 5)


@pytest.mark.thorough
@given(TENSORS)
@settings(max_examples=100, deadline=None)
def test_the_statistics_are_those_of_the_finite_values(array: NDArray[Any]) -> None:
    facts = arrays.statistics(array)
    wide = array.astype(np.longdouble).ravel()
    finite = wide[np.isfinite(wide)]
    counted = (np.isnan(wide).sum(), np.isposinf(wide).sum(), np.isneginf(wide).sum())
    assert (facts.nan, facts.positive_inf, facts.negative_inf) == counted
    if not finite.size:
        assert (facts.minimum, facts.maximum, facts.mean, facts.std) == (None, None, None, None)
        return
    assert facts.minimum == float(finite.min()) and facts.maximum == float(finite.max())
    assert facts.mean is not None and facts.std is not None
    largest = float(np.abs(finite).max())
    assert math.isclose(facts.mean, float(finite.mean()), rel_tol=1e-9, abs_tol=largest * 1e-12)
    assert math.isclose(facts.std, float(finite.std()), rel_tol=1e-9, abs_tol=max(largest * 1e-9, 1e-320))


@pytest.mark.thorough
@given(TENSORS)
@settings(max_examples=100, deadline=None)
def test_each_finite_value_is_in_one_of_at_most_30_buckets(array: NDArray[Any]) -> None:
    found = arrays.histogram(array)
    values = array.astype(np.float64).ravel()
    finite = values[np.isfinite(values)]
    assert len(found.counts) <= 30 and sum(found.counts) == finite.size
    assert found.left[1:] == found.right[:-1]
    if finite.size:
        assert (found.left[0], found.right[-1]) == (finite.min(), finite.max())
        assert np.isfinite(found.left).all() and np.isfinite(found.right).all()
    # Edges are rounded: a value on one may be counted in either of its buckets.
    near = max(float(np.abs(finite).max(initial=0)) * 1e-12, 5e-324)
    below = 0.0
    for right, count in zip(found.right, found.counts, strict=True):
        below += count
        assert (finite < right - near).sum() <= below <= (finite <= right + near).sum()


@pytest.mark.parametrize(
    ("values", "minimum", "maximum", "mean", "std"),
    [
        ([1.7976931348623157e308] * 2 + [-1.7976931348623157e308] * 2, -1.8e308, 1.8e308, 0.0, 1.8e308),
        ([5e-324, 1e-323, 1.5e-323], 5e-324, 1.5e-323, 1e-323, 5e-324),
        ([1e200, 3e200], 1e200, 3e200, 2e200, 1e200),
        ([1e9 + 1, 1e9 + 3], 1e9 + 1, 1e9 + 3, 1e9 + 2, 1.0),
        ([-0.0], 0.0, 0.0, 0.0, 0.0),
    ],
)
def test_no_value_is_too_large_or_too_small(
    values: list[float], minimum: float, maximum: float, mean: float, std: float
) -> None:
    facts = arrays.statistics(np.array(values))
    found = (facts.minimum, facts.maximum, facts.mean, facts.std)
    assert found == pytest.approx((min(values), max(values), mean, std if std < 1e308 else max(values)))


@pytest.mark.parametrize("count", [3, 7, 1_000, 100_003])
def test_rounding_brings_no_mean_over_the_largest_float(count: int) -> None:
    largest = np.finfo(np.float64).max
    facts = arrays.statistics(np.full(count, largest))
    assert (facts.mean, facts.std) == (largest, 0.0)
    mixed = arrays.statistics(np.concatenate([np.full(count, largest), np.full(count, -largest)]))
    assert mixed.std == pytest.approx(largest)


def test_values_of_several_blocks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(7).normal(3, 2, 10_000)
    array[::100] = np.nan
    monkeypatch.setattr(arrays, "_BLOCK", 64)
    facts, found = arrays.statistics(array), arrays.histogram(array)
    finite = array[np.isfinite(array)]
    assert (facts.mean, facts.std, facts.nan) == pytest.approx((finite.mean(), finite.std(), 100))
    assert found.counts == np.histogram(finite, 30)[0].tolist()
    assert found.total == pytest.approx(finite.sum())


def test_a_tensor_of_any_layout_is_stored_by_its_values_and_a_large_one_as_a_file_of_numpy() -> None:
    array = np.random.default_rng(1).normal(size=(100, 200)).astype(np.float32)
    packed = TENSOR.pack(array)
    assert packed.data is not None and packed.media_type == "application/x-npy"
    np.testing.assert_array_equal(np.load(io.BytesIO(packed.data), allow_pickle=False), array)
    assert packed.body["dtype"] == "float32" and packed.body["shape"] == [100, 200]
    assert len(packed.body["first"]) == 10 and "value" not in packed.body
    for cube in (CUBE.astype(">i4"), np.asfortranarray(CUBE), CUBE[::-1, ::2]):
        np.testing.assert_array_equal(TENSOR.unpack(*TENSOR.pack(cube)[:2]), cube)


DIMS = st.tuples(*[st.integers(-size, size - 1).map(str) | st.builds(
    lambda start, stop: f"{'' if start is None else start} : {'' if stop is None else stop}",
    st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9),
) for size in CUBE.shape])  # fmt: skip


@given(DIMS)
def test_a_slice_is_what_numpy_selects(parts: tuple[str, ...]) -> None:
    chosen = tuple(
        int(part)
        if ":" not in part
        else slice(*(int(bound) if bound.strip() else None for bound in part.split(":")))
        for part in parts
    )
    np.testing.assert_array_equal(slice_of(CUBE, f"[{', '.join(parts)}]"), CUBE[chosen])


@pytest.mark.parametrize(
    ("dims", "reason"),
    [
        ("0, :, 2:5", "expected an index or a range for each dimension, such as"),
        ("[0, :]", "of 2 dimensions; expected 3, as the tensor's shape [3, 4, 5] has"),
        ("[]", "of 0 dimensions; expected 3"),
        ("[0, :, 5]", "the index 5; expected an index of a dimension of size 5"),
        ("[-4, :, 0]", "the index -4; expected an index of a dimension of size 3"),
        ("[0, :, ]", "the dimension ''; expected an index such as 0, or a range"),
        ("[0, :, 0:4:2]", "the dimension '0:4:2'; expected"),
        ("[0, :, ...]", "the dimension '...'; expected"),
        ("[0, :, None]", "the dimension 'None'; expected"),
        ("[0, :, True]", "the dimension 'True'; expected"),
        ("[0, :, __import__('os')]", "the dimension"),
        ("[" + "9" * 10_000 + ", :, :]", "expected an index or a range"),
        ("[0, :, " + "9" * 100 + "]", "the dimension '999"),
    ],
)
def test_dims_that_do_not_fit_are_refused(dims: str, reason: str) -> None:
    with pytest.raises(ReadRefused) as refused:
        slice_of(CUBE, dims)
    assert reason in str(refused.value) and len(str(refused.value)) < 200


@given(st.text() | st.text(st.sampled_from("[]:,-0123 ")))
def test_any_text_is_a_slice_or_refused_and_a_scalar_has_no_dimension_to_choose(dims: str) -> None:
    assert slice_of(np.array(4.5), "[]") == 4.5
    with contextlib.suppress(ReadRefused):
        slice_of(CUBE, dims)


def test_a_slice_has_at_most_100_000_values_and_its_tensor_10_million() -> None:
    wide = np.broadcast_to(np.float32(1), (1_000, 10_000))
    assert slice_of(wide, "[0:10, :]").size == tensor.MAX_SLICE_VALUES
    with pytest.raises(ReadRefused, match="a slice of 110,000 values; expected at most 100,000"):
        slice_of(wide, "[0:11, :]")
    with pytest.raises(ReadRefused, match="a tensor of 10,010,000 values; expected at most 10,000,000"):
        slice_of(np.broadcast_to(np.float32(1), (1_001, 10_000)), "[0, 0]")


@given(strategies.arrays(np.float32, (2, 3)))
@settings(suppress_health_check=list(HealthCheck))
def test_values_that_are_not_finite_are_texts_in_json(array: NDArray[np.float32]) -> None:
    for row, found in zip(array.tolist(), tensor.json_values(array), strict=True):
        for value, shown in zip(row, found, strict=True):
            assert shown == value or (not math.isfinite(value) and float(shown) == value) or shown == "nan"
