"""Splits of a dataset for federated runs (T24): whole, seeded, no part too small, uneven as asked for."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.sdk import splits
from trackside.sdk.splits import Parts

Split = Callable[..., Parts]
ALPHAS = st.floats(0.001, 1e6)
LABELS = st.lists(st.integers(0, 6), max_size=200)
DIGITS = [index % 10 for index in range(2_000)]


def labels_of(part: Sequence[int]) -> Counter[int]:
    return Counter(DIGITS[index] for index in part)


def attempted(split: Split, labels: Sequence[Any], parts: int, **options: Any) -> Parts | None:
    """Returns a split, or None where the labels are too few for it, which must be said."""
    try:
        return split(labels, parts, **options)
    except ValueError as error:
        if not re.search(r"too few for|, expected|; expected", str(error)):
            raise
        return None


def assert_whole(found: Parts, labels: Sequence[Any], parts: int, min_size: int) -> None:
    assert len(found) == parts
    assert sorted(index for part in found for index in part) == list(range(len(labels)))
    assert all(part == sorted(part) and len(part) >= min_size for part in found)


@given(LABELS, st.integers(1, 12), ALPHAS, st.integers(), st.integers(0, 5))
def test_t24_a_dirichlet_split_has_every_index_once_in_parts_of_equal_size(
    labels: list[int], parts: int, alpha: float, seed: int, min_size: int
) -> None:
    found = attempted(splits.dirichlet, labels, parts, alpha=alpha, seed=seed, min_size=min_size)
    assert (found is None) == (len(labels) < parts * min_size)
    if found is not None:
        assert_whole(found, labels, parts, min_size)
        assert {len(part) for part in found} <= {len(labels) // parts, len(labels) // parts + 1}
        assert found == splits.dirichlet(labels, parts, alpha=alpha, seed=seed, min_size=min_size)


@pytest.mark.thorough
@given(LABELS, st.integers(1, 12), ALPHAS, st.integers(1, 4), st.integers(), st.integers(0, 5))
def test_t24_an_uneven_split_or_one_by_label_has_every_index_once_and_no_part_too_small(
    labels: list[int], parts: int, alpha: float, shards: int, seed: int, min_size: int
) -> None:
    by_label = partial(splits.by_label, shards_per_part=shards)
    for split in (partial(splits.dirichlet_uneven, alpha=alpha), by_label):
        found = attempted(split, labels, parts, seed=seed, min_size=min_size)
        if found is not None:
            assert_whole(found, labels, parts, min_size)
            assert found == split(labels, parts, seed=seed, min_size=min_size)


def test_shards_of_one_label_each_give_parts_of_two_labels_at_most() -> None:
    found = splits.by_label(DIGITS, 5, shards_per_part=2, seed=1)
    assert [len(part) for part in found] == [400] * 5
    assert all(len(labels_of(part)) <= 2 for part in found)


def test_a_small_alpha_gives_a_part_few_labels_and_a_large_one_all_of_them() -> None:
    few = splits.dirichlet(DIGITS, 10, alpha=0.01, seed=3)
    all_of_them = splits.dirichlet(DIGITS, 10, alpha=10_000.0, seed=3)
    assert sum(labels_of(part).most_common(1)[0][1] for part in few) > 0.6 * len(DIGITS)
    assert all(labels_of(part).most_common(1)[0][1] < 0.25 * len(part) for part in all_of_them)
    uneven = [len(part) for part in splits.dirichlet_uneven(DIGITS, 10, alpha=0.3, seed=3)]
    even = [len(part) for part in splits.dirichlet_uneven(DIGITS, 10, alpha=10_000.0, seed=3)]
    assert max(uneven) > 2 * min(uneven)
    assert max(even) < 1.1 * min(even)


@pytest.mark.parametrize("split", [splits.dirichlet, splits.dirichlet_uneven])
def test_another_seed_gives_another_split(split: Split) -> None:
    assert split(DIGITS, 4, alpha=1.0, seed=1) != split(DIGITS, 4, alpha=1.0, seed=2)


def test_a_tensor_of_labels_is_split_like_the_list_of_its_numbers() -> None:
    class Tensor:
        """What a tensor is for a reader of labels: elements without equality, and tolist."""

        def __iter__(self) -> Any:
            return (object() for _ in DIGITS)

        def tolist(self) -> list[int]:
            return DIGITS

    assert splits.by_label(Tensor(), 5, seed=1) == splits.by_label(DIGITS, 5, seed=1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: splits.dirichlet([1, 2], 3, alpha=1, seed=0), "2 labels are too few for 3 parts"),
        (lambda: splits.dirichlet([1], 0, alpha=1, seed=0), "parts: expected 1 or more, got 0"),
        (lambda: splits.dirichlet([1], 1, alpha=0, seed=0), "alpha: expected a finite number above 0"),
        (lambda: splits.dirichlet([1], 1, alpha=1, seed=0, min_size=-1), "min_size: expected 0 or more"),
        (lambda: splits.by_label([1], 1, shards_per_part=0, seed=0), "shards_per_part: expected 1"),
        (lambda: splits.by_label([1, 2, 3], 2, seed=0), "too few for 2 parts of 2 shards: expected 4"),
        (
            lambda: splits.dirichlet_uneven(DIGITS, 50, alpha=0.001, seed=0, min_size=40),
            "the smallest of 50 parts had 0 indices at most; expected 40: use a larger alpha",
        ),
    ],
)
def test_a_split_that_cannot_be_made_says_what_was_expected(call: Callable[[], Parts], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        call()
