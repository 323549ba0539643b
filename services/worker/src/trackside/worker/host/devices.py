"""The devices of this host: NVIDIA GPUs where the driver answers, and slots of the CPU."""

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from trackside.contracts.fleet import Device
from trackside.worker.host.nvml import Gpu, GpuError, Nvml
from trackside.worker.host.usage import read_host

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


def discover(cpu_slots: int, nvml: Nvml | None = None) -> list[Place]:
    """Lists the GPUs and the CPU slots of this host; no library, no driver or a broken one means no GPUs."""
    asked = nvml or Nvml()
    try:
        return [*gpu_places(asked), *cpu_places(cpu_slots, read_host().memory_bytes)]
    finally:
        if nvml is None:
            asked.close()


def gpu_places(nvml: Nvml) -> list[Place]:
    """Lists the GPUs; says in the log why there are none."""
    try:
        return [_gpu_place(gpu) for gpu in nvml.gpus()]
    except GpuError as error:
        log.info("no NVIDIA GPUs: tasks run on the CPU", reason=error.reason)
        return []


def cpu_places(count: int, memory_bytes: int) -> list[Place]:
    """Gives the CPU slots, each with its share of the host's memory."""
    return [
        Place(
            Device(device_id=f"cpu-{slot}", kind="cpu", name="CPU slot", memory_bytes=memory_bytes // count),
            cuda_visible_devices="",
            torch_name="cpu",
        )
        for slot in range(count)
    ]


def cuda_visible_devices(places: Iterable[Place]) -> str:
    """Gives what CUDA may see with these devices; nothing with slots of the CPU."""
    return ",".join(filter(None, (place.cuda_visible_devices for place in places)))


def _gpu_place(gpu: Gpu) -> Place:
    device = Device(
        device_id=f"gpu-{gpu.index}",
        kind="gpu",
        name=gpu.name,
        memory_bytes=gpu.memory_bytes,
        index=gpu.index,
        uuid=gpu.uuid,
    )
    # By UUID: CUDA numbers devices by speed unless told otherwise, NVML by their place on the bus.
    return Place(device, cuda_visible_devices=gpu.uuid, torch_name="cuda:0")
