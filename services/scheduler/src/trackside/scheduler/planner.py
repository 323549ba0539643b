"""When and where the scheduler looks for places: pass after pass, only at what has changed. Pure."""

from trackside.scheduler.actions import Action
from trackside.scheduler.cluster_state import ClusterState
from trackside.scheduler.placement import least_on_gpu
from trackside.scheduler.queue import QueuePosition, SchedulingClass, position_of
from trackside.scheduler.requirements import Requirements
from trackside.scheduler.scheduling_pass import (
    IsBusy,
    Nomination,
    RecallNominations,
    SchedulingPass,
    WorkerClass,
)

NOTE_MS = 500
"""How often it is looked who was overtaken."""


class Planner:
    """Plans pass after pass; remembers which places are kept, and for how long tasks were overtaken."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._recall_nominations: RecallNominations = {}
        self._nominations: set[Nomination] = set()
        self._review_ms = 0
        self._hold_ms: int | None = None
        self._judge_ms: int | None = None
        self._note_ms = 0
        self._latest: dict[WorkerClass, QueuePosition] = {}
        self._version = -1

    def plan(self, now_ms: int, is_busy: IsBusy) -> list[Action]:
        """Gives what is to be decided now; `busy` says which streams can't be decided about."""
        cluster = self._cluster
        cluster.advance(now_ms)
        cluster.settle(is_busy)
        self._review(now_ms)
        self._hand_on_gained()
        scheduling_pass = SchedulingPass(cluster, self._recall_nominations, now_ms, is_busy)
        actions = scheduling_pass.run()
        for worker_id, _, _ in sorted(self._nominations - scheduling_pass.nominations):
            cluster.hosts.gained[worker_id] = None
        self._nominations = scheduling_pass.nominations
        for worker_class, position in scheduling_pass.latest.items():
            self._latest[worker_class] = max(self._latest.get(worker_class, position), position)
        if self._latest and now_ms >= self._note_ms:
            self._note_ms = now_ms + NOTE_MS
            self._note_overtaken(now_ms)
        return actions

    def next_due_ms(self) -> int | None:
        """Gives when there is something to decide without any news, ms since 1970."""
        cluster = self._cluster
        moments = [cluster.later.next_ms(), cluster.hosts.avoided.next_ms(), self._hold_ms, self._judge_ms]
        if len(cluster.waiting):
            moments.append(self._review_ms)
        if self._latest:
            moments.append(self._note_ms)
        if cluster.hosts.gained:
            moments.append(cluster.now_ms)
        moments += [kept[0] for kept in self._recall_nominations.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    def _review(self, now_ms: int) -> None:
        cluster = self._cluster
        if now_ms >= self._review_ms:
            self._review_ms = now_ms + max(1, min(10_000, cluster.policy.ageing_ms // 10))
            cluster.waiting.review(now_ms)
            cluster.behind.review(now_ms)
        judge_due = self._judge_ms is not None and now_ms >= self._judge_ms
        if cluster.hosts.version != self._version or judge_due:
            self._version = cluster.hosts.version
            self._judge_ms = cluster.hosts.next_judgement_ms(now_ms)
            cluster.fleet_changed()
        if self._hold_ms is not None and now_ms >= self._hold_ms:
            self._hold_ms = None
            for scheduling_class in cluster.waiting.classes.values():
                self._mind_overtaken(scheduling_class, now_ms)
        for task_id in [name for name, kept in self._recall_nominations.items() if kept[0] <= now_ms]:
            del self._recall_nominations[task_id]

    def _mind_overtaken(self, scheduling_class: SchedulingClass, now_ms: int) -> None:
        """Opens a class that was overtaken for too long, or sets the timer for that."""
        if not scheduling_class.overtaken_ms or scheduling_class.held:
            return
        due_ms = scheduling_class.overtaken_ms + self._cluster.policy.hold_after_ms
        if due_ms <= now_ms:
            scheduling_class.fresh = True
        else:
            self._hold_ms = due_ms if self._hold_ms is None else min(self._hold_ms, due_ms)

    def _hand_on_gained(self) -> None:
        """Tells each class which hosts it must look at again."""
        cluster = self._cluster
        if not cluster.hosts.gained:
            return
        hosts = [(name, cluster.hosts.by_id[name]) for name in cluster.hosts.gained]
        gained = [(name, host, host.openings) for name, host in hosts if host.open]
        cluster.hosts.gained.clear()
        for task_queue, look_ahead in ((cluster.waiting, cluster.policy.look_ahead), (cluster.behind, 0)):
            for scheduling_class in task_queue.classes.values():
                if scheduling_class.fresh:
                    continue
                least = least_on_gpu(scheduling_class.requirements, cluster.want(scheduling_class))
                for name, host, openings in gained:
                    if openings.may_suit(scheduling_class.requirements, least, look_ahead) and host.serves(
                        scheduling_class.requirements
                    ):
                        scheduling_class.pending[name] = None

    def _note_overtaken(self, now_ms: int) -> None:
        cluster = self._cluster
        for scheduling_class in cluster.waiting.classes.values():
            if (
                scheduling_class.overtaken_ms
                or scheduling_class.is_open
                or scheduling_class.never
                or not scheduling_class.size
            ):
                continue
            best = cluster.waiting.best(scheduling_class, [], lambda _: False)
            if (
                best is not None
                and best.key is not None
                and self._has_overtaken(position_of(best.key), scheduling_class.requirements)
            ):
                scheduling_class.overtaken_ms = now_ms
                self._mind_overtaken(scheduling_class, now_ms)
        self._latest.clear()

    def _has_overtaken(self, position: QueuePosition, requirements: Requirements) -> bool:
        """Says whether a task whose turn was later was placed where such tasks may go."""
        return any(
            latest > position and requirements.task_type in types and requirements.queue in queues
            for (types, queues), latest in self._latest.items()
        )
