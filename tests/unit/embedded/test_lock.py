"""The lock of a stack's folder: whoever holds it has a stack, whoever looks at it is in nobody's way."""

import os
import threading
from pathlib import Path

import pytest

from trackside.embedded.errors import StackRunning
from trackside.embedded.folder import is_locked, take_lock


def test_one_stack_holds_the_lock_and_another_is_refused(tmp_path: Path) -> None:
    handle = take_lock(tmp_path)
    assert is_locked(tmp_path)
    with pytest.raises(StackRunning, match="already runs"):
        take_lock(tmp_path)
    os.close(handle)
    assert not is_locked(tmp_path)


def test_who_only_looks_keeps_nobody_from_starting_a_stack(tmp_path: Path) -> None:
    os.close(take_lock(tmp_path))
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            is_locked(tmp_path)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(300):
            os.close(take_lock(tmp_path))
    finally:
        over.set()
        for looker in lookers:
            looker.join()
