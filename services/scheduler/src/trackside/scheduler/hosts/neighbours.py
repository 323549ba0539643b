"""Which workers share a GPU or the memory of their host: what one books there counts for all. Pure."""

from collections import defaultdict
from collections.abc import Iterable

from trackside.scheduler.hosts.device_state import DeviceState
from trackside.scheduler.hosts.occupancy import HostState


def link_neighbours(hosts: Iterable[HostState]) -> None:
    """Makes workers share bookings of GPUs with the same uuid, and of the memory of the same pool.

    A worker that is gone and has no task is left out.
    """
    pools: dict[str, list[HostState]] = defaultdict(list)
    gpus: dict[str, list[tuple[HostState, DeviceState]]] = defaultdict(list)
    for host in hosts:
        _unlink(host)
        if host.worker.gone and not host.bookings:
            continue
        if host.worker.memory_pool:
            pools[host.worker.memory_pool].append(host)
        for device in host.devices.values():
            if device.spec.uuid:
                gpus[device.spec.uuid].append((host, device))
    for members in pools.values():
        for host in members if len(members) > 1 else ():
            host.pool = tuple(other for other in members if other is not host)
            _add_neighbours(host, host.pool)
            host.count_pool()
    for sharing in gpus.values():
        if len(sharing) > 1:
            _share(sharing)


def _unlink(host: HostState) -> None:
    if not host.neighbours:
        return
    host.neighbours, host.pool, host.twins, host.pool_bytes = (), (), {}, 0
    for device in host.devices.values():
        own = {task_id: each for task_id, each in device.bookings.items() if task_id in host.bookings}
        device.bookings = own
    host.refresh_devices(host.devices.values())


def _share(sharing: list[tuple[HostState, DeviceState]]) -> None:
    """Books on a GPU that several workers have what each of them has booked there."""
    bookings = {task_id: each for _, device in sharing for task_id, each in device.bookings.items()}
    for host, device in sharing:
        twins = [(other, twin) for other, twin in sharing if other is not host]
        host.twins[device.spec.device_id] = twins
        _add_neighbours(host, (other for other, _ in twins))
        device.bookings = dict(bookings)
        host.refresh_devices((device,))


def _add_neighbours(host: HostState, others: Iterable[HostState]) -> None:
    new = dict.fromkeys(other.worker.worker_id for other in host.neighbours)
    host.neighbours += tuple(other for other in others if other.worker.worker_id not in new)
