"""Why no present worker could ever run a task, in a sentence for the user. Pure."""

from collections.abc import Iterable, Sequence

from trackside.contracts.memory import shown
from trackside.scheduler.estimates import LargestMemory
from trackside.scheduler.occupancy import DeviceState, HostState
from trackside.scheduler.requirements import Requirements

MAX_LISTED = 10


def largest_memory(hosts: Iterable[HostState], requirements: Requirements) -> LargestMemory:
    """Returns the memory of the largest host and GPU among the workers that accept such tasks."""
    memory = cuda = 0
    for host in hosts:
        if host.serves(requirements):
            devices = [device for device in host.matching_devices(requirements) if device.is_gpu]
            cuda = max([cuda, *(device.spec.memory_bytes for device in devices)])
            memory = max(memory, host.worker.memory_bytes)
    return LargestMemory(memory, cuda)


def unschedulable_reason(requirements: Requirements, hosts: Sequence[HostState]) -> str:
    """Returns what a task needs and what there is, or "" if a worker could run it when empty."""
    accepting = [
        host for host in hosts if host.serves(Requirements(requirements.queue, requirements.task_type))
    ]
    if not accepting:
        return _no_worker(requirements, hosts)
    if any(_could_run(host, requirements) for host in accepting):
        return ""
    return (
        _no_device(requirements, accepting)
        or _too_few(requirements, accepting)
        or _too_large(requirements, accepting)
        or (
            f"needs {_devices(requirements)} with enough memory on one worker: some workers have the "
            "devices, others the memory, none has both"
        )
    )


def _could_run(host: HostState, requirements: Requirements) -> bool:
    """Returns whether a host could run a task if nothing else ran there."""
    if not host.serves(requirements):
        return False
    total = host.worker.memory_bytes
    if requirements.memory_bytes is not None and 0 < total < requirements.memory_bytes:
        return False
    fitting = [
        device for device in host.matching_devices(requirements) if _is_large_enough(device, requirements)
    ]
    gpus = sum(device.is_gpu for device in fitting)
    return max(gpus, len(fitting) - gpus) >= requirements.device_count


def _is_large_enough(device: DeviceState, requirements: Requirements) -> bool:
    total = device.spec.memory_bytes
    return (
        not device.is_gpu
        or requirements.cuda_memory_bytes is None
        or total == 0
        or requirements.cuda_memory_bytes <= total
    )


def _no_worker(requirements: Requirements, hosts: Sequence[HostState]) -> str:
    where = f"no worker takes tasks of type {requirements.task_type!r} from queue {requirements.queue!r}"
    if not hosts:
        return f"{where}: no worker is there"
    types = _listed(sorted({name for host in hosts for name in host.worker.task_types}))
    queues = _listed(sorted({name for host in hosts for name in host.worker.queues}))
    return f"{where}: task types there: {types}; queues: {queues}"


def _no_device(requirements: Requirements, accepting: Sequence[HostState]) -> str:
    if requirements.device_id:
        wanted = (
            f"{requirements.worker_id}/{requirements.device_id}"
            if requirements.worker_id
            else requirements.device_id
        )
        named = [host for host in accepting if host.serves(requirements)]
        if not any(True for host in named for _ in host.matching_devices(requirements)):
            kind = "" if requirements.kind == "any" else f" that is a {requirements.kind.upper()}"
            return f"no device {wanted}{kind} is there; devices: {_listed(_names(accepting))}"
    elif not any(True for host in accepting for _ in host.matching_devices(requirements)):
        return f"needs {_devices(requirements)}, no worker has one; devices: {_listed(_names(accepting))}"
    return ""


def _too_few(requirements: Requirements, accepting: Sequence[HostState]) -> str:
    counts = []
    for host in accepting:
        gpus = sum(device.is_gpu for device in host.matching_devices(requirements))
        others = sum(not device.is_gpu for device in host.matching_devices(requirements))
        counts.append((max(gpus, others), host.worker.worker_id))
    count, worker_id = max(counts)
    if count >= requirements.device_count:
        return ""
    return f"needs {_devices(requirements)} on one worker, {worker_id} has the most: {count}"


def _too_large(requirements: Requirements, accepting: Sequence[HostState]) -> str:
    serving = [host for host in accepting if host.serves(requirements)]
    if requirements.cuda_memory_bytes is not None:
        gpus = [
            (device.spec.memory_bytes, host, device)
            for host in serving
            for device in host.matching_devices(requirements)
        ]
        total, host, device = max(gpus, key=lambda entry: entry[0])
        if not any(_is_large_enough(device, requirements) for _, _, device in gpus):
            name = f"{host.worker.worker_id}/{device.spec.device_id}"
            needed = shown(requirements.cuda_memory_bytes)
            return f"needs {needed} on one device, the largest has {shown(total)} ({name})"
    largest = max(serving, key=lambda host: host.worker.memory_bytes)
    total = largest.worker.memory_bytes
    if requirements.memory_bytes is not None and 0 < total < requirements.memory_bytes:
        name = largest.worker.worker_id
        return (
            f"needs {shown(requirements.memory_bytes)} on one host, the largest has {shown(total)} ({name})"
        )
    return ""


def _devices(requirements: Requirements) -> str:
    name = {"any": "device", "cpu": "CPU slot", "gpu": "GPU"}[requirements.kind]
    return f"{requirements.device_count} {name}s" if requirements.device_count > 1 else f"a {name}"


def _names(hosts: Iterable[HostState]) -> list[str]:
    return [
        f"{host.worker.worker_id}/{device.spec.device_id}{'' if device.healthy else ' (failed)'}"
        for host in hosts
        for device in host.devices.values()
    ]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return (", ".join(names[:MAX_LISTED]) or "none") + more
