"""When the scheduler runs a pass, and which hosts each scheduling class must scan. Pure."""

from trackside.scheduler.hosts.requirements import Requirements
from trackside.scheduler.placing.placement import least_gpu_bytes
from trackside.scheduler.planning.actions import Action
from trackside.scheduler.planning.cluster_state import ClusterState
from trackside.scheduler.planning.queue import QueuePosition, SchedulingClass, position_of
from trackside.scheduler.planning.scheduling_pass import (
    IsBusy,
    Nomination,
    RecallNominations,
    SchedulingPass,
    WorkerClass,
)

OVERTAKEN_CHECK_MS = 500
"""How often it is checked which tasks were overtaken."""


class Planner:
    """Runs pass after pass; remembers reserved places, and since when tasks have been overtaken."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._recall_nominations: RecallNominations = {}
        self._nominations: set[Nomination] = set()
        self._reorder_due_ms = 0
        self._starvation_due_ms: int | None = None
        self._feasibility_due_ms: int | None = None
        self._overtaken_due_ms = 0
        self._newest_positions: dict[WorkerClass, QueuePosition] = {}
        self._fleet_version = -1

    def plan(self, now_ms: int, is_busy: IsBusy) -> list[Action]:
        """Returns what is to be decided now; `is_busy` says which streams can't be decided about."""
        cluster = self._cluster
        cluster.advance(now_ms)
        cluster.discard_tentative(is_busy)
        self._run_timers(now_ms)
        self._mark_hosts_to_scan()
        scheduling_pass = SchedulingPass(cluster, self._recall_nominations, now_ms, is_busy)
        actions = scheduling_pass.run()
        for worker_id, _, _ in sorted(self._nominations - scheduling_pass.nominations):
            cluster.hosts.note_room(worker_id)
        self._nominations = scheduling_pass.nominations
        for worker_class, position in scheduling_pass.newest_positions.items():
            self._newest_positions[worker_class] = max(
                self._newest_positions.get(worker_class, position), position
            )
        if self._newest_positions and now_ms >= self._overtaken_due_ms:
            self._overtaken_due_ms = now_ms + OVERTAKEN_CHECK_MS
            self._mark_overtaken(now_ms)
        return actions

    def next_due_ms(self) -> int | None:
        """Returns when a pass is due even if no event comes, ms since 1970; None if none is."""
        cluster = self._cluster
        moments = [
            cluster.backoff_timers.next_ms(),
            cluster.hosts.avoid_timers.next_ms(),
            self._starvation_due_ms,
            self._feasibility_due_ms,
        ]
        if len(cluster.waiting):
            moments.append(self._reorder_due_ms)
        if self._newest_positions:
            moments.append(self._overtaken_due_ms)
        if cluster.hosts.gained_room:
            moments.append(cluster.now_ms)
        moments += [reserved[0] for reserved in self._recall_nominations.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    def _run_timers(self, now_ms: int) -> None:
        cluster = self._cluster
        if now_ms >= self._reorder_due_ms:
            self._reorder_due_ms = now_ms + max(1, min(10_000, cluster.policy.ageing_ms // 10))
            cluster.waiting.reorder(now_ms)
            cluster.placed_behind.reorder(now_ms)
        feasibility_due = self._feasibility_due_ms is not None and now_ms >= self._feasibility_due_ms
        if cluster.hosts.version != self._fleet_version or feasibility_due:
            self._fleet_version = cluster.hosts.version
            self._feasibility_due_ms = cluster.hosts.next_feasibility_check_ms(now_ms)
            cluster.fleet_changed()
        if self._starvation_due_ms is not None and now_ms >= self._starvation_due_ms:
            self._starvation_due_ms = None
            for scheduling_class in cluster.waiting.classes.values():
                self._watch_starvation(scheduling_class, now_ms)
        for task_id in [name for name, reserved in self._recall_nominations.items() if reserved[0] <= now_ms]:
            del self._recall_nominations[task_id]

    def _watch_starvation(self, scheduling_class: SchedulingClass, now_ms: int) -> None:
        """Makes a class that was overtaken for too long scan all hosts, or sets the timer for that."""
        if not scheduling_class.overtaken_since_ms or scheduling_class.reserved_worker_id:
            return
        due_ms = scheduling_class.overtaken_since_ms + self._cluster.policy.hold_after_ms
        if due_ms <= now_ms:
            scheduling_class.scan_all = True
        else:
            self._starvation_due_ms = (
                due_ms if self._starvation_due_ms is None else min(self._starvation_due_ms, due_ms)
            )

    def _mark_hosts_to_scan(self) -> None:
        """Marks, for each class, the hosts that gained room and might fit it."""
        cluster = self._cluster
        if not cluster.hosts.gained_room:
            return
        hosts = [(name, cluster.hosts.by_id[name]) for name in cluster.hosts.gained_room]
        gained = [(name, host, host.open_devices) for name, host in hosts if host.open]
        cluster.hosts.gained_room.clear()
        for task_queue, look_ahead in (
            (cluster.waiting, cluster.policy.look_ahead),
            (cluster.placed_behind, 0),
        ):
            for scheduling_class in task_queue.classes.values():
                if scheduling_class.scan_all:
                    continue
                least_bytes = least_gpu_bytes(scheduling_class.requirements, cluster.demand(scheduling_class))
                for name, host, open_devices in gained:
                    if open_devices.may_fit(
                        scheduling_class.requirements, least_bytes, look_ahead
                    ) and host.serves(scheduling_class.requirements):
                        scheduling_class.hosts_to_scan[name] = None

    def _mark_overtaken(self, now_ms: int) -> None:
        cluster = self._cluster
        for scheduling_class in cluster.waiting.classes.values():
            if (
                scheduling_class.overtaken_since_ms
                or scheduling_class.needs_scan
                or scheduling_class.unschedulable_reason
                or not scheduling_class.size
            ):
                continue
            first = cluster.waiting.first_group(scheduling_class, [], lambda _: False)
            if (
                first is not None
                and first.order is not None
                and self._was_overtaken(position_of(first.order), scheduling_class.requirements)
            ):
                scheduling_class.overtaken_since_ms = now_ms
                self._watch_starvation(scheduling_class, now_ms)
        self._newest_positions.clear()

    def _was_overtaken(self, position: QueuePosition, requirements: Requirements) -> bool:
        """Returns whether a task with a later position was placed on a worker that accepts such tasks."""
        return any(
            newest > position and requirements.task_type in types and requirements.queue in queues
            for (types, queues), newest in self._newest_positions.items()
        )
