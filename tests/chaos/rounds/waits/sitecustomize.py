"""Shortens how long services, and what failed, wait for their next try, so that many faults fit in a run.

Every Python process loads this file if its folder is on PYTHONPATH; a test calls `shorten` for its own.
"""

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

SHORT = {"backoff_s": 0.2, "max_backoff_s": 2.0}
WAITS: dict[str, dict[str, dict[str, float]]] = {
    "trackside.domain.tasks.retries": {"_AGAIN": SHORT},
    "trackside.verify.checks.tasks.running_tasks": {"SERVICE_RETRY": SHORT},
}
"""By module and name: the fields of a rule of retries."""


def shorten(module: ModuleType, put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Replaces the waits of a module."""
    for name, value in WAITS[module.__name__].items():
        put(module, name, type(getattr(module, name))(**value))


class _Finder:
    """Replaces the waits of a module as soon as it is imported."""

    @staticmethod
    def find_spec(module: str, path: Any = None, _target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(module, path) if module in WAITS else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(made: ModuleType) -> None:
            execute(made)
            shorten(made)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign,assignment]
        return spec


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, _Finder)
