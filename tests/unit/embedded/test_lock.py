"""The lock of a stack's folder: whoever holds it has a stack, whoever looks at it is in nobody's way."""

import threading
from pathlib import Path

import pytest

from trackside.embedded.errors import StackRunning
from trackside.embedded.folder import is_locked, locked


def test_one_stack_holds_the_lock_and_another_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(StackRunning, match="already runs"), locked(tmp_path):
            pass
    assert not is_locked(tmp_path)


def test_who_only_looks_keeps_nobody_from_starting_a_stack(tmp_path: Path) -> None:
    with locked(tmp_path):
        pass  # the file is there now
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            is_locked(tmp_path)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(300):
            with locked(tmp_path):
                pass
    finally:
        over.set()
        for looker in lookers:
            looker.join()
