"""Workers, policies and states for tests of the scheduler."""

from collections.abc import Iterable
from typing import Any

from tests.unit.domain.given import STREAM, Told, record_of
from tests.unit.domain.test_fleet import joined
from trackside.contracts.fleet.fleet import WorkerJoined, WorkerLeft, WorkerLost
from trackside.domain.fleet import fleet
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.outcome import Outcome
from trackside.scheduler.hosts.occupancy import AdmissionLimits
from trackside.scheduler.placing.placement import PlacementRules
from trackside.scheduler.planning.cluster_state import ClusterState, SchedulingPolicy

GIB = 1024**3


def fleet_of(*joins: WorkerJoined | WorkerLeft | WorkerLost) -> Fleet:
    state = Fleet()
    for offset, event in enumerate(joins):
        assert fleet.evolve(state, record_of(event, offset)) is Outcome.APPLIED
    return state


def worker(
    name: str = "w1", incarnation: str = "i-1", types: Iterable[str] = ("digits",), **more: Any
) -> WorkerJoined:
    return joined(incarnation, name, task_types=list(types), **more)


def cluster_of(told: Told) -> ClusterState:
    cluster = ClusterState()
    for task in told.stream.tasks.values():
        cluster.update(STREAM, task)
    return cluster


def policy(
    order: str = "FIRST-FIT",
    look_ahead: int = 0,
    hold_after_s: float = 60,
    ageing_s: float = 600,
    limits: dict[str, int] | None = None,
    **admission: Any,
) -> SchedulingPolicy:
    return SchedulingPolicy(
        placement_rules=PlacementRules(AdmissionLimits(**admission), order),
        ageing_ms=int(ageing_s * 1000),
        hold_after_ms=int(hold_after_s * 1000),
        look_ahead=look_ahead,
        queue_limits=limits or {},
        default_bytes=(2 * GIB, 2 * GIB),
    )
