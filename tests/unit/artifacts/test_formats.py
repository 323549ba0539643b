import bz2
import gzip
import io
import json
import lzma
import os
import pickle  # noqa: TID251 - to make what is refused
import tarfile
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trackside.artifacts.errors import BadArtifact, PathOutsideStore, UnsafeFormat
from trackside.artifacts.formats import check_model
from trackside.artifacts.pickle_scan import first_unsafe, is_pickle


class Malicious:
    """Runs a command when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("true",)


def safetensors(header: object, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


WEIGHT = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def varint(value: int) -> bytes:
    octets = bytearray()
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*octets, value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def onnx(location: str) -> bytes:
    entry = field(1, b"location") + field(2, location.encode())
    return varint(1 << 3) + varint(9) + field(2, b"test") + field(7, field(5, field(13, entry)))


def refused(path: Path, reason: str, form: str = "", error: type[Exception] = UnsafeFormat) -> None:
    with pytest.raises(error, match=reason):
        check_model(path, form)


@pytest.mark.parametrize(
    "wrap", [bytes, zlib.compress, gzip.compress, bz2.compress, lzma.compress], ids=lambda each: each.__name__
)
def test_a_pickle_is_not_a_model_whatever_its_name(tmp_path: Path, wrap: Callable[[bytes], bytes]) -> None:
    for protocol in range(6):
        for name in ("model.pkl", "model.safe", "model.joblib", "weights.bin"):
            (tmp_path / name).write_bytes(wrap(pickle.dumps({"weights": Malicious()}, protocol)))
            refused(tmp_path / name, f"{name} is a pickle, which would execute posix.system")
        if protocol >= 2:
            (tmp_path / "model").write_bytes(pickle.dumps({"weights": [1.0]}, protocol))
            refused(tmp_path / "model", "a pickle is not a model")


def test_a_pickle_that_calls_itself_torch_and_a_large_old_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(pickle.dumps(OrderedDict(w=1)))
    refused(tmp_path / "model.pt", r"is a pickle, which would execute collections\.OrderedDict", "torch")
    (tmp_path / "model").write_bytes(pickle.dumps([Malicious(), "x" * 200_000], 0))
    refused(tmp_path / "model", r"posix\.system")


@given(st.text(max_size=200))
def test_a_text_is_not_taken_for_a_pickle(text: str) -> None:
    assert not is_pickle(text.encode(), is_whole=True)


@pytest.mark.parametrize("text", ["class,name\n1,2\n3,4\n", '{"a": [1]}', "]", "N.", ""])
def test_plain_files_are_models(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.csv").write_text(text)
    check_model(tmp_path / "model.csv")


@pytest.mark.parametrize("save", ["zip", "old"])
def test_weights_of_torch_are_models_and_more_than_weights_are_not(tmp_path: Path, save: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    options = {"_use_new_zipfile_serialization": save == "zip"}
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to(torch.bfloat16)
    optimizer = torch.optim.Adam(module.parameters())
    state = {"model": module.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}
    state["size"] = torch.Size([2])
    torch.save(state, tmp_path / "model.pt", **options)
    for form in ("", "torch"):
        check_model(tmp_path / "model.pt", form)
    torch.save(module, tmp_path / "module.pt", **options)
    refused(tmp_path / "module.pt", r"would execute torch\.nn\.modules\.container\.Sequential")
    torch.save({"model": module.state_dict(), "more": Malicious()}, tmp_path / "bad.pt", **options)
    refused(tmp_path / "bad.pt", r"would execute posix\.system", "torch")


def first_unsafe_of(name: str) -> str | None:
    """Returns what is found in a pickle that would execute this."""
    module, _, last = name.rpartition(".")
    return first_unsafe(io.BytesIO(b"\x80\x02c" + f"{module}\n{last}\n".encode() + b"."))


def test_what_torch_loads_as_weights_is_what_is_allowed_here() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from torch._weights_only_unpickler import _get_allowed_globals

    assert [name for name in _get_allowed_globals() if first_unsafe_of(name) is not None] == []


@pytest.mark.parametrize(
    "name", ["builtins.eval", "os.system", "torch.load", "torch.hub.load", "torch.serialization.load"]
)
def test_what_runs_code_is_not_allowed_in_weights(name: str) -> None:
    assert first_unsafe_of(name) == name


def test_code_of_torch_script_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("model/constants.pkl", b"")
    refused(tmp_path / "model.pt", "TorchScript")


def test_a_pickle_within_an_archive_is_found(tmp_path: Path) -> None:
    content = pickle.dumps(Malicious())
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("inner/data/model.txt", content)
    refused(tmp_path / "model.zip", r"model.txt in model.zip is a pickle")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("model.txt")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    refused(tmp_path / "model.tar.gz", r"model.txt in model.tar.gz is a pickle")


def test_arrays_of_numbers_are_models_and_arrays_of_objects_are_not(tmp_path: Path) -> None:
    np.save(tmp_path / "numbers.npy", np.arange(10))
    np.savez(tmp_path / "numbers.npz", one=np.arange(10), two=np.array(["text"]))
    np.savez_compressed(tmp_path / "objects.npz", np.array([{}], dtype=object))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    check_model(tmp_path / "numbers.npy")
    check_model(tmp_path / "numbers.npz")
    for name in ("objects.npy", "objects.npz"):
        refused(tmp_path / name, "array of objects")


def test_safetensors_are_models(tmp_path: Path) -> None:
    header = {"__metadata__": {"format": "pt"}, "b": {**WEIGHT, "data_offsets": [8, 16]}, "a": WEIGHT}
    (tmp_path / "model.safetensors").write_bytes(safetensors(header, bytes(16)))
    check_model(tmp_path / "model.safetensors")
    check_model(tmp_path / "model.safetensors", "safetensors")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "header doesn't fit"),
        (b"\xff" * 8 + b"{}", "header doesn't fit"),
        (safetensors([], b""), "not an object"),
        (safetensors(b"{", b""), "Expecting"),
        (safetensors({"a": WEIGHT}, bytes(7)), "end at byte 8, the file at 7"),
        (safetensors({"a": WEIGHT}, bytes(9)), "end at byte 8, the file at 9"),
        (safetensors({"a": {**WEIGHT, "shape": [3]}}, bytes(8)), "size of its shape"),
        (safetensors({"a": {**WEIGHT, "shape": [-2]}}, bytes(8)), "has the shape"),
        (safetensors({"a": {**WEIGHT, "dtype": "OBJECT"}}, bytes(8)), "OBJECT"),
        (safetensors({"a": WEIGHT, "b": WEIGHT}, bytes(8)), "where another ends"),
        (safetensors(b'{"a": {}, "a": {}}', b""), "repeated"),
        (safetensors({"a": 1}, b""), "not safetensors"),
        (safetensors({"__metadata__": 1}, b""), "not safetensors"),
        (safetensors(b"[" * 100_000, b""), "not safetensors"),
        (pickle.dumps(Malicious()), "header doesn't fit"),
    ],
)
def test_what_is_not_safetensors_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    refused(tmp_path / "model.safetensors", reason, error=BadArtifact)


@given(st.binary(max_size=60))
@example(b"\x1f\x8b")
@example(b"\xfd7zXZ\x00")
@example(b"BZh9")
def test_any_bytes_are_checked_or_refused_with_a_code(content: bytes) -> None:
    path = Path(f"/dev/shm/trackside-formats-{os.getpid()}")
    path.write_bytes(content)
    try:
        for form in ("", "safetensors", "onnx", "torch", "npy", "zip"):
            with suppress(BadArtifact, UnsafeFormat):
                check_model(path, form)
    finally:
        path.unlink()


def test_onnx_is_a_model_with_tensors_within_or_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx("weights.bin"))
    check_model(tmp_path / "model.onnx")
    for location in ("../../etc/passwd", "/etc/passwd"):
        (tmp_path / "model.onnx").write_bytes(onnx(location))
        refused(tmp_path / "model.onnx", r"not ONNX.*passwd", "onnx", BadArtifact)


@pytest.mark.parametrize("content", [b"", b"\0", onnx("x")[:-1], b"\x08\x09", pickle.dumps(Malicious())])
def test_what_is_not_onnx_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    refused(tmp_path / "model.onnx", "not ONNX", error=BadArtifact)


def test_each_file_of_a_folder_is_checked(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "config.json").write_text("{}")
    check_model(tmp_path)
    (tmp_path / "inner" / "model").write_bytes(pickle.dumps(Malicious()))
    refused(tmp_path, r"posix\.system")
    (tmp_path / "inner" / "model").unlink()
    (tmp_path / "inner" / "link").symlink_to("/etc/passwd")
    refused(tmp_path, "link", error=PathOutsideStore)
