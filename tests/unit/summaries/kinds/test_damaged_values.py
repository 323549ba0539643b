"""Bytes of a store are not trusted: what is damaged is refused, with one error and within limits."""

import contextlib
import copy
import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.summaries.kinds.values import OF_KIND
from trackside.summaries.event_files.values import Histogram, Image, TextRows
from trackside.summaries.kinds import arrays, bodies
from trackside.summaries.kinds.kind import BadValue, Body
from trackside.summaries.kinds.registry import BUILT_IN

KINDS = sorted(OF_KIND)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["nan", 10**400]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Returns each place in a JSON value: the list or object, and the index or key."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


@st.composite
def damaged(draw: st.DrawFn, name: str) -> tuple[Body, bytes | None]:
    """Returns a stored value with a part of its body replaced or left out, or with changed bytes of data."""
    packed = BUILT_IN[name].pack(draw(OF_KIND[name]))
    body, data = copy.deepcopy(packed.body), packed.data
    if data is None or draw(st.booleans()):
        holder, key = draw(st.sampled_from(places(body)))
        if isinstance(holder, dict) and draw(st.booleans()):
            del holder[key]
        else:
            holder[key] = draw(ANY_JSON)
    if data is not None:
        at = draw(st.integers(0, min(len(data), 200)))
        data = data[:at] + draw(st.binary(max_size=8)) + data[at + draw(st.integers(0, 8)) :]
    return body, draw(st.sampled_from([data, None, b"", data]))


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_damaged_value_is_read_or_refused_with_one_error(name: str, data: st.DataObject) -> None:
    body, held = data.draw(damaged(name))
    with contextlib.suppress(BadValue):
        BUILT_IN[name].unpack(body, held)
    with contextlib.suppress(BadValue):
        BUILT_IN[name].lines(body, 80)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "image"])
def test_a_body_that_only_describes_is_refused_without_its_data(name: str) -> None:
    with pytest.raises(BadValue, match="only describes its value; expected the value, or its data"):
        BUILT_IN[name].unpack({}, None)


def test_an_error_says_what_it_is_and_what_was_expected() -> None:
    with pytest.raises(BadValue) as refused:
        BUILT_IN["histogram"].unpack({"value": {"left": [0], "right": [1], "counts": ["many"]}}, None)
    expected = 'a number, "nan", "inf" or "-inf"'
    assert (refused.value.what, refused.value.expected) == ("counts of a histogram is 'many'", expected)
    with pytest.raises(BadValue, match="2 left edges, 1 right edges and 1 counts; expected equally many"):
        BUILT_IN["histogram"].pack(Histogram([1, 2], [3], [1]))
    packed = BUILT_IN["image"].pack(Image(b"one", 1, 1))
    with pytest.raises(BadValue, match="expected the digest 7692c3ad3540bb803c020b3aee66cd88871232"):
        BUILT_IN["image"].unpack(packed.body, b"two")


def npy(array: Any, *, header: bytes | None = None) -> bytes:
    """Returns a .npy file; with another header, one that lies about what follows."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=True)
    data = file.getvalue()
    return data if header is None else data[:8] + len(header).to_bytes(2, "little") + header


def test_an_array_is_never_unpickled_or_read_from_fewer_bytes_than_its_shape_needs() -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (exec, ("raise SystemExit('it ran')",))

    with pytest.raises(BadValue, match=r"expected numbers, little endian"):
        arrays.from_npy(npy(np.array([Bomb()], dtype=object)))
    with pytest.raises(BadValue, match="an array of 'object'"):
        BUILT_IN["tensor"].pack(np.array([Bomb()], dtype=object))
    with pytest.raises(BadValue, match=r"15 bytes for an array of .\[2\].; expected as many as its shape"):
        arrays.from_npy(npy(np.zeros(2))[:-1])
    with pytest.raises(BadValue, match=r"0 bytes for an array of .\[1, 2\]."):
        arrays.decode({"dtype": "int8", "shape": [1, 2], "base64": ""})


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 99999999999999999999999), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }",
        b"{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': 'O', 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
        b"(" * 4_000,
        b"[" + b"[" * 200 + b"]",
        b"{'descr': __import__('os'), 'fortran_order': False, 'shape': ()}",
        b"'''",
        b"\n  x\n y",
    ],
)
def test_a_header_that_lies_costs_no_memory(header: bytes) -> None:
    with pytest.raises(BadValue):
        arrays.from_npy(npy(np.zeros(1), header=header) + bytes(8))


def test_values_over_the_limits_and_json_that_is_deep_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadValue, match="data that can't be read"):
        BUILT_IN["graph"].unpack({}, b"[" * 100_000)
    with pytest.raises(BadValue, match="NaN is not JSON"):
        BUILT_IN["graph"].unpack({}, b"[NaN]")
    monkeypatch.setattr(bodies, "MAX_JSON_BYTES", 40_000)
    long = json.dumps({"texts": ["x" * 40_000], "shape": []}).encode()
    with pytest.raises(BadValue, match="40028 bytes of JSON; expected at most 40000 bytes"):
        BUILT_IN["text"].unpack({}, long)
    with pytest.raises(BadValue, match="40025 bytes as JSON; expected at most 40000 bytes"):
        BUILT_IN["text"].pack(TextRows(["x" * 40_000]))
