"""Rows of workers and their devices."""

from collections.abc import Iterable

from trackside.contracts.fleet import DeviceUnhealthy, WorkerJoined, WorkerLeft, WorkerLost
from trackside.contracts.message import Event
from trackside.domain.fleet import Fleet
from trackside.projections.cells import moment, plain, whole
from trackside.projections.projection import Key, Row, Table


class Workers:
    """One row a worker, in its newest incarnation."""

    table = Table(
        "workers",
        (
            "worker_id",
            "incarnation",
            "host",
            "status",
            "task_types",
            "queues",
            "memory_bytes",
            "max_tasks",
            "joined_ms",
            "gone_ms",
        ),
        key_width=1,
    )

    def touched(self, fleet: Fleet, event: Event) -> Iterable[Key]:
        """Gives the worker of any event about it."""
        return ((event.worker_id,),) if isinstance(event, WorkerJoined | WorkerLeft | WorkerLost) else ()

    def keys(self, fleet: Fleet) -> Iterable[Key]:
        """Gives all workers."""
        return ((worker_id,) for worker_id in fleet.workers)

    def row(self, fleet: Fleet, key: Key) -> Row:
        """Computes the row of a worker."""
        worker = fleet.workers[key[0]]
        return (
            plain(worker.worker_id),
            plain(worker.incarnation),
            plain(worker.host),
            worker.gone or "here",
            sorted(plain(name) for name in worker.task_types),
            sorted(plain(name) for name in worker.queues),
            whole(worker.memory_bytes),
            whole(worker.max_tasks),
            worker.joined_ms,
            moment(worker.gone_ms),
        )


class Devices:
    """One row a device of a worker; a join replaces all devices of its worker."""

    table = Table(
        "devices",
        ("worker_id", "device_id", "kind", "name", "memory_bytes", "device_index", "uuid", "unhealthy"),
        key_width=2,
        grouped=True,
    )

    def touched(self, fleet: Fleet, event: Event) -> Iterable[Key]:
        """Gives the devices of a worker that joined, or one of whose devices has failed."""
        return ((event.worker_id,),) if isinstance(event, WorkerJoined | DeviceUnhealthy) else ()

    def keys(self, fleet: Fleet) -> Iterable[Key]:
        """Gives the devices of all workers."""
        for worker_id, worker in fleet.workers.items():
            for device_id in worker.devices:
                yield (worker_id, device_id)

    def row(self, fleet: Fleet, key: Key) -> Row:
        """Computes the row of a device."""
        worker = fleet.workers[key[0]]
        device, failed = worker.devices[key[1]], worker.unhealthy.get(key[1])
        return (
            plain(key[0]),
            plain(key[1]),
            device.kind,
            plain(device.name),
            whole(device.memory_bytes),
            None if device.index < 0 else whole(device.index),
            plain(device.uuid) or None,
            None if failed is None else plain(failed),
        )
