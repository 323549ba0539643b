"""The `model_config.json` that services of Sedna poll, and the models next to it.

Its thread reads the file every minute. A `model_update_time` that isn't the last one, whatever its text, is a
new model: it copies the file that `model_path` names, and loads that. The text has no slash, since it becomes
a part of a file's name there.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any

CONFIG_FILE = "model_config.json"
MODELS_KEPT = 3
"""How many models stay next to it: the one in use, and those that a slow reader may still be copying."""
DIGEST_CHARACTERS = 12
ENDINGS = {each: each for each in ("safetensors", "onnx", "npz", "gguf", "json", "csv")} | {
    "torch": "pt",
    "text": "txt",
}
_MODEL = re.compile(rf".+-v[0-9]+-[0-9a-f]{{{DIGEST_CHARACTERS}}}\.[a-z]+")


def model_file_name(model: str, version: int, sha256: str, form: str) -> str:
    """Returns the name of the file of a version: another one for other bytes."""
    return f"{model}-v{version}-{sha256[:DIGEST_CHARACTERS]}.{ENDINGS.get(form, 'model')}"


def config_text(model_path: str, time_ms: int) -> bytes:
    """Returns the content of the file for a model that was published at `time_ms` since 1970."""
    config = {"model_path": model_path, "model_update_time": update_time(time_ms)}
    return (json.dumps({"model_config": config}, indent=2) + "\n").encode()


def update_time(time_ms: int) -> str:
    """Returns a time as Go writes it, which is how Sedna does: `2026-01-31 13:05:00.250 +0000 UTC`."""
    at = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d} +0000 UTC"


def named_model(content: bytes) -> str:
    """Returns the path of the model that a `model_config.json` names; empty if it isn't one."""
    try:
        found: Any = json.loads(content)
        return str(found["model_config"]["model_path"])
    except (ValueError, KeyError, TypeError):
        return ""


def is_model(name: str) -> bool:
    """Returns whether a file next to `model_config.json` is a model of ours, by its name."""
    return _MODEL.fullmatch(name) is not None


def models_to_remove(found: dict[str, float], in_use: set[str]) -> list[str]:
    """Returns the models of a folder that are not needed any more: all but the newest, and those in use.

    `found` has the time of each file by its name; files that aren't models of ours stay.
    """
    models = sorted((name for name in found if is_model(name)), key=lambda name: (found[name], name))
    kept = {*models[-MODELS_KEPT:], *in_use}
    return [name for name in models if name not in kept]
