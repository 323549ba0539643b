"""S14: a value of any kind is stored, in the record or as an artifact, and read again as it was."""

import json
import math
import unicodedata
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.summaries.kinds.values import OF_KIND, same
from trackside.summaries.event_files.values import Histogram, HParams, Image, TextRows
from trackside.summaries.kinds.bodies import INLINE_BYTES
from trackside.summaries.kinds.kind import Body, Packed
from trackside.summaries.kinds.registry import BUILT_IN

KINDS = sorted(OF_KIND)
SLOW = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def as_stored(packed: Packed) -> Body:
    """Returns a body as Postgres has it: text without NaN, NUL and lone surrogates, keys in another order."""
    text = json.dumps(packed.body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    assert len(text.encode("utf-8", "strict")) <= INLINE_BYTES
    assert "\\u0000" not in text
    body: Body = json.loads(text, parse_float=as_numeric, object_hook=lambda it: dict(sorted(it.items())))
    return body


def as_numeric(text: str) -> object:
    """Returns a number as Postgres writes it: without exponent and without -0."""
    return json.loads(f"{Decimal(text) + 0 if Decimal(text) == 0 else Decimal(text):f}")


def test_each_built_in_kind_is_tried_and_the_two_kinds_of_graphs_are_stored_alike() -> None:
    assert {*KINDS, "optimized_graph"} == {*BUILT_IN}
    first, second = BUILT_IN["graph"], BUILT_IN["optimized_graph"]
    assert (first.pack, first.unpack, first.lines) == (second.pack, second.unpack, second.lines)


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
@given(st.data())
@SLOW
def test_a_value_is_read_as_it_was_written(name: str, data: st.DataObject) -> None:
    value = data.draw(OF_KIND[name])
    packed = BUILT_IN[name].pack(value)
    body = as_stored(packed)
    assert (packed.data is None) == ("value" in body)
    found = BUILT_IN[name].unpack(body, packed.data)
    if name == "hparams":  # an object of JSON has no order
        found = HParams({key: found.values[key] for key in value.values}, *(getattr(found, each) for each in (
            "metrics", "group", "status")))  # fmt: skip
    assert same(found, value)


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
@given(st.data(), st.sampled_from([20, 80, 200]))
@SLOW
def test_a_body_is_shown_without_control_characters(name: str, data: st.DataObject, width: int) -> None:
    body = as_stored(BUILT_IN[name].pack(data.draw(OF_KIND[name])))
    if name == "scalar":
        assert "value" in body
    lines = BUILT_IN[name].lines(body, width)
    assert all(unicodedata.category(character) not in ("Cc", "Cs") for line in lines for character in line)
    assert name == "text" or all(len(line) <= width for line in lines)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("histogram", Histogram([0.5] * 5_000, [1.0] * 5_000, [3.0] * 5_000)),
        ("text", TextRows(["x" * INLINE_BYTES])),
        ("text", TextRows(["NUL can't be in a column of Postgres: \x00"])),
        ("hparams", HParams({"\ud800": 1.0})),
        ("image", Image(b"\x89PNG", 1, 1)),
    ],
)
def test_what_is_too_long_or_has_odd_characters_or_is_an_image_is_an_artifact(name: str, value: Any) -> None:
    packed = BUILT_IN[name].pack(value)
    assert packed.data is not None and "value" not in packed.body
    assert same(BUILT_IN[name].unpack(as_stored(packed), packed.data), value)


def test_a_text_that_just_fits_stays_in_the_record() -> None:
    longest = 0
    for length in range(INLINE_BYTES - 200, INLINE_BYTES):
        packed = BUILT_IN["text"].pack(TextRows(["x" * length]))
        if packed.data is None:
            longest = length
            as_stored(packed)
    assert INLINE_BYTES - 200 < longest < INLINE_BYTES - 1


@pytest.mark.parametrize("value", ["nan", "-inf", math.nan, math.inf, -math.inf, 1e16, 1.0, 1, True, None])
def test_a_hyper_parameter_keeps_its_type(value: str | float | bool | None) -> None:
    packed = BUILT_IN["hparams"].pack(HParams({"one": value}))
    assert same(BUILT_IN["hparams"].unpack(as_stored(packed), None), HParams({"one": value}))
