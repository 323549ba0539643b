"""Files of models: each format as it is read, and what is refused."""

import json
import struct
from pathlib import Path
from typing import Any, ClassVar

import numpy
import pytest

from trackside.artifacts.errors import BadArtifact
from trackside.incremental import InferenceService
from trackside.incremental.model_files import digest_of, read_model

torch = pytest.importorskip("torch", reason="make check needs no torch")


def write_safetensors(path: Path, tensors: dict[str, Any]) -> None:
    header: dict[str, Any] = {"__metadata__": {"by": "test"}}
    content = b""
    for name, (kind, shape, octets) in tensors.items():
        ends = [len(content), len(content) + len(octets)]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": ends}
        content += octets
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def test_safetensors_become_tensors_of_their_types_and_shapes(tmp_path: Path) -> None:
    path = tmp_path / "model"
    tensors = {"a": ("F32", [2, 2], floats(1, 2, 3, 4)), "b": ("BF16", [2], bytes.fromhex("803f0040"))}
    write_safetensors(path, tensors | {"none": ("I64", [0, 3], b""), "one": ("BOOL", [], b"\1")})
    found = read_model(path, "safetensors")
    assert found["a"].tolist() == [[1, 2], [3, 4]] and found["a"].dtype is torch.float32
    assert found["b"].tolist() == [1, 2] and found["b"].dtype is torch.bfloat16
    assert found["none"].shape == (0, 3) and found["one"].item() is True
    path.unlink()
    assert found["a"].sum().item() == 10, "the tensors don't need the file"


def test_safetensors_that_are_damaged_or_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write_safetensors(path, {"a": ("F8_E4M3", [1], b"1")})
    with pytest.raises(ValueError, match="tensors of F8_E4M3; expected BOOL"):
        read_model(path, "safetensors")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BadArtifact):
        read_model(path, "safetensors")


class Linear(InferenceService):
    model_format: ClassVar[str] = "torch"  # type: ignore[misc]

    def make_model(self) -> Any:
        return torch.nn.Linear(2, 1, bias=False)


def test_tensors_become_the_state_of_the_model_that_a_service_makes(tmp_path: Path) -> None:
    path = tmp_path / "model"
    torch.save({"weight": torch.tensor([[2.0, 3.0]])}, path)
    service = Linear()
    model = service.load_model(path, "cpu")
    assert model(torch.tensor([1.0, 1.0])).item() == 5 and not model.training
    torch.save({"weights": torch.tensor([[2.0, 3.0]])}, path)
    with pytest.raises(RuntimeError, match="Missing key"):
        service.load_model(path, "cpu")


class Dangerous:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("it was run",)


def test_a_file_of_torch_with_code_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model"
    torch.save({"a": Dangerous()}, path)
    with pytest.raises(ValueError, match="weights_only=True"):
        read_model(path, "torch")
    assert "it was run" not in capsys.readouterr().out


def test_arrays_json_and_plain_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    numpy.savez(path, a=numpy.arange(3))
    assert read_model(path, "npz")["a"].tolist() == [0, 1, 2]
    numpy.savez(path, a=numpy.array([Dangerous()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        read_model(path, "npz")
    path.write_text('{"a": 1}')
    assert read_model(path, "json") == {"a": 1}
    assert read_model(path, "file") == path
    assert digest_of(path) == "f9d86028c6e0d64e225186f96acb69338b2c59764df79162107f5c4bb34d1310"
    with pytest.raises(ValueError, match="format 'onnx' can't be read; expected one of safetensors, torch"):
        read_model(path, "onnx")
