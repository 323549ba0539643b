"""Why no worker that is there could ever run a task, in a sentence for the user. Pure."""

from collections.abc import Iterable, Sequence

from trackside.contracts.memory import shown
from trackside.scheduler.asks import Asks
from trackside.scheduler.estimates import Most
from trackside.scheduler.occupancy import Host, Slot

LISTED = 10


def most_of(hosts: Iterable[Host], asks: Asks) -> Most:
    """Gives the largest host and the largest GPU among the workers that take such tasks, bytes."""
    memory = cuda = 0
    for host in hosts:
        if host.serves(asks):
            slots = [slot for slot in host.candidates(asks) if slot.is_gpu]
            cuda = max([cuda, *(slot.device.memory_bytes for slot in slots)])
            memory = max(memory, host.worker.memory_bytes)
    return Most(memory, cuda)


def never_fits(asks: Asks, hosts: Sequence[Host]) -> str:
    """Says what a task would need and what there is, or nothing if an empty worker could run it."""
    takers = [host for host in hosts if host.serves(Asks(asks.queue, asks.task_type))]
    if not takers:
        return _no_taker(asks, hosts)
    if any(_could_run(host, asks) for host in takers):
        return ""
    return (
        _no_device(asks, takers)
        or _too_few(asks, takers)
        or _too_large(asks, takers)
        or (
            f"needs {_devices(asks)} with enough memory on one worker: some workers have the devices, "
            "others the memory, none has both"
        )
    )


def _could_run(host: Host, asks: Asks) -> bool:
    """Says whether a host could run a task if nothing else was on it."""
    if not host.serves(asks):
        return False
    total = host.worker.memory_bytes
    if asks.memory is not None and 0 < total < asks.memory:
        return False
    fitting = [slot for slot in host.candidates(asks) if _is_large_enough(slot, asks)]
    gpus = sum(slot.is_gpu for slot in fitting)
    return max(gpus, len(fitting) - gpus) >= asks.devices


def _is_large_enough(slot: Slot, asks: Asks) -> bool:
    total = slot.device.memory_bytes
    return not slot.is_gpu or asks.cuda is None or total == 0 or asks.cuda <= total


def _no_taker(asks: Asks, hosts: Sequence[Host]) -> str:
    where = f"no worker takes tasks of type {asks.task_type!r} from queue {asks.queue!r}"
    if not hosts:
        return f"{where}: no worker is there"
    types = _listed(sorted({name for host in hosts for name in host.worker.task_types}))
    queues = _listed(sorted({name for host in hosts for name in host.worker.queues}))
    return f"{where}: task types there: {types}; queues: {queues}"


def _no_device(asks: Asks, takers: Sequence[Host]) -> str:
    if asks.device_id:
        wanted = f"{asks.worker_id}/{asks.device_id}" if asks.worker_id else asks.device_id
        named = [host for host in takers if host.serves(asks)]
        if not any(True for host in named for _ in host.candidates(asks)):
            kind = "" if asks.kind == "any" else f" that is a {asks.kind.upper()}"
            return f"no device {wanted}{kind} is there; devices: {_listed(_names(takers))}"
    elif not any(True for host in takers for _ in host.candidates(asks)):
        return f"needs {_devices(asks)}, no worker has one; devices: {_listed(_names(takers))}"
    return ""


def _too_few(asks: Asks, takers: Sequence[Host]) -> str:
    counts = []
    for host in takers:
        gpus = sum(slot.is_gpu for slot in host.candidates(asks))
        others = sum(not slot.is_gpu for slot in host.candidates(asks))
        counts.append((max(gpus, others), host.worker.worker_id))
    count, worker_id = max(counts)
    if count >= asks.devices:
        return ""
    return f"needs {_devices(asks)} on one worker, {worker_id} has the most: {count}"


def _too_large(asks: Asks, takers: Sequence[Host]) -> str:
    serving = [host for host in takers if host.serves(asks)]
    if asks.cuda is not None:
        gpus = [(slot.device.memory_bytes, host, slot) for host in serving for slot in host.candidates(asks)]
        total, host, slot = max(gpus, key=lambda found: found[0])
        if not any(_is_large_enough(slot, asks) for _, _, slot in gpus):
            name = f"{host.worker.worker_id}/{slot.device.device_id}"
            return f"needs {shown(asks.cuda)} on one device, the largest has {shown(total)} ({name})"
    largest = max(serving, key=lambda host: host.worker.memory_bytes)
    total = largest.worker.memory_bytes
    if asks.memory is not None and 0 < total < asks.memory:
        name = largest.worker.worker_id
        return f"needs {shown(asks.memory)} on one host, the largest has {shown(total)} ({name})"
    return ""


def _devices(asks: Asks) -> str:
    name = {"any": "device", "cpu": "CPU slot", "gpu": "GPU"}[asks.kind]
    return f"{asks.devices} {name}s" if asks.devices > 1 else f"a {name}"


def _names(hosts: Iterable[Host]) -> list[str]:
    return [
        f"{host.worker.worker_id}/{slot.device.device_id}{'' if slot.healthy else ' (failed)'}"
        for host in hosts
        for slot in host.slots.values()
    ]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return (", ".join(names[:LISTED]) or "none") + more
