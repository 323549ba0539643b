"""The most memory that a task may have on a worker: what is there, and what its catalogue allows. Pure."""

from trackside.contracts.fleet import Device
from trackside.domain.fleet import Worker


def host_limit(worker: Worker, task_type: str) -> int:
    """Returns the most memory of the host, bytes; 0 if it is neither limited nor known."""
    return _smaller(worker.memory_bytes, worker.max_memory_bytes.get(task_type, 0))


def device_limit(worker: Worker, device: Device, task_type: str) -> int:
    """Returns the most memory of a GPU, bytes; 0 if it is neither limited nor known."""
    return _smaller(device.memory_bytes, worker.max_cuda_memory_bytes.get(task_type, 0))


def _smaller(size_bytes: int, allowed_bytes: int) -> int:
    return min(size_bytes, allowed_bytes) if size_bytes and allowed_bytes else size_bytes or allowed_bytes
