"""What a worker publishes for its neighbours on the host, and what it reports of them. Pure."""

from collections.abc import Collection, Iterator

from trackside.contracts.fleet.fleet import NeighbourUse
from trackside.worker.host.neighbours import Neighbour, NeighbourTask
from trackside.worker.placements.ledger import HAS_DEVICES, HAS_PROCESS, Allocation, Claim, Ledger, Stage


def published(ledger: Ledger, worker_id: str, incarnation: str, waiting: Collection[str]) -> Neighbour:
    """Returns what a worker publishes; `waiting` are the keys of those that only neighbours keep waiting."""
    return Neighbour(
        worker_id=worker_id,
        incarnation=incarnation,
        memory_pool=ledger.memory_pool,
        used_memory_bytes=ledger.used_memory_bytes,
        used_bytes_by_uuid={
            ledger.devices[device_id].uuid: used
            for device_id, used in ledger.used_bytes_by_device.items()
            if ledger.devices[device_id].uuid
        },
        tasks=tuple(
            task
            for key, allocation in ledger.allocations.items()
            for task in _tasks_of(ledger, allocation, key in waiting)
        ),
    )


def _tasks_of(ledger: Ledger, allocation: Allocation, waits: bool) -> Iterator[NeighbourTask]:
    if allocation.stage in HAS_PROCESS or allocation.stage is Stage.IDLE:
        has_devices = allocation.stage in HAS_DEVICES or allocation.stage is Stage.IDLE
        yield NeighbourTask(
            task_id=allocation.task_id,
            stage="idle" if allocation.stage is Stage.IDLE else "runs",
            uuids=_uuids(ledger, allocation.claim) if has_devices else (),
            memory_bytes=allocation.memory_bytes,
            cuda_memory_bytes=allocation.cuda_memory_bytes,
            whole_device=allocation.claim.whole_device,
        )
    if waits:
        yield NeighbourTask(
            task_id=allocation.task_id,
            stage="waits",
            uuids=_uuids(ledger, allocation.claim),
            memory_bytes=allocation.claim.memory_bytes,
        )


def _uuids(ledger: Ledger, claim: Claim) -> tuple[str, ...]:
    return tuple(filter(None, (ledger.devices[device_id].uuid for device_id in claim.device_ids)))


def neighbour_uses(ledger: Ledger) -> tuple[NeighbourUse, ...]:
    """Returns what heartbeats report of the neighbours that have tasks."""
    return tuple(
        use for each in ledger.neighbours if (use := _use_of(ledger, each)).memory_bytes or use.device_bytes
    )


def _use_of(ledger: Ledger, neighbour: Neighbour) -> NeighbourUse:
    used = neighbour.used_memory_bytes
    reserved = ledger.pool_bytes_of(neighbour)
    taken: dict[str, int] = {}
    for device_id, device in ledger.devices.items():
        if device.uuid and (found := neighbour.reserved_bytes(device.uuid)):
            taken[device_id] = found
        if any(task.whole_device and device.uuid in task.uuids for task in neighbour.present()):
            taken[device_id] = device.memory_bytes
    return NeighbourUse(
        incarnation=neighbour.incarnation,
        memory_bytes=max(0, reserved - used),
        device_bytes=taken,
    )


def idle_neighbour_bytes(ledger: Ledger) -> int:
    """Returns the bytes of host memory that warm processes of neighbours have: they end when one waits."""
    sharing = (each for each in ledger.neighbours if ledger.shares_memory(each))
    return sum(task.memory_bytes for each in sharing for task in each.tasks if task.stage == "idle")


def used_by_neighbours(ledger: Ledger) -> int:
    """Returns the bytes of host memory that tasks of neighbours use."""
    sharing = (each for each in ledger.neighbours if ledger.shares_memory(each))
    return sum(each.used_memory_bytes for each in sharing)
