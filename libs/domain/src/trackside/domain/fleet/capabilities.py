"""What the fleet and this installation have to give, as far as a command may ask for it: pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.domain.fleet.fleet import Fleet

LISTED = 20
"""How many devices a refusal lists."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The task types of all catalogues, and the devices of the workers that are there, by all their names.

    `services` are task types that are services, `mixed` those that are one in some catalogues only.
    `tuners` and `assessors` are the names of those that users have installed beside ours. `digests` are those
    of a task type in all catalogues that have it, sorted; `built_in` the task types of workers themselves.
    `credentials` are the names of those that some worker's host has.
    """

    task_types: frozenset[str] = frozenset()
    devices: tuple[str, ...] = ()
    device_names: frozenset[str] = frozenset()
    tuners: frozenset[str] = frozenset()
    assessors: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()
    mixed: frozenset[str] = frozenset()
    digests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    built_in: frozenset[str] = frozenset()
    credentials: frozenset[str] = frozenset()


def capabilities_of(
    fleet: Fleet, tuners: frozenset[str] = frozenset(), assessors: frozenset[str] = frozenset()
) -> Capabilities:
    """Returns what a fleet offers; catalogue and credentials count while a worker is away, devices don't."""
    devices = sorted(
        (worker.worker_id, device_id)
        for worker in fleet.workers.values()
        if not worker.gone
        for device_id in worker.devices
    )
    names = {name for worker_id, device_id in devices for name in _names(worker_id, device_id)}
    listed = tuple(f"{worker_id}/{device_id}" for worker_id, device_id in devices)
    return Capabilities(
        task_types=fleet.task_types,
        devices=listed,
        device_names=frozenset(names),
        tuners=tuners,
        assessors=assessors,
        services=fleet.services,
        mixed=fleet.mixed,
        digests=fleet.digests,
        built_in=frozenset().union(*(each.built_in for each in fleet.workers.values() if not each.gone)),
        credentials=fleet.credentials,
    )


def type_problem(capabilities: Capabilities, task_type: str, path: str) -> Problem | None:
    """Returns the problem of a task type that no catalogue has, with the nearest one and those there are."""
    if task_type in capabilities.task_types:
        return None
    known = ", ".join(sorted(capabilities.task_types)) or "none: no worker has joined yet"
    hint = nearest(task_type, capabilities.task_types)
    message = (
        f"no catalogue has task type {task_type!r}; known: {known}{hint}; a worker that has it in its "
        "catalogue.yaml makes it known within a second"
    )
    return Problem(code="unknown_task_type", path=path, message=message)


def credential_problem(capabilities: Capabilities, credential: str | None, path: str) -> Problem | None:
    """Returns the problem of a credential that no worker has, with the nearest one; None asks for none."""
    if credential is None or credential in capabilities.credentials:
        return None
    names = sorted(capabilities.credentials)
    known = ", ".join(names[:LISTED]) or "none"
    beyond = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    hint = nearest(credential, names)
    message = (
        f"no worker has credential {credential!r}; known: {known}{beyond}{hint}; a worker knows those of its "
        "host's file when it starts"
    )
    return Problem(code="unknown_credential", path=path, message=message)


def service_problem(
    capabilities: Capabilities, task_type: str, is_service: bool, path: str
) -> Problem | None:
    """Returns the problem of a task that is a service while its type is none, or the other way round."""
    if task_type not in capabilities.task_types or task_type in capabilities.mixed:
        return None
    if (task_type in capabilities.services) is is_service:
        return None
    if is_service:
        message = (
            f"task type {task_type!r} is not a service: leave `service` out, or write `runner: service` for "
            "it in the workers' catalogue.yaml"
        )
        return Problem(code="not_a_service", path=path, message=message)
    message = (
        f"task type {task_type!r} is a service, which runs until it is stopped: write `service: true` for "
        "this task, in a file of kind task or tasks"
    )
    return Problem(code="service_expected", path=path, message=message)


def device_problem(capabilities: Capabilities, device: str, path: str) -> Problem | None:
    """Returns the problem of a fixed device that no worker has, with those there are; empty asks for none."""
    if not device or device in capabilities.device_names:
        return None
    known = ", ".join(capabilities.devices[:LISTED]) or "none: no worker is there"
    more = len(capabilities.devices) - LISTED
    beyond = f" and {more} more" if more > 0 else ""
    message = f"no worker that is there has device {device!r}; there are: {known}{beyond}"
    return Problem(code="unknown_device", path=path, message=message)


def _names(worker_id: str, device_id: str) -> list[str]:
    """Returns all names of a device: its own, torch's for a GPU, and both with its worker's id."""
    kind, _, number = device_id.rpartition("-")
    names = [device_id, f"cuda:{number}"] if kind == "gpu" else [device_id]
    return names + [f"{worker_id}/{name}" for name in names]
