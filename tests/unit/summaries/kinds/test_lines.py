"""S21: what each kind shows in a terminal."""

import math
from typing import Any

import numpy as np
import pytest

from tests.unit.summaries.kinds.test_graphs import node
from trackside.summaries.event_files.values import (
    Graph,
    Histogram,
    HParams,
    Image,
    LossLandscape,
    TextRows,
)
from trackside.summaries.kinds.registry import BUILT_IN

GIF = b"GIF89a\x80\x02\xe0\x01"


SHOWN: list[tuple[str, Any, list[str]]] = [
    ("scalar", 0.123456789, ["0.123457"]),
    ("scalar", math.nan, ["nan"]),
    ("image", Image(GIF + bytes(12_585), 640, 480), ["640x480 GIF, 12.3 KiB, sha256 2def5826cb19"]),
    ("image", Image(b"<svg/>", 9, 8), ["9x8 application/octet-stream, 6 B, sha256 d4dc56669143"]),
    (
        "histogram",
        Histogram([0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 4.0, 0.0], 0.1, 2.9, 5.5, nan=2, negative_inf=1),
        [
            "6 values in 3 buckets, 0.1 to 2.9, 2 NaN, 1 -Inf",
            "          0           1 ████████████ 2",
            "          1           2 ████████████████████████ 4",
            "          2           3  0",
        ],
    ),
    ("histogram", Histogram([], [], []), ["0 values in 0 buckets"]),
    (
        "tensor",
        np.array([[1.5, math.nan], [math.inf, 1.5]], np.float32),
        [
            "float32 [2, 2], 4 values",
            "min 1.5  max 1.5  mean 1.5  std 0",
            "1 NaN  1 Inf",
            "        1.5         1.5 ████████████████████████ 2",
            "[1.5, nan, inf, 1.5]",
        ],
    ),
    ("tensor", np.zeros((0, 3), bool), ["bool [0, 3], 0 values"]),
    ("text", TextRows(["first\r\nsecond\tcell", "\x1b[31mred"]), ["first", "second  cell", "\\x1b[31mred"]),
    ("text", TextRows(["\x00"]), ["\\x00", "... 1 character in 1 text"]),
    ("text", TextRows(["漢字 é 🙂"]), ["漢字 é 🙂"]),
    (
        "graph",
        Graph([node("in", "Input"), node("n/dense/w", "Variable"), node("n/dense/b\n"), node("n/x/y/z")]),
        [
            *("4 nodes", "  in [Input]", "  n (3 nodes)", "    dense (2 nodes)", "      w [Variable]"),
            *("      b\\n", "    x (1 node)", "      y (1 node)"),
        ],
    ),
    (
        "graph",
        Graph([node(f"layer{at}") for at in range(14)]),
        ["14 nodes", *(f"  layer{at}" for at in range(12)), "  ... 2 more"],
    ),
    (
        "loss_landscape",
        LossLandscape(
            np.zeros(4), np.zeros(4), np.array([[1.0, 2.5], [math.nan, 0.25]]),
            ([1, 2], [0.1, 0.2], [0.3, 0.4], [0.5, 0.6]), (0.5, -1.0, 0.25), "PCA", "epoch", 390,
        ),
        [
            *("surface of 2 x 2, loss 0.25 to 2.5", "path of 2 points", "converged at (0.5, -1), loss 0.25"),
            *("directions by PCA", "intervals in epoch, 390 steps in an epoch"),
        ],
    ),
    (
        "hparams",
        HParams({"lr": 0.001, "optimizer": "a\x07", "amsgrad": True, "seed": None}, ["loss"], "g", "failed"),
        [
            *("lr         0.001", "optimizer  a\\x07", "amsgrad    yes", "seed       -"),
            *("compared by loss", "group g", "status failed"),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "expected"), SHOWN)
def test_a_value_is_shown_in_lines(name: str, value: Any, expected: list[str]) -> None:
    assert BUILT_IN[name].lines(BUILT_IN[name].pack(value).body, 60) == expected


def test_of_what_is_an_artifact_the_beginning_or_the_top_is_shown() -> None:
    text = BUILT_IN["text"].pack(TextRows(["one\n" + "x" * 40_000, "two"]))
    assert text.data is not None
    assert BUILT_IN["text"].lines(text.body, 60) == [
        "one", "x" * 996, "... 40,007 characters in 2 texts",
    ]  # fmt: skip
    graph = BUILT_IN["graph"].pack(Graph([node(f"net{at % 200}/layer{at}", "Relu") for at in range(4_000)]))
    assert graph.data is not None
    lines = BUILT_IN["graph"].lines(graph.body, 60)
    assert lines[:2] == ["4,000 nodes", "  net0 (20 nodes)"] and len(lines) == 101
    hparams = BUILT_IN["hparams"].pack(HParams({f"layer {at}": at / 7 for at in range(3_000)}))
    assert hparams.data is not None
    assert BUILT_IN["hparams"].lines(hparams.body, 60)[:2] == ["3,000 hyper-parameters", "layer 0"]
