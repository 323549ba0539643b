"""The journal of accepted placements: one file per placement, written before TaskAccepted is sent.

The file is removed once the end of the placement is in the log. Files that are found at a start are
placements of an earlier incarnation whose end is not in the log yet. A file is written under another name
and renamed, so it survives a crash of the worker. It may not survive a power cut, but the process of the task
doesn't either, so the placement is lost in both cases, unless an ending is on the disk. Therefore the entry
is synced before the ending, if the log is slow to take the end.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from trackside.telemetry.context import now_ns
from trackside.telemetry.disk_space import write_obstacle
from trackside.worker.durable_files import sync, write_atomically
from trackside.worker.messages.process_messages import (
    ENDING_FILE,
    PROGRESS,
    AnswerTaken,
    AttemptEnding,
    FromTask,
    UnreadableMessageError,
    decode,
)
from trackside.worker.temporary_folders import remove_link

OUTPUTS = "outputs"
"""The folder in the working directory for what is saved when the task has finished."""
INPUTS = "inputs"
"""The folder in the working directory with what the task is given, by name."""
SYNC_AFTER_S = 0.1
"""Seconds the log may take to accept the end of an attempt before the ending is synced to the disk."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One placement of one attempt of a task on its devices, in one incarnation of the worker.

    `held` is true if it was written while the placement waited for its devices: it may never have begun.
    `cause` is the event that the command of the placement rests on, as `ce_causationid`. `secrets` is true
    if its task is given secrets: then its working directory is never kept. `public_key` is that of an
    encrypted stream. `adopters` are the incarnations that have taken it over since, in their order.
    """

    stream: str
    task_id: str
    attempt: int
    placement: int
    incarnation: str
    device_ids: tuple[str, ...] = ()
    traceparent: str = ""
    held: bool = False
    cause: str = ""
    secrets: bool = False
    public_key: str = ""
    adopters: tuple[str, ...] = ()

    @property
    def owner(self) -> str:
        """The incarnation that has the placement now, and writes its events."""
        return self.adopters[-1] if self.adopters else self.incarnation

    @property
    def token(self) -> tuple[int, int]:
        """The fencing token: orders the placements of one task by attempt, then placement."""
        return self.attempt, self.placement

    @property
    def key(self) -> str:
        """A file name that is unique to the placement and safe for any id."""
        return _key(self.stream, self.task_id, self.attempt, self.placement, self.incarnation)


_FIELDS = tuple(JournalEntry.__dataclass_fields__)
_NEWER = ("secrets", "public_key", "adopters")


@lru_cache(maxsize=4_096)
def _key(*parts: str | int) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class Journal:
    """The files below the data folder of the worker; `home` is the HOME directory of all tasks."""

    def __init__(self, data_dir: Path) -> None:
        self._entries = data_dir / "journal"
        self._endings = data_dir / "endings"
        self._placements = data_dir / "placements"
        self._workdirs = data_dir / "tasks"
        self.spools = data_dir / "spool"
        self.home = data_dir / "home"
        self._syncs: dict[str, asyncio.TimerHandle] = {}
        self._write_failed = False
        for folder in (
            self._entries,
            self._endings,
            self._placements,
            self._workdirs,
            self.spools,
            self.home,
        ):
            folder.mkdir(parents=True, exist_ok=True)

    def workdir(self, entry: JournalEntry) -> Path:
        """Returns the working directory of the task's process."""
        return _below(self._workdirs, entry.key)

    def spool(self, entry: JournalEntry) -> Path:
        """Returns the folder with what the task has saved and the store may not have; it may not exist."""
        return _below(self.spools, entry.key)

    def ending_file(self, entry: JournalEntry) -> Path:
        """Returns the file in which the task's process writes how it ended."""
        return _below(self._endings, f"{entry.key}.json")

    def entry_file(self, entry: JournalEntry) -> Path:
        """Returns the file that records the placement as accepted."""
        return _below(self._entries, f"{entry.key}.json")

    def progress_file(self, entry: JournalEntry) -> Path:
        """Returns the file in which the task's process writes what the next worker has to know."""
        return _below(self._placements, f"{entry.key}.progress")

    def placement_file(self, entry: JournalEntry) -> Path:
        """Returns the file that records what the placement runs, for a worker that takes it over."""
        return _below(self._placements, f"{entry.key}.json")

    def progress(self, entry: JournalEntry) -> list[FromTask | AnswerTaken] | None:
        """Returns what the task has said until now; None if that isn't known. The last line may be cut."""
        try:
            lines = self.progress_file(entry).read_bytes().split(b"\n")[:-1]
            return [decode(line, PROGRESS) for line in lines]
        except (OSError, UnreadableMessageError):
            return None

    def write(self, entry: JournalEntry) -> None:
        """Records a placement as accepted and creates its working directory. Raises OSError.

        One that was accepted before, and is taken over, keeps the time of that.
        """
        accepted_ns = self.accepted_ns(entry) if entry.adopters else 0
        try:
            for folder in (self.workdir(entry), self.workdir(entry) / OUTPUTS):
                with contextlib.suppress(FileExistsError):
                    folder.mkdir()
            written = {each: getattr(entry, each) for each in _FIELDS}
            for name in _NEWER:
                if not written[name]:
                    del written[name]  # then an older release can read it
            write_atomically(self.entry_file(entry), json.dumps(written).encode())
            if accepted_ns:
                os.utime(self.entry_file(entry), ns=(accepted_ns, accepted_ns))
        except OSError:
            self._write_failed = True
            raise

    def obstacle(self) -> str:
        """Returns why an entry can't be written since one could not be, "" if one can."""
        if not self._write_failed:
            return ""
        found = write_obstacle(self._entries) or write_obstacle(self._workdirs)
        self._write_failed = bool(found)
        return found

    def ending(self, entry: JournalEntry) -> AttemptEnding | None:
        """Returns the ending that the task's process wrote; None if there is none or it can't be read."""
        try:
            return decode(self.ending_file(entry).read_bytes(), ENDING_FILE)
        except (OSError, UnreadableMessageError):
            return None

    def accepted_ns(self, entry: JournalEntry) -> int:
        """Returns when a placement was accepted, in ns since 1970: its file was written then.

        Returns now if the file is gone: a task of the incarnation before may end, and remove it, meanwhile.
        """
        try:
            return self.entry_file(entry).stat().st_mtime_ns
        except OSError:
            return now_ns()

    def entries_without_end(self) -> list[JournalEntry]:
        """Returns the placements whose end may not be in the log."""
        found = []
        for path in sorted(self._entries.glob("*.json")):
            # An entry is complete or absent; one that can't be read was written by another release.
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                fields = json.loads(path.read_text("utf-8"))
                lists = {name: tuple(fields.get(name, ())) for name in ("device_ids", "adopters")}
                found.append(JournalEntry(**fields | lists))
        return found

    def sync_soon(self, entry: JournalEntry) -> None:
        """Syncs an ending to the disk after 0.1 s, unless the placement has been removed by then."""
        loop = asyncio.get_running_loop()
        work = partial(loop.run_in_executor, None, self.sync, entry)
        self._syncs[entry.key] = loop.call_later(SYNC_AFTER_S, work)

    def sync(self, entry: JournalEntry) -> None:
        """Syncs the entry, the spool, and then the ending to the disk.

        An ending without its entry is never recovered, and one without what was saved has failed.
        """
        with contextlib.suppress(OSError):
            sync(self.entry_file(entry))
            for path in self.spool(entry).rglob("*"):
                sync(path)
            sync(self.ending_file(entry))

    async def remove(self, entry: JournalEntry, keep_workdir: bool = False) -> None:
        """Removes the files of a placement whose end is in the log."""
        if entry.key in self._syncs:
            self._syncs.pop(entry.key).cancel()
        for path in (
            self.entry_file(entry),
            self.ending_file(entry),
            self.progress_file(entry),
            self.placement_file(entry),
        ):
            path.unlink(missing_ok=True)
        # Empty folders go at once: a thread would take longer than all else here.
        full = [] if _is_removed(self.spool(entry)) else [self.spool(entry)]
        workdir = self.workdir(entry)
        if entry.secrets or not keep_workdir:
            _is_removed(workdir / OUTPUTS)
            full += [] if _is_removed(workdir) else [workdir]
        if full:
            await asyncio.to_thread(_remove_trees, full)

    def clear_leftovers(self) -> None:
        """Removes endings, spools and working directories that belong to no entry."""
        kept = {entry.key for entry in self.entries_without_end()}
        for folder in (self._endings, self._placements, self.spools, self._workdirs):
            for path in folder.iterdir():
                if path.stem not in kept:
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()

    def close(self) -> None:
        """Removes the short path of the working directories, unless tasks use them still."""
        if not any(self._workdirs.iterdir()):
            remove_link(self._workdirs)


@lru_cache(maxsize=128)
def _below(folder: Path, name: str) -> Path:
    """Returns a path: to make one takes longer than to use it."""
    return folder / name


def _is_removed(folder: Path) -> bool:
    """Removes an empty folder; returns whether it is gone."""
    try:
        folder.rmdir()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return True


def _remove_trees(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
