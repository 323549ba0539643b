"""The devices of this host: NVIDIA GPUs where the driver answers, and slots of the CPU."""

import os
from dataclasses import dataclass

import structlog

from trackside.contracts.fleet import Device

log = structlog.get_logger("trackside.worker")


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
