"""Runs the work of a command."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Runs a coroutine to its end; Ctrl-C cancels it, so that it closes what it has opened."""
    return asyncio.run(work)
