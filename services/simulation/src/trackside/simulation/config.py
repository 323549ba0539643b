"""The configuration of a simulation, and its result."""

from collections import Counter
from dataclasses import dataclass, field, replace

from trackside.simulation.host.store import StoreFaults
from trackside.simulation.host.worker_state import Workload
from trackside.simulation.scenarios.scenarios import DEFAULT_SCENARIO, StreamScenario
from trackside.simulation.virtual.log import NO_FAULTS, NetworkFaults

DEFAULT_FAULTS = NetworkFaults(
    append_s=(0.001, 0.01),
    read_s=(0.001, 0.03),
    stall_s=1.0,
    late_s=2.0,
    lost=0.01,
    unacknowledged=0.01,
    late=0.005,
    stalled=0.01,
    dropped=0.05,
    repeated=0.05,
    delayed=0.05,
)
DEFAULT_STORE_FAULTS = StoreFaults(seconds=(0.001, 0.1), away=0.02, uploader_killed=0.1, unreadable=0.2)


@dataclass(frozen=True, slots=True)
class SimulationConfig:
    """The fleet and the stream to simulate, and the faults to inject.

    `trials` is the number of its tasks, `concurrency` how many of them may run at once. `slots` are CPU
    devices of each worker. With `shared_gpu` all workers are on one host, and each has its GPU, too. Each
    service has up to `max_replicas` replicas. A process is killed, paused or given a wrong clock up to
    `max_process_faults` times. With a `forger` all writers sign, and signatures are required.
    """

    trials: int = 30
    concurrency: int = 6
    workers: int = 2
    slots: int = 2
    shared_gpu: bool = False
    max_replicas: int = 2
    lease_s: float = 3.0
    max_process_faults: int = 3
    network_faults: NetworkFaults = DEFAULT_FAULTS
    store_faults: StoreFaults = DEFAULT_STORE_FAULTS
    workload: Workload = field(default_factory=Workload)
    scenario: type[StreamScenario] = DEFAULT_SCENARIO
    forger: bool = False


@dataclass(slots=True)
class SimulationResult:
    """The result of one seed; it passed if `violations` is empty."""

    seed: int
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    events: int = 0
    applied: int = 0
    attempts: int = 0
    virtual_s: float = 0.0
    steps: int = 0
    rerun_command: str = ""


def without_faults(config: SimulationConfig) -> SimulationConfig:
    """Returns the same configuration without faults, and with one replica of each service."""
    return replace(
        config, max_process_faults=0, network_faults=NO_FAULTS, store_faults=StoreFaults(), max_replicas=1
    )
