"""Rows of workers and their devices."""

from collections.abc import Iterable

from trackside.contracts.envelope.message import Event
from trackside.contracts.fleet.fleet import (
    CatalogueChanged,
    DeviceUnhealthy,
    WorkerJoined,
    WorkerLeft,
    WorkerLost,
)
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.rows.cells import bigint, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table


class WorkerRows:
    """One row per worker, in its newest incarnation."""

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
            "memory_pool",
            "joined_ms",
            "gone_ms",
        ),
        key_width=1,
    )

    def touched(self, fleet: Fleet, event: Event) -> Iterable[RowKey]:
        """Returns the worker of any event about it."""
        about_worker = WorkerJoined | CatalogueChanged | WorkerLeft | WorkerLost
        return ((event.worker_id,),) if isinstance(event, about_worker) else ()

    def keys(self, fleet: Fleet) -> Iterable[RowKey]:
        """Returns all workers."""
        return ((worker_id,) for worker_id in fleet.workers)

    def row(self, fleet: Fleet, key: RowKey) -> RowValues:
        """Computes the row of a worker."""
        worker = fleet.workers[key[0]]
        return (
            without_nul(worker.worker_id),
            without_nul(worker.incarnation),
            without_nul(worker.host),
            worker.gone or "here",
            sorted(without_nul(name) for name in worker.task_types),
            sorted(without_nul(name) for name in worker.queues),
            bigint(worker.memory_bytes),
            bigint(worker.max_tasks),
            without_nul(worker.memory_pool) or None,
            worker.joined_ms,
            time_or_null(worker.gone_ms),
        )


class DeviceRows:
    """One row per device of a worker; a join replaces all devices of its worker."""

    table = Table(
        "devices",
        ("worker_id", "device_id", "kind", "name", "memory_bytes", "device_index", "uuid", "unhealthy"),
        key_width=2,
        grouped=True,
    )

    def touched(self, fleet: Fleet, event: Event) -> Iterable[RowKey]:
        """Returns the devices of a worker that joined, or one of whose devices has failed."""
        return ((event.worker_id,),) if isinstance(event, WorkerJoined | DeviceUnhealthy) else ()

    def keys(self, fleet: Fleet) -> Iterable[RowKey]:
        """Returns the devices of all workers."""
        for worker_id, worker in fleet.workers.items():
            for device_id in worker.devices:
                yield (worker_id, device_id)

    def row(self, fleet: Fleet, key: RowKey) -> RowValues:
        """Computes the row of a device."""
        worker = fleet.workers[key[0]]
        device, failed = worker.devices[key[1]], worker.unhealthy.get(key[1])
        return (
            without_nul(key[0]),
            without_nul(key[1]),
            device.kind,
            without_nul(device.name),
            bigint(device.memory_bytes),
            None if device.index < 0 else bigint(device.index),
            without_nul(device.uuid) or None,
            None if failed is None else without_nul(failed),
        )
