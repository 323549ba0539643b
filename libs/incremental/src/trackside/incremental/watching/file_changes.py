"""Reports when a file may have changed, as far as the file system tells: a wake-up, never a fact."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watchfiles import watch

GATHER_MS = 50
"""How long changes are gathered at most before they are reported."""
STEP_MS = 10
"""How often the thread looks whether there are changes."""
ANSWER_MS = 200
"""How long the thread waits for changes until it looks whether it is still needed."""
RETRY_S = 1.0
"""How long it waits until it tries again to watch a folder that isn't there."""


@contextmanager
def changes_of(path: Path | None) -> Iterator[threading.Event]:
    """Yields an event that is set when a file may have changed, from a thread, while the block runs.

    The folder of the file is watched, and that of the file a link leads to: so its creation is seen, too.
    Without a path it is never set.
    """
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it logs each time that a file grows
    stop, changed = threading.Event(), threading.Event()
    if path is not None:
        thread = threading.Thread(target=_watch, args=(path, stop, changed), name="changes", daemon=True)
        thread.start()
    try:
        yield changed
    finally:
        stop.set()


def _watch(path: Path, stop: threading.Event, changed: threading.Event) -> None:
    while not stop.is_set():
        files = {path, path.resolve()}
        names = {file.name for file in files}
        folders = {file.parent for file in files if file.parent.is_dir()}
        is_set_up = False
        try:
            for found in watch(
                *folders,
                watch_filter=lambda _, found: Path(found).name in names,  # noqa: B023 - called in this turn
                debounce=GATHER_MS,
                step=STEP_MS,
                stop_event=stop,
                rust_timeout=ANSWER_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=False,
                ignore_permission_denied=True,
            ):
                if found or not is_set_up:  # what changed before the watch was set up isn't told
                    changed.set()
                is_set_up = True
        except (OSError, RuntimeError):  # what the file system doesn't tell is found by looking
            pass
        stop.wait(RETRY_S)
