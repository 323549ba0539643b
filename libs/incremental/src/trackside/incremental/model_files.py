"""Reads the file of a model by its format, without running any code that is in it."""

import hashlib
import json
import mmap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trackside.artifacts.model_files import check_safetensors

DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
}  # fmt: skip
"""The types of safetensors that can be read, and what torch calls them."""
READ_BYTES = 1 << 20


def read_model(path: Path, form: str, device: str = "cpu") -> Any:
    """Returns what the file of a model has in it, by its format.

    `safetensors` and `torch`: a dict of tensors on `device`, the latter read with `weights_only=True`;
    `npz`: a dict of arrays of numpy, none of which is a pickle; `json`: the value; `file`: the path itself.
    Raises ValueError for another format, and for a file that isn't what its format says.
    """
    if form not in FORMATS:
        raise ValueError(f"format {form!r} can't be read; expected one of {', '.join(FORMATS)}")
    return FORMATS[form](path, device)


def digest_of(path: Path) -> str:
    """Returns the sha256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_safetensors(path: Path, device: str) -> dict[str, Any]:
    import torch

    with path.open("rb") as file:
        check_safetensors(file, path.name)
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        if unknown := sorted({each["dtype"] for each in header.values()} - set(DTYPES)):
            raise ValueError(f"{path.name} has tensors of {unknown[0]}; expected {', '.join(DTYPES)}")
        found: dict[str, Any] = {}
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for name, tensor in header.items():
                begin, end = (8 + length + each for each in tensor["data_offsets"])
                kind = getattr(torch, DTYPES[tensor["dtype"]])
                # A copy: the mapping ends with this function.
                flat = (
                    torch.frombuffer(bytearray(content[begin:end]), dtype=kind)
                    if end > begin
                    else (torch.empty(0, dtype=kind))
                )
                found[name] = flat.reshape(tensor["shape"]).to(device)
        return found


def _read_torch(path: Path, device: str) -> Any:
    import torch

    try:
        return torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        # Which errors torch raises for a file that is none of its own is not documented.
        raise ValueError(f"{path.name} can't be loaded with weights_only=True: {error}") from error


def _read_npz(path: Path, device: str) -> dict[str, Any]:
    import numpy

    with numpy.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _read_json(path: Path, device: str) -> Any:
    return json.loads(path.read_bytes())


def _read_path(path: Path, device: str) -> Path:
    return path


FORMATS: Mapping[str, Callable[[Path, str], Any]] = MappingProxyType(
    {
        "safetensors": _read_safetensors,
        "torch": _read_torch,
        "npz": _read_npz,
        "json": _read_json,
        "file": _read_path,
    }
)
"""How the file of each format is read."""
