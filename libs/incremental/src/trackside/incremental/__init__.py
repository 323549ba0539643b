"""Incremental learning in the processes of tasks: datasets that grow, manifests, models that are served.

Users import InferenceService, read_model and find_miner; each is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trackside.incremental.model_files import read_model as read_model
    from trackside.incremental.serving.miners import find_miner as find_miner
    from trackside.incremental.serving.serving import InferenceService as InferenceService


def __getattr__(name: str) -> object:
    modules = {
        "InferenceService": "serving.serving",
        "read_model": "model_files",
        "find_miner": "serving.miners",
    }
    if name not in modules:
        raise AttributeError(f"trackside.incremental has no {name!r}; it has {', '.join(modules)}")
    return getattr(import_module(f"trackside.incremental.{modules[name]}"), name)
