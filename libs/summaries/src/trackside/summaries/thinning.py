"""Thins the points of a curve for display; first, last, least and greatest points stay."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tsdownsample import M4Downsampler

POINTS_PER_BUCKET = 4
"""First, last, least and greatest."""
LARGE_BUCKET = 400
"""Points of a bucket from which on it is thinned by itself: a call for each small one takes longer."""

_M4 = M4Downsampler()


def thin(steps: NDArray[Any], values: NDArray[Any], limit: int | None = None) -> NDArray[np.int64]:
    """Returns the indexes of the points to show, ascending; all of them without a limit or up to it.

    The range of the steps is cut into `limit // 4` buckets of equal width (at least one). The first and last
    point of each bucket stay, as do the least and the greatest of its finite values: a line through them
    covers the same pixels as one through all points (M4: Jugel and others, VLDB 2014). The first NaN, Inf and
    -Inf of a bucket stay, too, so a gap remains a gap: the result has more points than `limit` only where
    values are not finite, and at most three more in a bucket.

    `steps` (any integers, or finite floats such as seconds) must not fall, but may be uneven and repeated;
    those that are integers are compared exactly. `values` are floats of the same length. Raises ValueError.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"the limit of points must be at least 1, not {limit}")
    if steps.ndim != 1 or steps.shape != values.shape:
        raise ValueError(f"steps of shape {steps.shape} and values of shape {values.shape} are not one curve")
    # A NaN is neither below nor above, so only a comparison that must be true refuses it.
    if not bool((steps[1:] >= steps[:-1]).all()) or (steps.dtype.kind == "f" and not _ends_finite(steps)):
        raise ValueError("the steps of a curve must be finite and must not fall")
    if limit is None or len(steps) <= limit:
        return np.arange(len(steps))
    values = np.ascontiguousarray(values, dtype=np.float64)
    bounds = np.array([0, *_bounds(steps, max(1, limit // POINTS_PER_BUCKET))])
    starts = bounds[np.diff(bounds, append=len(steps)) > 0]  # of the buckets that have points
    sizes = np.diff(starts, append=len(steps))
    if len(steps) > LARGE_BUCKET * len(starts):
        ends = starts + sizes
        large = (low + _of_bucket(values[low:end]) for low, end in zip(starts, ends, strict=True))
        return np.unique(np.concatenate([*large]))
    few = np.flatnonzero(np.repeat(sizes <= POINTS_PER_BUCKET, sizes))
    return np.unique(np.concatenate([few, starts, starts + sizes - 1, *_extremes(values, starts, sizes)]))


def _ends_finite(steps: NDArray[Any]) -> bool:
    """Whether floats that do not fall are all finite: then their ends are."""
    return len(steps) == 0 or bool(np.isfinite(steps[0]) and np.isfinite(steps[-1]))


def _bounds(steps: NDArray[Any], buckets: int) -> list[int]:
    """Returns where the second and each later bucket begins: at its first step that is not below its edge."""
    low, high = steps[0].item(), steps[-1].item()
    if isinstance(low, int):
        # Integers of Python: a float has no room for a step over 2**53, nor an int64 for every difference.
        edges = [low + -(-(high - low) * at // buckets) for at in range(1, buckets)]
    else:
        edges = [low * (1 - at / buckets) + high * (at / buckets) for at in range(1, buckets)]
    found = np.searchsorted(steps, np.array(edges, dtype=steps.dtype), side="left")
    # Floats so large that the range is a few units in the last place may be rounded to edges that fall.
    return [int(at) for at in np.maximum.accumulate(found)]


def _extremes(
    values: NDArray[np.float64], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Yields the indexes of the least, the greatest, and the first NaN, Inf and -Inf of each bucket."""
    finite = np.isfinite(values)
    for choose, worst in ((np.minimum, np.inf), (np.maximum, -np.inf)):
        chosen = choose.reduceat(np.where(finite, values, worst), starts)
        yield _firsts(finite & (values == np.repeat(chosen, sizes)), starts)
    if not finite.all():
        for is_one in (np.isnan(values), values == np.inf, values == -np.inf):
            yield _firsts(is_one, starts)


def _firsts(wanted: NDArray[np.bool_], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the first index of each bucket that is wanted; a bucket may have none."""
    indexes = np.flatnonzero(wanted)
    buckets = np.searchsorted(starts, indexes, side="right")
    return indexes[np.unique(buckets, return_index=True)[1]]


def _of_bucket(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the indexes of a large bucket's points that stay, in any order."""
    finite = np.isfinite(values)
    if bool(finite.all()):
        return _m4(values)
    others = [
        np.flatnonzero(np.isnan(values)),
        np.flatnonzero(values == np.inf),
        np.flatnonzero(values == -np.inf),
    ]
    firsts = np.array([found[0] for found in others if len(found)], dtype=np.int64)
    # M4 ignores NaN, but would take an Inf for the greatest.
    return np.concatenate([firsts, _m4(np.where(finite, values, np.nan))])


def _m4(values: NDArray[np.float64]) -> NDArray[np.int64]:
    found: NDArray[np.uint64] = _M4.downsample(values, n_out=POINTS_PER_BUCKET)
    return found.astype(np.int64)
