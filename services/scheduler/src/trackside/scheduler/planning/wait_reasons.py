"""Why tasks wait, counted by scheduling class, of which many tasks have the same. Pure."""

from collections import Counter

from trackside.domain.fleet.fleet import Fleet
from trackside.scheduler.hosts.device_state import DeviceState
from trackside.scheduler.hosts.occupancy import HostState
from trackside.scheduler.placing.placement import PlacementQuery, scan_free
from trackside.scheduler.planning.cluster_state import ClusterState
from trackside.scheduler.planning.queue import SchedulingClass

REASONS = ("device_free", "device_busy", "retry", "unschedulable", "disk_low")
MAX_SCANNED = 64
"""For how many classes the hosts are scanned, largest first; of the others the planner knows whether to."""


def wait_reasons(cluster: ClusterState, disk_low: bool) -> Counter[str]:
    """Returns how many tasks wait for each reason; a task that is held by its search does not wait."""
    found: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
    found["retry"] = len(cluster.backoff_timers.due_ms)
    waiting = [each for each in cluster.waiting.classes.values() if each.size]
    waiting.sort(key=lambda each: -each.size)
    for number, scheduling_class in enumerate(waiting):
        reason = _reason(cluster, scheduling_class, disk_low, scans=number < MAX_SCANNED)
        found[reason] += scheduling_class.size
    return found


def fleet_states(fleet: Fleet) -> Counter[str]:
    """Returns how many workers are present, have left, or were lost."""
    found: Counter[str] = Counter(present=0, left=0, lost=0)
    for worker in fleet.workers.values():
        found[worker.gone or "present"] += 1
    return found


def _reason(cluster: ClusterState, scheduling_class: SchedulingClass, disk_low: bool, *, scans: bool) -> str:
    if scheduling_class.unschedulable_reason:
        return "unschedulable"
    if disk_low:
        return "disk_low"
    if cluster.is_queue_full(scheduling_class.requirements.queue):
        return "device_busy"
    fits = _fits_now(cluster, scheduling_class) if scans else scheduling_class.needs_scan
    return "device_free" if fits else "device_busy"


def _fits_now(cluster: ClusterState, scheduling_class: SchedulingClass) -> bool:
    requirements = scheduling_class.requirements

    def is_usable(device: DeviceState | HostState) -> bool:
        avoided = device.avoided_until_ms
        return max(avoided.get(requirements, 0), avoided.get(None, 0)) <= cluster.now_ms

    demand, rules = cluster.demand(scheduling_class), cluster.policy.placement_rules
    query = PlacementQuery(requirements, demand, rules, is_usable)
    return scan_free(cluster.hosts.open, query).best() is not None
