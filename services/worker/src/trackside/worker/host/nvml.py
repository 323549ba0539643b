"""NVIDIA's management library (NVML) with types: the only module that imports pynvml.

A call may block as long as the driver does: call from a thread, one at a time.
Source: NVIDIA, NVML API Reference Guide; Xids that an application causes: NVIDIA, "Xid Errors", and the
list that NVIDIA's Kubernetes device plugin ignores.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog

log = structlog.get_logger("trackside.worker")

XIDS_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
"""Xids that an application's error causes: the GPU is still healthy."""


class GpuError(Exception):
    """An error of the driver; with `gone` the GPU doesn't work until an operator repairs it."""

    def __init__(self, reason: str, gone: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.gone = gone


@dataclass(frozen=True, slots=True)
class Gpu:
    """A physical GPU. `index` is in the order of the PCI bus, `uuid` never changes."""

    index: int
    uuid: str
    name: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU; `memory_bytes` is None where the driver doesn't report it."""

    pid: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The use of a GPU now. `used_bytes` includes `reserved_bytes`, which the driver uses itself.

    `utilisation_percent` is None where the driver doesn't measure it, as on a GPU with MIG.
    """

    used_bytes: int
    reserved_bytes: int
    utilisation_percent: int | None
    processes: tuple[GpuProcess, ...]


class Nvml:
    """The library: opened at the first call, and again after the driver was unloaded."""

    def __init__(self) -> None:
        self._pynvml: Any = None
        self._handles: dict[str, Any] = {}
        self._events: Any = None
        self._xids: dict[str, int] = {}

    def gpus(self) -> list[Gpu]:
        """Returns the GPUs by index; one that fails is left out with a warning.

        Raises GpuError if there is no library or no driver.
        """
        with self._calling() as nvml:
            count = nvml.nvmlDeviceGetCount()
        found = []
        for index in range(count):
            try:
                found.append(self._gpu(index))
            except GpuError as error:
                log.warning("a GPU is left out: its driver fails", index=index, reason=error.reason)
        return found

    def readings(self, uuids: Iterable[str]) -> dict[str, GpuReading | GpuError]:
        """Returns a reading, or the error, of each GPU by uuid."""
        answers: dict[str, GpuReading | GpuError] = {}
        for uuid in uuids:
            try:
                answers[uuid] = self.reading(uuid)
            except GpuError as error:
                answers[uuid] = error
        return answers

    def reading(self, uuid: str) -> GpuReading:
        """Returns the reading of one GPU. Raises GpuError if it has failed, or the driver is gone."""
        with self._calling() as nvml:
            handle = self._handle(nvml, uuid)
            self._read_xids(nvml)
            if uuid in self._xids:
                raise GpuError(f"the driver reported Xid {self._xids[uuid]}", gone=True)
            used, reserved = _memory(nvml, handle)
            return GpuReading(
                used_bytes=used,
                reserved_bytes=reserved,
                utilisation_percent=_if_supported(
                    nvml, lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu), None
                ),
                processes=_processes(nvml, handle),
            )

    def close(self) -> None:
        """Closes the library; the next call opens it again."""
        nvml, self._pynvml = self._pynvml, None
        self._handles, self._events, self._xids = {}, None, {}
        if nvml is not None:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def _gpu(self, index: int) -> Gpu:
        with self._calling() as nvml:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
            found = Gpu(
                index=index,
                uuid=uuid,
                name=_text(nvml.nvmlDeviceGetName(handle)),
                memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            )
            self._store(nvml, uuid, handle)
            return found

    def _handle(self, nvml: Any, uuid: str) -> Any:
        if uuid not in self._handles:
            self._store(nvml, uuid, nvml.nvmlDeviceGetHandleByUUID(uuid))
        return self._handles[uuid]

    def _store(self, nvml: Any, uuid: str, handle: Any) -> None:
        """Stores a handle and subscribes to the GPU's Xids, where the driver reports them."""
        if uuid in self._handles:
            return
        self._handles[uuid] = handle
        with contextlib.suppress(nvml.NVMLError):
            if self._events is None:
                self._events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)

    def _read_xids(self, nvml: Any) -> None:
        """Reads the Xids reported so far; the driver ends the list with an error."""
        uuids = {_address(handle): uuid for uuid, handle in self._handles.items()}
        with contextlib.suppress(nvml.NVMLError):
            while self._events is not None:
                event = nvml.nvmlEventSetWait(self._events, 0)
                xid, uuid = int(event.eventData), uuids.get(_address(event.device))
                log.warning("a GPU reported an Xid", xid=xid, uuid=uuid)
                if uuid is not None and xid not in XIDS_OF_PROGRAMS:
                    self._xids.setdefault(uuid, xid)

    @contextlib.contextmanager
    def _calling(self) -> Iterator[Any]:
        """Yields the opened library, converts its errors to GpuError, and closes it if the driver is gone."""
        nvml = self._opened()
        try:
            yield nvml
        except nvml.NVMLError as error:
            code = getattr(error, "value", None)
            if code in (nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
                self.close()
            gone = code in (
                nvml.NVML_ERROR_GPU_IS_LOST,
                nvml.NVML_ERROR_RESET_REQUIRED,
                nvml.NVML_ERROR_GPU_NOT_FOUND,
                nvml.NVML_ERROR_NOT_FOUND,
            )
            raise GpuError(str(error), gone) from error
        except nvml.NVMLLibraryMismatchError as error:
            raise GpuError(str(error)) from error

    def _opened(self) -> Any:
        if self._pynvml is None:
            try:
                import pynvml
            except ImportError as error:
                raise GpuError(f"the package nvidia-ml-py is not installed: {error}") from error
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                raise GpuError(str(error)) from error
            self._pynvml = pynvml
        return self._pynvml


def _memory(nvml: Any, handle: Any) -> tuple[int, int]:
    """Returns used and reserved bytes; drivers before 510 don't report what they reserve."""
    try:
        found = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    except (
        nvml.NVMLError_FunctionNotFound,
        nvml.NVMLError_NotSupported,
        nvml.NVMLError_ArgumentVersionMismatch,
    ):
        found = nvml.nvmlDeviceGetMemoryInfo(handle)
        return int(found.used), 0
    return int(found.used + found.reserved), int(found.reserved)


def _processes(nvml: Any, handle: Any) -> tuple[GpuProcess, ...]:
    """Returns the compute and graphics processes of a GPU, each pid once."""
    listed = [
        *_if_supported(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle), []),
        *_if_supported(nvml, lambda: nvml.nvmlDeviceGetGraphicsRunningProcesses(handle), []),
    ]
    found: dict[int, GpuProcess] = {}
    for process in listed:
        used = process.usedGpuMemory
        found.setdefault(process.pid, GpuProcess(int(process.pid), None if used is None else int(used)))
    return tuple(found.values())


def _if_supported(nvml: Any, query: Callable[[], Any], default: Any) -> Any:
    """Returns the result of a query, or a default where this GPU or driver doesn't support it."""
    try:
        return query()
    except (
        nvml.NVMLError_NotSupported,
        nvml.NVMLError_NoPermission,
        nvml.NVMLError_FunctionNotFound,
        nvml.NVMLLibraryMismatchError,
    ):
        return default


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _text(name: str | bytes) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name
