import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trackside.console.web.application import packed
from trackside.console.web.page import ChartValues

TYPES = {"f8": "<f8", "f4": "<f4", "i4": "<i4"}


def unpacked(body: bytes) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    size = int.from_bytes(body[:4], "little")
    head = json.loads(body[4 : 4 + size])
    at, found = (4 + size + 7) // 8 * 8, {}
    for column in head["columns"]:
        kind = np.dtype(TYPES[column["type"]])
        found[column["name"]] = np.frombuffer(body, kind, column["length"], at)
        at += (kind.itemsize * column["length"] + 7) // 8 * 8
    assert at == len(body)
    return found, head


@pytest.mark.thorough
@given(
    st.dictionaries(
        st.text(max_size=20),
        arrays.arrays(st.sampled_from([np.float64, np.float32, np.int32]), st.integers(0, 9)),
        max_size=4,
    )
)
def test_columns_are_read_back_as_they_were(values: dict[str, np.ndarray]) -> None:
    found, _ = unpacked(packed(ChartValues(values)))
    assert found.keys() == values.keys()
    for name, column in values.items():
        np.testing.assert_array_equal(found[name], column)


def test_labels_and_meta_are_in_the_header_and_whole_numbers_of_other_sizes_become_floating_point() -> None:
    statuses = {"status": np.array([0, 1, -1], np.int32)}
    columns = ChartValues(statuses, {"status": ["DONE", "</script>"]}, {"direction": "minimize"})
    _, head = unpacked(packed(columns))
    assert head["columns"][0]["labels"] == ["DONE", "</script>"]  # type: ignore[index]
    assert head["meta"] == {"direction": "minimize"}
    found, _ = unpacked(packed(ChartValues({"time_ms": np.array([1_700_000_000_123], np.int64)})))
    assert found["time_ms"][0] == 1_700_000_000_123
