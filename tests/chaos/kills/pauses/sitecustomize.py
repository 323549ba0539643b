"""Pauses a process before and after named functions, until the test says go on: see `pausing.py`.

Every Python process loads this file if its folder is on PYTHONPATH. `pauses.json` next to it has the address
of the test's socket and the functions, each `module:name` or `module:Class.name`; they are wrapped when their
module is imported, in whatever process that is.
"""

import functools
import inspect
import json
import os
import socket
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_KNOWN = json.loads(Path(__file__).with_name("pauses.json").read_text())
_FUNCTIONS: dict[str, list[str]] = {}
for _each in _KNOWN["functions"]:
    _FUNCTIONS.setdefault(_each.partition(":")[0], []).append(_each.partition(":")[2])


def _pause(when: str, function: str) -> None:
    """Tells the test, and waits until it answers; goes on if the test is gone."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(_KNOWN["address"])
            connection.sendall(f"{os.getpid()} {when} {function}\n".encode())
            connection.recv(1)
    except OSError:
        return


def _wrapped(function: Any, name: str) -> Any:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        _pause("before", name)
        result = function(*arguments, **named)
        _pause("after", name)
        return result

    @functools.wraps(function)
    async def call_async(*arguments: Any, **named: Any) -> Any:
        _pause("before", name)
        result = await function(*arguments, **named)
        _pause("after", name)
        return result

    return call_async if inspect.iscoroutinefunction(function) else call


class _Finder:
    """Wraps the functions of a module as soon as it is imported."""

    @staticmethod
    def find_spec(module: str, path: Any = None, _target: Any = None) -> ModuleSpec | None:
        names = _FUNCTIONS.get(module)
        spec = PathFinder.find_spec(module, path) if names else None
        if names is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(made: ModuleType) -> None:
            execute(made)
            for name in names:
                owner, _, attribute = name.rpartition(".")
                holder = getattr(made, owner) if owner else made
                whole = f"{module}:{name}"
                setattr(holder, attribute, _wrapped(getattr(holder, attribute), whole))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign,assignment]
        return spec


sys.meta_path.insert(0, _Finder)
