"""Why no present worker could ever run a task, in a sentence for the user. Pure."""

from collections.abc import Iterable, Sequence

from trackside.contracts.envelope.memory import MAX_BYTES, shown
from trackside.scheduler.hosts.device_state import DeviceState, device_limit, host_limit
from trackside.scheduler.hosts.estimates import MemoryOffer
from trackside.scheduler.hosts.occupancy import HostState
from trackside.scheduler.hosts.requirements import Requirements

MAX_LISTED = 10


def memory_offers(hosts: Iterable[HostState], requirements: Requirements) -> list[MemoryOffer]:
    """Returns how much memory each host offers such a task that could run there, on GPUs and on CPU slots."""
    offers, count = list[MemoryOffer](), requirements.device_count
    for host in hosts:
        if not _could_run(host, requirements):
            continue
        memory = host_limit(host.worker, requirements.task_type)
        devices = list(host.matching_devices(requirements))
        gpus = [
            device_limit(host.worker, device.spec, requirements.task_type)
            for device in devices
            if device.is_gpu
        ]
        if len(devices) - len(gpus) >= count:
            offers.append(MemoryOffer(memory))
        if len(gpus) >= count > 0:
            gpus.sort(key=lambda limit: limit or MAX_BYTES, reverse=True)
            offers.append(MemoryOffer(memory, gpus[count - 1]))
    return offers


def unschedulable_reason(requirements: Requirements, hosts: Sequence[HostState]) -> str:
    """Returns what a task needs and what there is, or "" if a worker could run it when empty."""
    accepting = [
        host for host in hosts if host.serves(Requirements(requirements.queue, requirements.task_type))
    ]
    if not accepting:
        return _no_worker(requirements, hosts)
    if any(_could_run(host, requirements) for host in accepting):
        return ""
    if requirements.exceeded_bytes:
        accepting = [host for host in accepting if not host.is_exceeded(requirements)]
        if not accepting:
            return _exceeded(requirements)
    if not any(requirements.credentials <= host.worker.credentials for host in accepting):
        return _no_credential(requirements, accepting)
    accepting = [host for host in accepting if requirements.credentials <= host.worker.credentials]
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
    limit = host_limit(host.worker, requirements.task_type)
    if requirements.memory_bytes is not None and 0 < limit < requirements.memory_bytes:
        return False
    fitting = [
        device
        for device in host.matching_devices(requirements)
        if _is_large_enough(host, device, requirements)
    ]
    gpus = sum(device.is_gpu for device in fitting)
    return max(gpus, len(fitting) - gpus) >= requirements.device_count


def _is_large_enough(host: HostState, device: DeviceState, requirements: Requirements) -> bool:
    limit = device_limit(host.worker, device.spec, requirements.task_type)
    return (
        not device.is_gpu
        or requirements.cuda_memory_bytes is None
        or limit == 0
        or requirements.cuda_memory_bytes <= limit
    )


def _no_worker(requirements: Requirements, hosts: Sequence[HostState]) -> str:
    where = f"no worker takes tasks of type {requirements.task_type!r} from queue {requirements.queue!r}"
    if not hosts:
        return f"{where}: no worker is there"
    types = _listed(sorted({name for host in hosts for name in host.worker.task_types}))
    queues = _listed(sorted({name for host in hosts for name in host.worker.queues}))
    return f"{where}: task types there: {types}; queues: {queues}"


def _no_credential(requirements: Requirements, accepting: Sequence[HostState]) -> str:
    wanted = sorted(requirements.credentials)
    there = frozenset[str]().union(*(host.worker.credentials for host in accepting))
    absent = [name for name in wanted if name not in there]
    who = (
        f"no worker's host has the credential {absent[0]!r}" if absent else "no worker's host has all of them"
    )
    what = "credential" if len(wanted) == 1 else "credentials"
    return (
        f"its inputs need the {what} {_listed(wanted)}, and {who}: add it to the file that "
        "TRACKSIDE_CREDENTIALS names there, and start the worker again"
    )


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


def _exceeded(requirements: Requirements) -> str:
    return (
        f"was killed at its memory limit of {shown(requirements.exceeded_bytes)}, and no worker allows tasks "
        f"of type {requirements.task_type!r} more: raise max_memory in the catalogue of a worker"
    )


def _too_large(requirements: Requirements, accepting: Sequence[HostState]) -> str:
    serving = [host for host in accepting if host.serves(requirements)]
    task_type = requirements.task_type
    if requirements.cuda_memory_bytes is not None:
        gpus = [(host, device) for host in serving for device in host.matching_devices(requirements)]
        if not any(_is_large_enough(host, device, requirements) for host, device in gpus):
            host, device = max(gpus, key=lambda gpu: device_limit(gpu[0].worker, gpu[1].spec, task_type))
            limit = device_limit(host.worker, device.spec, task_type)
            name = f"{host.worker.worker_id}/{device.spec.device_id}"
            needed = f"needs {shown(requirements.cuda_memory_bytes)} on one device"
            if limit < device.spec.memory_bytes:
                return f"{needed}, {_most_allowed(limit, name, task_type, 'max_cuda_memory')}"
            return f"{needed}, the largest has {shown(limit)} ({name})"
    largest = max(serving, key=lambda host: host_limit(host.worker, task_type))
    limit, name = host_limit(largest.worker, task_type), largest.worker.worker_id
    if requirements.memory_bytes is not None and 0 < limit < requirements.memory_bytes:
        needed = f"needs {shown(requirements.memory_bytes)} on one host"
        if limit != largest.worker.memory_bytes:
            return f"{needed}, {_most_allowed(limit, name, task_type, 'max_memory')}"
        return f"{needed}, the largest has {shown(limit)} ({name})"
    return ""


def _most_allowed(limit_bytes: int, name: str, task_type: str, key: str) -> str:
    return (
        f"the most that tasks of type {task_type!r} may have is {shown(limit_bytes)} "
        f"({name}, {key} in its catalogue): request less, or raise it there"
    )


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
