"""What `trial.checkpoint` gives back later: tensors of each kind, bit by bit, and nothing that runs code."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sdk.test_training import torch
from trackside.sdk.in_task.checkpoints import LastCheckpoint, encode_state

pytestmark = pytest.mark.thorough


def saved(folder: Path, state: Any) -> LastCheckpoint:
    (folder / "state").write_bytes(encode_state(state))
    return LastCheckpoint(3, folder / "state")


def same(first: Any, second: Any) -> bool:
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    octets = [each.detach().contiguous().reshape(-1).view(torch().uint8) for each in (first, second)]
    return bool(torch().equal(*octets))


def tensors() -> dict[str, Any]:
    made = torch()
    made.manual_seed(7)
    rows = made.arange(24.0).reshape(4, 6)
    return {
        "bfloat16": made.randn(3, 5).bfloat16(),
        "float16": made.randn(5).half(),
        "float8": made.randn(5).to(made.float8_e4m3fn),
        "float64": made.randn(2).double(),
        "complex": made.randn(2, dtype=made.complex64),
        "int64": made.tensor([-(2**62), 2**62]),
        "bool": made.tensor([True, False]),
        "not finite": made.tensor([float("nan"), float("inf"), -0.0]),
        "one number": made.tensor(0.1),
        "empty": made.empty(0, 3),
        "transposed": rows.t(),
        "every second": rows[:, ::2],
        "expanded": made.tensor([1.0]).expand(4),
        "trained": made.nn.Parameter(made.randn(2, 2)),
        "needs a gradient": made.ones(2, requires_grad=True),
    }


def test_tensors_of_each_kind_come_back_bit_by_bit(tmp_path: Path) -> None:
    state = tensors()
    found = saved(tmp_path, state).state
    assert list(found) == list(state)
    assert [name for name in state if not same(found[name], state[name])] == []
    assert found["trained"].requires_grad and found["needs a gradient"].requires_grad
    assert not found["bfloat16"].requires_grad


def test_nested_states_come_back_with_their_types(tmp_path: Path) -> None:
    made = torch()
    weight = made.ones(2)
    state = {
        "model": OrderedDict(layer=weight, tied=weight),
        "groups": [{"lr": 0.1, "betas": (0.9, 0.999), "steps": made.tensor(7.0)}],
        3: {"none": None, "text": "é", "bytes": b"\x00\xff", "size": made.Size([2, 3]), "large": 2**80},
    }
    found = saved(tmp_path, state).state
    assert type(found["model"]) is OrderedDict and list(found) == ["model", "groups", 3]
    assert found["model"]["layer"].data_ptr() == found["model"]["tied"].data_ptr(), "one tensor is one again"
    assert found["groups"][0]["betas"] == (0.9, 0.999) and found["groups"][0]["steps"] == 7.0
    assert found[3] == state[3]


def test_a_state_without_tensors_is_json_and_what_runs_code_is_refused(tmp_path: Path) -> None:
    state = {"sum": 3, "rates": [0.1, None, True], "text": "é"}
    assert encode_state(state).startswith(b"{")
    assert saved(tmp_path, state).state == state
    with pytest.raises(TypeError, match=r"state\.path is a pathlib\.PosixPath, which loads only by running"):
        encode_state({"path": Path("x"), "tensor": torch().ones(1)})
    (tmp_path / "state").write_bytes(b"\x80\x04cos\nsystem\n.")
    with pytest.raises(ValueError, match="state was not saved as a state: read it at `path`"):
        _ = LastCheckpoint(3, tmp_path / "state").state
