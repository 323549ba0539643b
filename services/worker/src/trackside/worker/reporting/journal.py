"""What the worker has taken on, in a file per placement before it says so.

The file goes when the placement's end is in the log. What is found at a start is what an earlier
incarnation owes the log. A file is written and renamed: the death of the worker can't take it. A power cut
can, and takes the process with it, so the placement is lost either way, unless an ending is on the disk; so
the file is synced before an ending is, where the log is slow to take that.
"""

import asyncio
import contextlib
import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trackside.worker.durable_files import sync, write_whole

SYNC_AFTER_S = 0.1
"""How long the log may take to take an ending before the disk shall have it for sure."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One placement of one attempt of a task on its devices, in one incarnation of the worker.

    `held` says that it was written down while it waited for its devices: it may never have begun.
    """

    stream: str
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    device_ids: tuple[str, ...] = ()
    traceparent: str = ""
    held: bool = False

    @property
    def token(self) -> tuple[int, int]:
        """What orders the placements of one task: attempt, then placement."""
        return self.attempt, self.placement

    @property
    def key(self) -> str:
        """A file name that no other placement has, whatever the ids look like."""
        parts = [self.stream, self.task_id, self.attempt, self.placement, self.incarnation]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class Journal:
    """Files below the worker's data folder; `home` is the HOME of all tasks."""

    def __init__(self, data_dir: Path) -> None:
        self._entries = data_dir / "journal"
        self._endings = data_dir / "endings"
        self._workdirs = data_dir / "tasks"
        self.home = data_dir / "home"
        self._syncs: dict[str, asyncio.TimerHandle] = {}
        for folder in (self._entries, self._endings, self._workdirs, self.home):
            folder.mkdir(parents=True, exist_ok=True)

    def workdir(self, placement: Placement) -> Path:
        """Gives the folder that the task's process runs in."""
        return self._workdirs / placement.key

    def ending_file(self, placement: Placement) -> Path:
        """Gives the file in which the task's process leaves how it ended."""
        return self._endings / f"{placement.key}.json"

    def entry_file(self, placement: Placement) -> Path:
        """Gives the file that says that the placement was taken on."""
        return self._entries / f"{placement.key}.json"

    def write(self, placement: Placement) -> None:
        """Writes down that a placement was taken on, and makes its working directory. Raises OSError."""
        self.workdir(placement).mkdir(exist_ok=True)
        write_whole(self.entry_file(placement), asdict(placement))

    def ending(self, placement: Placement) -> dict[str, Any] | None:
        """Gives what the task's process wrote of its end; None if it wrote nothing that can be read."""
        try:
            found = json.loads(self.ending_file(placement).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def owed(self) -> list[Placement]:
        """Lists the placements whose end may not be in the log."""
        found = []
        for path in sorted(self._entries.glob("*.json")):
            # An entry is whole or not there; what can't be read was written by another release.
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                fields = json.loads(path.read_text("utf-8"))
                found.append(Placement(**fields | {"device_ids": tuple(fields["device_ids"])}))
        return found

    def sync_soon(self, placement: Placement) -> None:
        """Brings an ending to the disk in 0.1 s, unless the placement is forgotten by then."""
        loop = asyncio.get_running_loop()
        work = partial(loop.run_in_executor, None, self.sync, placement)
        self._syncs[placement.key] = loop.call_later(SYNC_AFTER_S, work)

    def sync(self, placement: Placement) -> None:
        """Brings an ending to the disk, and the entry before it: without that it would be nobody's."""
        with contextlib.suppress(OSError):
            sync(self.entry_file(placement))
            sync(self.ending_file(placement))

    async def forget(self, placement: Placement, keep_workdir: bool = False) -> None:
        """Removes a placement whose end is in the log."""
        if placement.key in self._syncs:
            self._syncs.pop(placement.key).cancel()
        await asyncio.to_thread(self._forget, placement, keep_workdir)

    def _forget(self, placement: Placement, keep_workdir: bool) -> None:
        self.entry_file(placement).unlink(missing_ok=True)
        self.ending_file(placement).unlink(missing_ok=True)
        if not keep_workdir:
            shutil.rmtree(self.workdir(placement), ignore_errors=True)

    def clear_leftovers(self) -> None:
        """Removes endings and working directories of placements that nothing is owed for."""
        kept = {placement.key for placement in self.owed()}
        for folder in (self._endings, self._workdirs):
            for path in folder.iterdir():
                if path.stem not in kept:
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
