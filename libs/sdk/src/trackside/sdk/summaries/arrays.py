"""Numbers and arrays of numpy from what users have: tensors of torch, TensorFlow or JAX, lists, numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def array_of(value: Any) -> NDArray[Any]:
    """Returns a tensor of a library, a list or a number as an array, on the host and without gradients."""
    if hasattr(value, "detach"):  # torch; numpy has no bfloat16
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
    if not isinstance(value, np.ndarray) and callable(getattr(value, "numpy", None)):
        value = value.numpy()
    return np.asarray(value)


def number_of(what: str, value: Any) -> float:
    """Returns a number, or the only one of an array or a tensor, as a float. Raises TypeError for others."""
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, RuntimeError) as error:
        shape = getattr(value, "shape", None)
        got = type(value).__name__ + (f" of shape {tuple(shape)}" if shape is not None else "")
        raise TypeError(f"{what}: expected one number, got {got}") from error
