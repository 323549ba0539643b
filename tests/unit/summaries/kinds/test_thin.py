"""S15, S16: what is shown is thinned; the first and the last step always stay."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.summaries.kinds.kind import thin


@given(st.integers(0, 3_000), st.integers(2, 400))
def test_thinned_steps_are_evenly_spaced_with_the_first_and_the_last(count: int, limit: int) -> None:
    kept = thin(range(count), limit)
    assert len(kept) == min(count, limit)
    assert kept[:1] == [0][:count] and kept[-1:] == [count - 1][:count]
    gaps = {after - before for before, after in pairwise(kept)}
    assert not gaps or (max(gaps) - min(gaps) <= 1 and min(gaps) >= 1)


def test_a_limit_of_one_keeps_the_newest_step() -> None:
    assert thin([1, 2, 3], 1) == [2]
    assert thin([], 1) == []
    with pytest.raises(ValueError, match="limit of a thinned series is 0"):
        thin([1], 0)
