"""Why no worker that is there could ever run a task, in a sentence for the user. Pure."""

from collections.abc import Iterable, Sequence

from trackside.contracts.memory import shown
from trackside.scheduler.estimates import Most
from trackside.scheduler.occupancy import Host, Slot
from trackside.scheduler.requirements import Requirements

LISTED = 10


def most_of(hosts: Iterable[Host], requirements: Requirements) -> Most:
    """Gives the largest host and the largest GPU among the workers that take such tasks, bytes."""
    memory = cuda = 0
    for host in hosts:
        if host.serves(requirements):
            slots = [slot for slot in host.matching_devices(requirements) if slot.is_gpu]
            cuda = max([cuda, *(slot.device.memory_bytes for slot in slots)])
            memory = max(memory, host.worker.memory_bytes)
    return Most(memory, cuda)


def never_fits(requirements: Requirements, hosts: Sequence[Host]) -> str:
    """Says what a task would need and what there is, or nothing if an empty worker could run it."""
    takers = [host for host in hosts if host.serves(Requirements(requirements.queue, requirements.task_type))]
    if not takers:
        return _no_taker(requirements, hosts)
    if any(_could_run(host, requirements) for host in takers):
        return ""
    return (
        _no_device(requirements, takers)
        or _too_few(requirements, takers)
        or _too_large(requirements, takers)
        or (
            f"needs {_devices(requirements)} with enough memory on one worker: some workers have the "
            "devices, others the memory, none has both"
        )
    )


def _could_run(host: Host, requirements: Requirements) -> bool:
    """Says whether a host could run a task if nothing else was on it."""
    if not host.serves(requirements):
        return False
    total = host.worker.memory_bytes
    if requirements.memory is not None and 0 < total < requirements.memory:
        return False
    fitting = [slot for slot in host.matching_devices(requirements) if _is_large_enough(slot, requirements)]
    gpus = sum(slot.is_gpu for slot in fitting)
    return max(gpus, len(fitting) - gpus) >= requirements.devices


def _is_large_enough(slot: Slot, requirements: Requirements) -> bool:
    total = slot.device.memory_bytes
    return not slot.is_gpu or requirements.cuda is None or total == 0 or requirements.cuda <= total


def _no_taker(requirements: Requirements, hosts: Sequence[Host]) -> str:
    where = f"no worker takes tasks of type {requirements.task_type!r} from queue {requirements.queue!r}"
    if not hosts:
        return f"{where}: no worker is there"
    types = _listed(sorted({name for host in hosts for name in host.worker.task_types}))
    queues = _listed(sorted({name for host in hosts for name in host.worker.queues}))
    return f"{where}: task types there: {types}; queues: {queues}"


def _no_device(requirements: Requirements, takers: Sequence[Host]) -> str:
    if requirements.device_id:
        wanted = (
            f"{requirements.worker_id}/{requirements.device_id}"
            if requirements.worker_id
            else requirements.device_id
        )
        named = [host for host in takers if host.serves(requirements)]
        if not any(True for host in named for _ in host.matching_devices(requirements)):
            kind = "" if requirements.kind == "any" else f" that is a {requirements.kind.upper()}"
            return f"no device {wanted}{kind} is there; devices: {_listed(_names(takers))}"
    elif not any(True for host in takers for _ in host.matching_devices(requirements)):
        return f"needs {_devices(requirements)}, no worker has one; devices: {_listed(_names(takers))}"
    return ""


def _too_few(requirements: Requirements, takers: Sequence[Host]) -> str:
    counts = []
    for host in takers:
        gpus = sum(slot.is_gpu for slot in host.matching_devices(requirements))
        others = sum(not slot.is_gpu for slot in host.matching_devices(requirements))
        counts.append((max(gpus, others), host.worker.worker_id))
    count, worker_id = max(counts)
    if count >= requirements.devices:
        return ""
    return f"needs {_devices(requirements)} on one worker, {worker_id} has the most: {count}"


def _too_large(requirements: Requirements, takers: Sequence[Host]) -> str:
    serving = [host for host in takers if host.serves(requirements)]
    if requirements.cuda is not None:
        gpus = [
            (slot.device.memory_bytes, host, slot)
            for host in serving
            for slot in host.matching_devices(requirements)
        ]
        total, host, slot = max(gpus, key=lambda found: found[0])
        if not any(_is_large_enough(slot, requirements) for _, _, slot in gpus):
            name = f"{host.worker.worker_id}/{slot.device.device_id}"
            return f"needs {shown(requirements.cuda)} on one device, the largest has {shown(total)} ({name})"
    largest = max(serving, key=lambda host: host.worker.memory_bytes)
    total = largest.worker.memory_bytes
    if requirements.memory is not None and 0 < total < requirements.memory:
        name = largest.worker.worker_id
        return f"needs {shown(requirements.memory)} on one host, the largest has {shown(total)} ({name})"
    return ""


def _devices(requirements: Requirements) -> str:
    name = {"any": "device", "cpu": "CPU slot", "gpu": "GPU"}[requirements.kind]
    return f"{requirements.devices} {name}s" if requirements.devices > 1 else f"a {name}"


def _names(hosts: Iterable[Host]) -> list[str]:
    return [
        f"{host.worker.worker_id}/{slot.device.device_id}{'' if slot.healthy else ' (failed)'}"
        for host in hosts
        for slot in host.slots.values()
    ]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return (", ".join(names[:LISTED]) or "none") + more
