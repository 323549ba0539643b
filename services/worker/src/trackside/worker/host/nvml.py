"""NVIDIA's management library (NVML) with types: the only module that imports pynvml.

A call may block for as long as the driver likes: call from a thread, one at a time.
Source: NVIDIA, NVML API Reference Guide; which Xids are a program's own fault: NVIDIA, "Xid Errors", and the
list that the Kubernetes device plugin of NVIDIA passes over.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog

log = structlog.get_logger("trackside.worker")

XIDS_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
"""Xids that a program's own error raises: the GPU is as good as before."""


class GpuError(Exception):
    """The driver's answer is an error; `gone` says that the GPU is out of order until somebody sees to it."""

    def __init__(self, reason: str, gone: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.gone = gone


@dataclass(frozen=True, slots=True)
class Gpu:
    """A physical GPU. `index` is its place on the PCI bus, `uuid` its name for life."""

    index: int
    uuid: str
    name: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU; `memory_bytes` is None where the driver doesn't tell."""

    pid: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """A GPU now. `used_bytes` includes `reserved_bytes`, which the driver keeps for itself.

    `utilisation_percent` is None where the driver doesn't measure it, as on a GPU that is split by MIG.
    """

    used_bytes: int
    reserved_bytes: int
    utilisation_percent: int | None
    processes: tuple[GpuProcess, ...]


class Nvml:
    """The library, opened at the first question, kept open, and opened anew after the driver went away."""

    def __init__(self) -> None:
        self._pynvml: Any = None
        self._handles: dict[str, Any] = {}
        self._events: Any = None
        self._xids: dict[str, int] = {}

    def gpus(self) -> list[Gpu]:
        """Lists the GPUs by index; one that fails is left out with a warning.

        Raises GpuError if there is no library or no driver.
        """
        with self._asking() as nvml:
            count = nvml.nvmlDeviceGetCount()
        found = []
        for index in range(count):
            try:
                found.append(self._gpu(index))
            except GpuError as error:
                log.warning("a GPU is left out: its driver fails", index=index, reason=error.reason)
        return found

    def readings(self, uuids: Iterable[str]) -> dict[str, Reading | GpuError]:
        """Reads GPUs by uuid; the failure of one is its answer and hides no other."""
        answers: dict[str, Reading | GpuError] = {}
        for uuid in uuids:
            try:
                answers[uuid] = self.reading(uuid)
            except GpuError as error:
                answers[uuid] = error
        return answers

    def reading(self, uuid: str) -> Reading:
        """Reads one GPU. Raises GpuError if it fails, has failed with an Xid, or the driver is gone."""
        with self._asking() as nvml:
            handle = self._handle(nvml, uuid)
            self._hear_xids(nvml)
            if uuid in self._xids:
                raise GpuError(f"the driver reported Xid {self._xids[uuid]}", gone=True)
            used, reserved = _memory(nvml, handle)
            return Reading(
                used_bytes=used,
                reserved_bytes=reserved,
                utilisation_percent=_if_known(
                    nvml, lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu), None
                ),
                processes=_processes(nvml, handle),
            )

    def close(self) -> None:
        """Closes the library; the next question opens it again."""
        nvml, self._pynvml = self._pynvml, None
        self._handles, self._events, self._xids = {}, None, {}
        if nvml is not None:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def _gpu(self, index: int) -> Gpu:
        with self._asking() as nvml:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
            found = Gpu(
                index=index,
                uuid=uuid,
                name=_text(nvml.nvmlDeviceGetName(handle)),
                memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            )
            self._keep(nvml, uuid, handle)
            return found

    def _handle(self, nvml: Any, uuid: str) -> Any:
        if uuid not in self._handles:
            self._keep(nvml, uuid, nvml.nvmlDeviceGetHandleByUUID(uuid))
        return self._handles[uuid]

    def _keep(self, nvml: Any, uuid: str, handle: Any) -> None:
        """Keeps a handle and asks for the GPU's Xids, where the driver gives them."""
        if uuid in self._handles:
            return
        self._handles[uuid] = handle
        with contextlib.suppress(nvml.NVMLError):
            if self._events is None:
                self._events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)

    def _hear_xids(self, nvml: Any) -> None:
        """Takes the Xids that have come up to now; the driver says with an error that there are no more."""
        uuids = {_address(handle): uuid for uuid, handle in self._handles.items()}
        with contextlib.suppress(nvml.NVMLError):
            while self._events is not None:
                event = nvml.nvmlEventSetWait(self._events, 0)
                xid, uuid = int(event.eventData), uuids.get(_address(event.device))
                log.warning("a GPU reported an Xid", xid=xid, uuid=uuid)
                if uuid is not None and xid not in XIDS_OF_PROGRAMS:
                    self._xids.setdefault(uuid, xid)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        """Gives the opened library, turns what it raises into GpuError, closes it if the driver is gone."""
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
    """Gives used and reserved bytes; drivers before 510 don't tell what they reserve."""
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
    """Gives what computes and what draws on a GPU, each pid once."""
    listed = [
        *_if_known(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle), []),
        *_if_known(nvml, lambda: nvml.nvmlDeviceGetGraphicsRunningProcesses(handle), []),
    ]
    found: dict[int, GpuProcess] = {}
    for process in listed:
        used = process.usedGpuMemory
        found.setdefault(process.pid, GpuProcess(int(process.pid), None if used is None else int(used)))
    return tuple(found.values())


def _if_known(nvml: Any, ask: Callable[[], Any], otherwise: Any) -> Any:
    """Gives an answer, or something else where this GPU or this driver has none."""
    try:
        return ask()
    except (
        nvml.NVMLError_NotSupported,
        nvml.NVMLError_NoPermission,
        nvml.NVMLError_FunctionNotFound,
        nvml.NVMLLibraryMismatchError,
    ):
        return otherwise


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _text(name: str | bytes) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name
