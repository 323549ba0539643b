"""Checkpoints of a training: what they are encoded as, and how they are read without running any code."""

import json
import math
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from trackside.sdk.in_task.channel import CodedError

_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_MAPPINGS = frozenset({dict, OrderedDict, Counter})


class CheckpointError(CodedError):
    """No checkpoint of the task can be read; `code` says why, such as `artifact_damaged`."""


class LastCheckpoint:
    """A checkpoint that a training continues from."""

    def __init__(self, step: int, path: Path) -> None:
        self.step = step
        """The step that the training continues with."""
        self.path = path
        """The file or folder; it may be changed."""

    @property
    def state(self) -> Any:
        """The state that was saved, on the CPU; raises ValueError for a file that isn't one.

        Nothing in the file is executed: `torch.load(weights_only=True)` reads it, or it is JSON.
        """
        if self.path.is_file() and zipfile.is_zipfile(self.path):
            import torch

            return torch.load(self.path, map_location="cpu", weights_only=True)
        try:
            return json.loads(self.path.read_bytes())
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.path.name} was not saved as a state: read it at `path`") from error


def encode_state(state: Mapping[str, Any]) -> bytes:
    """Returns a state as JSON if that can hold it, else as torch saves it.

    Raises TypeError, naming the place, for what loads only by running code.
    """
    if _is_json(state):
        return json.dumps(state, allow_nan=False).encode()
    import torch

    check_plain(state, "state")
    buffer = BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def check_plain(value: Any, place: str) -> None:
    """Raises TypeError for values that load only by running code, such as subclasses of numbers."""
    import torch

    kind = type(value)
    if kind in _SCALARS or isinstance(value, torch.Tensor):
        return
    if kind in _MAPPINGS:
        for key, inner in value.items():
            check_plain(key, f"a key of {place}")
            check_plain(inner, f"{place}.{key}")
    elif kind in (list, tuple, torch.Size):
        for at, inner in enumerate(value):
            check_plain(inner, f"{place}[{at}]")
    else:
        raise TypeError(
            f"{place} is a {kind.__module__}.{kind.__qualname__}, which loads only by running code; "
            "expected tensors, plain numbers, texts, lists and dicts (float(x) makes a plain number)"
        )


def _is_json(value: Any) -> bool:
    """Returns whether JSON gives a value back as it is."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and _is_json(inner) for key, inner in value.items())
    if kind is list:
        return all(map(_is_json, value))
    if kind is float:
        return math.isfinite(value)
    return value is None or kind in (bool, int, str)
