"""The devices of this host: NVIDIA GPUs where the driver answers, and slots of the CPU."""

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from trackside.contracts.fleet.fleet import Device
from trackside.worker.host.nvml import Gpu, GpuError, Nvml
from trackside.worker.host.usage import read_host

log = structlog.get_logger("trackside.worker")


@dataclass(frozen=True, slots=True)
class HostDevice:
    """A device and how a task addresses it: its CUDA_VISIBLE_DEVICES, and torch's name for it."""

    device: Device
    cuda_visible_devices: str
    torch_name: str

    @property
    def id(self) -> str:
        """The device's id, unique within its worker."""
        return self.device.device_id


def discover(cpu_slots: int, nvml: Nvml | None = None) -> list[HostDevice]:
    """Returns the GPUs and CPU slots of this host; without a working NVIDIA driver there are no GPUs."""
    library = nvml or Nvml()
    try:
        return [*gpu_devices(library), *cpu_devices(cpu_slots, read_host().memory_bytes)]
    finally:
        if nvml is None:
            library.close()


def gpu_devices(nvml: Nvml) -> list[HostDevice]:
    """Returns the GPUs; logs why there are none."""
    try:
        return [_gpu_device(gpu) for gpu in nvml.gpus()]
    except GpuError as error:
        log.info("no NVIDIA GPUs: tasks run on the CPU", reason=error.reason)
        return []


def cpu_devices(count: int, memory_bytes: int) -> list[HostDevice]:
    """Returns the CPU slots, each with an equal share of the host's memory."""
    return [
        HostDevice(
            Device(device_id=f"cpu-{slot}", kind="cpu", name="CPU slot", memory_bytes=memory_bytes // count),
            cuda_visible_devices="",
            torch_name="cpu",
        )
        for slot in range(count)
    ]


def cuda_visible_devices(host_devices: Iterable[HostDevice]) -> str:
    """Returns CUDA_VISIBLE_DEVICES for these devices; empty for CPU slots."""
    return ",".join(filter(None, (host_device.cuda_visible_devices for host_device in host_devices)))


def _gpu_device(gpu: Gpu) -> HostDevice:
    device = Device(
        device_id=f"gpu-{gpu.index}",
        kind="gpu",
        name=gpu.name,
        memory_bytes=gpu.memory_bytes,
        index=gpu.index,
        uuid=gpu.uuid,
    )
    # By UUID: CUDA numbers devices by speed by default, NVML in the order of the bus.
    return HostDevice(device, cuda_visible_devices=gpu.uuid, torch_name="cuda:0")
