"""What is simulated, and what became of it."""

from collections import Counter
from dataclasses import dataclass, field, replace

from trackside.simulation.virtual.log import CALM, Weather
from trackside.simulation.worker_disk import Work

ROUGH = Weather(
    append_s=(0.001, 0.01),
    read_s=(0.001, 0.03),
    stall_s=1.0,
    late_s=2.0,
    lost=0.01,
    untold=0.01,
    late=0.005,
    stalled=0.01,
    dropped=0.05,
    repeated=0.05,
    delayed=0.05,
)


@dataclass(frozen=True, slots=True)
class Scene:
    """What is simulated: so many trials, workers with CPU slots, rivals of each service, and faults.

    `strikes` is how often each process is hit, at most: killed, paused or given a wrong clock.
    """

    trials: int = 30
    concurrency: int = 6
    workers: int = 2
    slots: int = 2
    rivals: int = 2
    lease_s: float = 3.0
    strikes: int = 3
    weather: Weather = ROUGH
    work: Work = field(default_factory=Work)


@dataclass(slots=True)
class Outcomes:
    """What became of one seed: nothing is wrong if `wrong` is empty."""

    seed: int
    wrong: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    events: int = 0
    applied: int = 0
    attempts: int = 0
    virtual_s: float = 0.0
    steps: int = 0
    again: str = ""


def calm(scene: Scene) -> Scene:
    """Gives the same scene without any fault."""
    return replace(scene, strikes=0, weather=CALM, rivals=1)
