"""What the workers of one host have of its memory and GPUs: each publishes it, and reads that of the others.

A worker decides what begins while it holds the lock of the host: it reads what the others have, decides, and
publishes what it has itself. It holds a lock on its own file for as long as it lives: without that lock a
file counts for nothing.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trackside.worker.host.shared_folder import SharedFolder

log = structlog.get_logger("trackside.worker")

HOST_LOCK = "host.lock"
MAX_BYTES = 16 * 2**20
_PAGE_BYTES = 16 * 1024
_Text = Annotated[str, Field(max_length=512, pattern="^[ -~]*$")]
_Bytes = Annotated[int, Field(ge=0, le=2**63)]


class NeighbourTask(BaseModel):
    """What a task of another worker has, or waits for: bytes of the host, and of each of these GPUs.

    `idle` is a warm process, which its worker ends when another one waits.
    """

    model_config = ConfigDict(frozen=True)
    task_id: _Text
    stage: Literal["waits", "runs", "idle"]
    uuids: tuple[_Text, ...] = ()
    memory_bytes: _Bytes = 0
    cuda_memory_bytes: _Bytes = 0
    whole_device: bool = False


class Neighbour(BaseModel):
    """What a worker publishes; `used_...` is what its tasks were measured to use, by uuid on GPUs."""

    model_config = ConfigDict(frozen=True)
    worker_id: _Text
    incarnation: _Text
    memory_pool: _Text = ""
    used_memory_bytes: _Bytes = 0
    used_bytes_by_uuid: dict[_Text, _Bytes] = {}
    tasks: tuple[NeighbourTask, ...] = ()

    def reserved_bytes(self, uuid: str) -> int:
        """Returns the bytes that its tasks have of a GPU, used or not."""
        return max(
            sum(task.cuda_memory_bytes for task in self.present() if uuid in task.uuids),
            self.used_bytes_by_uuid.get(uuid, 0),
        )

    def present(self) -> Iterator[NeighbourTask]:
        """Returns the tasks that have something."""
        return (task for task in self.tasks if task.stage != "waits")


class Neighbourhood:
    """The workers of this host, as one of them sees the others: `others` are as of the last decision."""

    def __init__(self, folder: SharedFolder, data_dir: Path) -> None:
        identity = data_dir.stat()
        self.others: tuple[Neighbour, ...] = ()
        self._folder = folder
        self._name = f"worker-{identity.st_dev:x}-{identity.st_ino:x}.json"
        self._own: int | None = None
        self._written = b""
        self._problem = ""

    @contextlib.contextmanager
    def deciding(self) -> Iterator[bool]:
        """Holds the lock of the host and reads what others have; yields whether that could be done.

        It can't be while another worker decides, which takes less than a millisecond.
        """
        lock: int | None = None
        try:
            lock = self._folder.lock(HOST_LOCK)
            if lock is not None:
                self.others = self._read_others()
                self._lock_own()
            self._note("")
        except OSError as error:
            self._note(str(error))
            if lock is not None:
                os.close(lock)
                lock = None
        try:
            yield lock is not None
        finally:
            if lock is not None:
                os.close(lock)

    def publish(self, mine: Neighbour) -> None:
        """Publishes what this worker has; to be called while it decides."""
        octets = mine.model_dump_json(exclude_defaults=True).encode()
        if octets == self._written:
            return
        self._written = b""
        assert self._own is not None, "it is locked while this worker decides"
        try:
            # The file never shrinks: a full disk can't keep this worker from publishing what it has.
            size = -(-len(octets) // _PAGE_BYTES) * _PAGE_BYTES
            os.pwrite(self._own, octets.ljust(max(size, os.fstat(self._own).st_size)), 0)
            self._written = octets
        except OSError as error:
            self._note(str(error))

    def close(self) -> None:
        """Reports that this worker has nothing any more."""
        if self._own is not None:
            with contextlib.suppress(OSError):
                (self._folder.path / self._name).unlink()
            os.close(self._own)
            self._own = None

    def _lock_own(self) -> None:
        if self._own is not None and self._folder.has(self._name, self._own):
            return
        if self._own is not None:  # it was removed
            os.close(self._own)
            self._own = None
        self._written = b""
        self._own = self._folder.lock(self._name)
        if self._own is None:
            raise OSError(f"another process has {self._folder.path / self._name}")

    def _read_others(self) -> tuple[Neighbour, ...]:
        found = []
        for name in sorted(os.listdir(self._folder.path)):  # noqa: PTH208 - as often as a task begins
            if not (name.startswith("worker-") and name.endswith(".json")) or name == self._name:
                continue
            try:
                octets = self._folder.read_or_remove(name, MAX_BYTES)
                if octets and octets.strip():
                    found.append(Neighbour.model_validate_json(octets))
            except (OSError, ValidationError) as error:
                log.warning(
                    "a file of another worker of this host can't be read", file=name, reason=str(error)
                )
        return tuple(found)

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("no task begins: what other workers of this host have is not known", reason=problem)
        self._problem = problem
