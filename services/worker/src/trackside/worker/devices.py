"""The devices of this host: NVIDIA GPUs where the driver answers, and slots of the CPU."""

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import structlog

from trackside.contracts.fleet import Device

log = structlog.get_logger("trackside.worker")

RETRY_S = 0.02


@dataclass(frozen=True, slots=True)
class Place:
    """A device and how a task finds it: what CUDA may see, and torch's name for it."""

    device: Device
    cuda_visible_devices: str
    torch_name: str

    @property
    def id(self) -> str:
        """The device's id, unique within its worker."""
        return self.device.device_id


def discover(cpu_slots: int) -> list[Place]:
    """Lists the GPUs and the CPU slots of this host; a missing or broken driver means no GPUs."""
    return [*_gpus(), *_cpu_slots(cpu_slots)]


def _cpu_slots(count: int) -> list[Place]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return [
        Place(
            Device(device_id=f"cpu-{slot}", kind="cpu", name="CPU slot", memory_bytes=memory // count),
            cuda_visible_devices="",
            torch_name="cpu",
        )
        for slot in range(count)
    ]


def _gpus() -> list[Place]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - no library, no driver, no GPU: all the same here
        log.info("no NVIDIA devices", reason=f"{type(error).__name__}: {error}")
        return []
    try:
        return [_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        log.warning("NVIDIA devices left out: the driver failed while they were listed", reason=str(error))
        return []
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: object, index: int) -> Place:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)  # type: ignore[attr-defined]
    device = Device(
        device_id=f"gpu-{index}",
        kind="gpu",
        name=_text(nvml.nvmlDeviceGetName(handle)),  # type: ignore[attr-defined]
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),  # type: ignore[attr-defined]
    )
    # By UUID: CUDA numbers devices by speed unless told otherwise, NVML by their place on the bus.
    return Place(device, _text(nvml.nvmlDeviceGetUUID(handle)), "cuda:0")  # type: ignore[attr-defined]


def _text(name: str | bytes) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


class Locks:
    """A lock file per device, held by the task's process itself, so it outlives a worker that is killed.

    The folder is one worker's own: whoever else has a lock file open is what is left of an earlier task.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    async def taken(self, device_id: str) -> int:
        """Waits until the device's last task is gone and gives a descriptor that holds the lock."""
        path = self._folder / f"{device_id}.lock"
        while (descriptor := try_lock(path)) is None:
            killed = kill_holders(path)
            log.warning("device held by what is left of an earlier task", device=device_id, killed=killed)
            await asyncio.sleep(RETRY_S)
        return descriptor

    async def free(self, device_id: str) -> None:
        """Waits until the device's last task is gone."""
        os.close(await self.taken(device_id))


def try_lock(path: Path) -> int | None:
    """Locks a file and gives the descriptor that holds the lock; None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    return descriptor


def kill_holders(path: Path) -> list[int]:
    """Kills every other process that has the file open; gives their pids."""
    wanted, killed = str(path.resolve()), []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid() and _has_open(process, wanted):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(process.name), signal.SIGKILL)
                killed.append(int(process.name))
    return killed


def _has_open(process: Path, wanted: str) -> bool:
    try:
        return any(os.readlink(entry) == wanted for entry in (process / "fd").iterdir())  # noqa: PTH115
    except OSError:  # it has ended, or belongs to somebody else
        return False
