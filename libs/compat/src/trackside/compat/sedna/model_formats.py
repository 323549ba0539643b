"""Formats of models by the endings of their files."""

FORMATS = {
    **{name: name for name in ("safetensors", "onnx", "npz", "gguf")},
    **dict.fromkeys(("pt", "pth"), "torch"),
}
UNSAFE = ("pkl", "pickle", "joblib")
"""Endings of files that execute code when they are read."""


def format_of(ending: str) -> str:
    """Returns the format that an ending such as `pth` has; `file` for one that isn't known."""
    return FORMATS.get(ending.lstrip(".").lower(), "file")
