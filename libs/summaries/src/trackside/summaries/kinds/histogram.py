"""The kind histogram: counts in buckets."""

import math
from itertools import accumulate, pairwise

import numpy as np

from trackside.summaries.event_files.values import Histogram
from trackside.summaries.kinds.bodies import (
    LEAST_INT64,
    number,
    numbers,
    pack_json,
    to_float,
    to_floats,
    to_integer,
    to_object,
    unpack_json,
)
from trackside.summaries.kinds.kind import BadValue, Body, Packed, SummaryKind
from trackside.summaries.kinds.text_lines import bar, clip, counted

CHART_ROWS = 16
"""Bars of a histogram in a terminal, and buckets in the body of one that is an artifact."""


def pack(histogram: Histogram) -> Packed:
    """Returns a histogram as it is stored. Raises BadValue for one with lists of different lengths.

    The body has `buckets`, `count`, `minimum`, `maximum` and `total` (as in Histogram); with an artifact also
    `chart`, the histogram with few buckets.
    """
    _check_lengths(histogram)
    description: Body = {
        "buckets": len(histogram.counts),
        "count": number(_sum(histogram.counts)),
        "minimum": _optional(histogram.minimum),
        "maximum": _optional(histogram.maximum),
        "total": _optional(histogram.total),
    }
    packed = pack_json(description, encode(histogram))
    if packed.data is None:
        return packed
    return packed._replace(body={**description, "chart": encode(rebin(histogram, CHART_ROWS))})


def unpack(body: Body, data: bytes | None) -> Histogram:
    """Returns the histogram. Raises BadValue."""
    return decode(unpack_json(body, data))


def encode(histogram: Histogram) -> Body:
    """Returns a histogram as JSON; what it doesn't have is left out."""
    encoded: Body = {
        "left": numbers(histogram.left),
        "right": numbers(histogram.right),
        "counts": numbers(histogram.counts),
    }
    for name in ("minimum", "maximum", "total"):
        if (value := getattr(histogram, name)) is not None:
            encoded[name] = number(value)
    for name in ("nan", "positive_inf", "negative_inf"):
        if value := getattr(histogram, name):
            encoded[name] = value
    return encoded


def decode(value: object) -> Histogram:
    """Returns the histogram of a JSON value. Raises BadValue."""
    found = to_object(value, "a histogram")
    moments = {
        name: None if found.get(name) is None else to_float(found[name], f"{name} of a histogram")
        for name in ("minimum", "maximum", "total")
    }
    histogram = Histogram(
        to_floats(found.get("left"), "left of a histogram"),
        to_floats(found.get("right"), "right of a histogram"),
        to_floats(found.get("counts"), "counts of a histogram"),
        moments["minimum"],
        moments["maximum"],
        moments["total"],
        to_integer(found.get("nan", 0), "nan of a histogram", LEAST_INT64),
        to_integer(found.get("positive_inf", 0), "positive_inf of a histogram", LEAST_INT64),
        to_integer(found.get("negative_inf", 0), "negative_inf of a histogram", LEAST_INT64),
    )
    _check_lengths(histogram)
    return histogram


def rebin(histogram: Histogram, buckets: int) -> Histogram:
    """Returns a histogram with at most that many buckets, all equally wide.

    The values of a bucket are taken as evenly spread over it, as TensorBoard's chart does. Neighbours are
    joined instead where edges or counts are not finite, or edges not in order.
    """
    if len(histogram.counts) <= buckets:
        return histogram
    edges = [edge for pair in zip(histogram.left, histogram.right, strict=True) for edge in pair]
    counts = histogram.counts
    in_order = all(a <= b for a, b in pairwise(edges)) and edges[0] < edges[-1] and min(counts) >= 0
    if not in_order or not math.isfinite(edges[-1] - edges[0]) or not math.isfinite(_sum(counts)):
        size = -(-len(counts) // buckets)
        starts = range(0, len(counts), size)
        left = [histogram.left[at] for at in starts]
        right = [histogram.right[min(at + size, len(counts)) - 1] for at in starts]
        joined = [_sum(counts[at : at + size]) for at in starts]
    else:
        below = [0.0, *accumulate(counts)]
        heights = [height for pair in pairwise(below) for height in pair]
        limits = np.linspace(edges[0], edges[-1], buckets + 1)
        reached = np.interp(limits, edges, heights)
        reached[0], reached[-1] = 0.0, below[-1]
        left, right = limits[:-1].tolist(), limits[1:].tolist()
        joined = np.diff(reached).tolist()
    return Histogram(
        left,
        right,
        joined,
        histogram.minimum,
        histogram.maximum,
        histogram.total,
        histogram.nan,
        histogram.positive_inf,
        histogram.negative_inf,
    )


def lines(body: Body, width: int) -> list[str]:
    """Returns a line of facts and a bar for each bucket, CHART_ROWS at most."""
    histogram = decode(body["value"] if "value" in body else body.get("chart"))
    buckets = to_integer(body.get("buckets"), "buckets of a histogram")
    facts = f"{_sum(histogram.counts):,.12g} values in {counted(buckets, 'bucket')}"
    if histogram.minimum is not None and histogram.maximum is not None:
        facts += f", {histogram.minimum:.5g} to {histogram.maximum:.5g}"
    for count, name in (
        (histogram.nan, "NaN"),
        (histogram.positive_inf, "Inf"),
        (histogram.negative_inf, "-Inf"),
    ):
        facts += f", {count:,} {name}" if count else ""
    return [clip(facts, width), *chart(histogram, width)]


def chart(histogram: Histogram, width: int) -> list[str]:
    """Returns a bar for each bucket, CHART_ROWS at most: left edge, right edge, bar, count."""
    shown = rebin(histogram, CHART_ROWS)
    highest = max((count for count in shown.counts if math.isfinite(count)), default=0)
    room = max(width - 36, 1)
    rows = []
    for left, right, count in zip(shown.left, shown.right, shown.counts, strict=True):
        share = count / highest if highest > 0 and math.isfinite(count) and count > 0 else 0.0
        rows.append(f"{left:>11.4g} {right:>11.4g} {bar(share, room)} {count:.6g}"[:width])
    return rows


def _check_lengths(histogram: Histogram) -> None:
    left, right, counts = len(histogram.left), len(histogram.right), len(histogram.counts)
    if not left == right == counts:
        raise BadValue(
            f"a histogram of {left} left edges, {right} right edges and {counts} counts",
            "equally many of each",
        )


def _sum(counts: list[float]) -> float:
    return float(sum(counts))


def _optional(value: float | None) -> float | str | None:
    return None if value is None else number(value)


HISTOGRAM = SummaryKind("histogram", page_size=50, pack=pack, unpack=unpack, lines=lines)
