"""Places for tasks: GPUs by the names CUDA wants, slots of the CPU with their share of the memory."""

from trackside.worker.host.devices import cpu_devices, gpu_devices
from trackside.worker.host.nvml import Gpu, GpuError, Nvml


class Listed(Nvml):
    """A driver that lists what it was told to."""

    def __init__(self, answer: list[Gpu] | GpuError) -> None:
        super().__init__()
        self._answer = answer

    def gpus(self) -> list[Gpu]:
        if isinstance(self._answer, GpuError):
            raise self._answer
        return self._answer


def test_a_gpu_is_given_to_tasks_by_its_uuid() -> None:
    (place,) = gpu_devices(Listed([Gpu(index=3, uuid="GPU-3", name="H200", memory_bytes=1000)]))
    assert (place.id, place.device.kind, place.device.index, place.device.uuid) == (
        "gpu-3",
        "gpu",
        3,
        "GPU-3",
    )
    assert (place.cuda_visible_devices, place.torch_name) == ("GPU-3", "cuda:0")
    assert (place.device.name, place.device.memory_bytes) == ("H200", 1000)


def test_a_driver_that_fails_means_no_gpus() -> None:
    assert gpu_devices(Listed(GpuError("Driver Not Loaded"))) == []


def test_cpu_slots_share_the_memory_of_the_host() -> None:
    places = cpu_devices(4, 1000)
    assert [place.id for place in places] == ["cpu-0", "cpu-1", "cpu-2", "cpu-3"]
    assert {place.device.memory_bytes for place in places} == {250}
    assert {place.cuda_visible_devices for place in places} == {""}
    assert cpu_devices(0, 1000) == []
