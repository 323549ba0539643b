"""Simulates a search or batch with faults in virtual time, and verifies its log; one seed is one run.

The shipped dispatcher, scheduler and reactor, up to two replicas of each, and a model of the worker run on a
virtual log. All faults come from the seed: processes are killed and restarted, paused past their lease and
resumed, their clocks jump, appends and commands are lost, repeated and late, partitions are read out of step.
"""

import gc
import json
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.fleet.fleet import Device, WorkerJoined
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.tasks import AttemptEnded
from trackside.domain.folding.streams import Streams, dump
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream, shrink
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Outgoing
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.simulation.config import SimulationConfig, SimulationResult
from trackside.simulation.forger import Forger
from trackside.simulation.host.store import SharedResources, SimulatedStore, StoreFaults
from trackside.simulation.scenarios.scenarios import DEFAULT_SCENARIO, STREAM
from trackside.simulation.services import dispatcher, scheduler, shipped_settings
from trackside.simulation.statistics import FleetStatistics, TaskTimes, statistics_of
from trackside.simulation.user import user
from trackside.simulation.virtual.log import NO_FAULTS, CachedTopics, VirtualLog
from trackside.simulation.virtual.loop import ProcessState, SimulatedProcess, VirtualLoop
from trackside.simulation.virtual.shuffled import ShuffledLog
from trackside.simulation.worker import SimulatedWorker
from trackside.verify.log import VerifyProgress, verify_topics

ATTEMPT_ENDED = AttemptEnded.wire_type().encode()
WORKER_JOINED = WorkerJoined.wire_type().encode()
ARTIFACT_SAVED = ArtifactSaved.wire_type().encode()
LIMIT_S = 600.0
"""The virtual time after which a stream that hasn't ended never will, s."""
STEPS_A_WORKER = 1_000
STEPS_A_TASK = 2_000
"""The limit of steps for each task, beyond which services are stuck in a loop; a usual one takes 100."""
START_DELAY_S = 1.2
"""The time from the first join of a worker to the first command, s: all workers have joined by then."""
SETTLE_S = 2.0
"""The time without faults after the end, s: late records arrive, and every service folds them."""
DECODE_EVERY = 8
"""One seed of so many is verified from the bytes of its log; the others use what services have decoded."""
COLLECT_EVERY = 20
"""The number of seeds between two garbage collections."""
SHARED_GPU = Device(device_id="gpu-0", kind="gpu", name="gpu", memory_bytes=3 * 10**9, index=0, uuid="GPU-0")
"""The GPU of `SimulationConfig.shared_gpu`: one task fits, by the default estimate."""
MAX_CLOCK_JUMP_MS = 3_600_000
"""The most that the clock of a process jumps, either way, ms."""


@dataclass(slots=True, eq=False)
class _SupervisedProcess:
    """A process that is restarted when it was killed, its planned faults, and the streams that it folds."""

    name: str
    make: Callable[[Callable[[Streams], None]], Coroutine[Any, Any, None]]
    planned_faults: list[tuple[str, int, float]] = field(default_factory=list)
    process: SimulatedProcess | None = None
    streams: Streams | None = None

    def set_streams(self, streams: Streams) -> None:
        """Sets the streams that the service folds into."""
        self.streams = streams


class Simulation:
    """One simulated run; everything random comes from the seed.

    With `compact` old entries of the log are packed. `on_attempt_ended` is called with the number of attempts
    that have ended, `on_verify_progress` with the records verified and their total.
    """

    def __init__(self, seed: int, config: SimulationConfig, *, compact: bool = False) -> None:
        self.config = config
        self.scenario = config.scenario(seed, config.trials, config.concurrency)
        self.result = SimulationResult(seed, rerun_command=_rerun_command(seed, config))
        ends_with = AGGREGATES.by_kind[self.scenario.kind].ends_with
        self._end_type = b"" if ends_with is None else ends_with.wire_type().encode()
        self.rng = random.Random(seed)
        self.topics = CachedTopics(event_partitions=3)
        self.loop = VirtualLoop(self._inject_fault)  # type: ignore[abstract]  # asyncio needs no more of it
        self.log = VirtualLog(
            self.loop,
            self.rng,
            config.network_faults,
            compact=compact,
            drops_old=frozenset({self.topics.heartbeats.name}),
        )
        self.log.create(self.topics.shared)
        self.log.on_append = self._on_append
        self.supervised: list[_SupervisedProcess] = []
        self.workers: list[SimulatedWorker] = []
        store = SimulatedStore(self.rng, config.store_faults)
        store.blobs |= {sha256(blob).hexdigest(): blob for blob in self.scenario.blobs}
        self.shared = SharedResources(store=store, files=self.scenario.files)
        self.faults_ended = False
        self._published = False
        self.forger = Forger(seed, config.workers, self.log, self.topics, active=config.forger)
        self.ended = 0
        self.on_attempt_ended: Callable[[int], None] = lambda _: None
        self.on_verify_progress: VerifyProgress = lambda _read, _total: None
        self.times = TaskTimes()
        self._by_process: dict[str, _SupervisedProcess] = {}
        self._crashes: list[str] = []

    def run(self) -> SimulationResult:
        """Runs the stream to its end, and checks its log."""
        with self.loop:
            ended_in_time = self.run_to_end()
            if ended_in_time and not self._crashes:
                self._end_faults()
                self.loop.run_until(self.loop.time() + SETTLE_S)
            self._check(ended_in_time)
        return self.result

    def forget(self) -> None:
        """Drops everything simulated: its reference cycles would cost the collector much time."""
        self.log.clear()
        self.supervised.clear()
        self.workers.clear()
        self._by_process.clear()

    def run_to_end(self) -> bool:
        """Runs the stream until it has ended in the log; returns False if it doesn't end."""
        config = self.config
        self._set_up()
        limit_s = LIMIT_S + 10 * config.workload.seconds[1] * config.trials / (config.workers * config.slots)
        return self.loop.run_until(limit_s, STEPS_A_TASK * config.trials + STEPS_A_WORKER * config.workers)

    def statistics(self) -> FleetStatistics:
        """Returns the statistics of the fleet, after `run`."""
        devices = self.config.workers * self.config.slots
        return statistics_of(self.times, self.log.entries, devices, self.config.trials)

    def _set_up(self) -> None:
        config = self.config
        settings = shipped_settings().model_copy(update={"lease_s": config.lease_s})
        self.forger.require_signatures()
        for number in range(self._instances()):
            made = partial(self._service, "dispatcher", str(number))
            deciding = partial(dispatcher, made, self.rng, decoded=self.log.decoded)
            self._supervise(f"dispatcher-{number}", partial(deciding, standby=self._stands_by(number)))
        for number in range(self._instances()):
            made = partial(self._service, "scheduler", str(number))
            placing = partial(scheduler, made, settings, decoded=self.log.decoded)
            self._supervise(f"scheduler-{number}", partial(placing, standby=self._stands_by(number)))
        for number in range(config.workers):
            name = f"w{number}"
            slots = [f"cpu-{slot}" for slot in range(config.slots)]
            devices = [Device(device_id=slot, kind="cpu", name="cpu", memory_bytes=2**33) for slot in slots]
            if config.shared_gpu:
                devices.insert(0, SHARED_GPU)
            worker = SimulatedWorker(
                self.log, self.topics, name, devices, config.workload, self.log.decoded, self.shared
            )
            worker.writer = RecordWriter("worker", name, self.forger.signer(name))
            self.workers.append(worker)
            self._supervise(name, partial(worker.run, self.rng))
        if self.scenario.has_user:
            decoded, halt = self.log.decoded, self.loop.halt
            reading = user(self.log, self.topics, self.scenario, self.rng, decoded, halt)
            self.loop.start("user", lambda: reading, self.rng.randbytes)

    def _service(self, role: str, instance: str) -> ServiceContext:
        return ServiceContext.on(self.log, self.topics, role, instance, self.forger.signer(role))

    def _instances(self) -> int:
        return self.rng.randint(1, self.config.max_replicas)

    def _stands_by(self, number: int) -> bool:
        return number > 0 and self.rng.random() < 0.3

    def _publish(self) -> None:
        """Publishes each command twice, on two partitions."""
        writer = RecordWriter("publisher", "simulation")
        for number, (stream_id, command) in enumerate(self.scenario.first_commands()):
            record = writer.single(stream_id, command, message_id=f"c-{number}")
            for partition in (2, 0):
                self.log._land((self.topics.commands.name, partition), [record], None)

    def _supervise(self, name: str, make: Any) -> None:
        supervised = _SupervisedProcess(name, make)
        self.supervised.append(supervised)
        for _ in range(self.rng.randint(0, self.config.max_process_faults)):
            kind = self.rng.choice(("kill", "kill", "pause", "clock"))
            steps = int(10 ** self.rng.uniform(0.5, 3.3))
            if kind == "clock":
                size = self.rng.uniform(-MAX_CLOCK_JUMP_MS, MAX_CLOCK_JUMP_MS)
            else:
                size = 10 ** self.rng.uniform(-1, 0.8)
            supervised.planned_faults.append((kind, steps, size))
        self._start(supervised)

    def _restart(self, supervised: _SupervisedProcess) -> None:
        if supervised.process is not None and supervised.process.state is ProcessState.DEAD:
            self._start(supervised)

    def _start(self, supervised: _SupervisedProcess) -> None:
        process, task = self.loop.start(
            supervised.name, partial(supervised.make, supervised.set_streams), self.rng.randbytes
        )
        supervised.process, supervised.streams = process, None
        self._by_process[supervised.name] = supervised
        if supervised.planned_faults and not self.faults_ended:
            process.fault_at_step = supervised.planned_faults[0][1]
        task.add_done_callback(partial(self._on_exit, supervised), context=self.loop.network)

    def _on_exit(self, supervised: _SupervisedProcess, task: Any) -> None:
        if not task.cancelled():
            self._crashes.append(f"{supervised.name} ended by itself: {task.exception()!r}")
            self.loop.halt()

    def _inject_fault(self, process: SimulatedProcess) -> None:
        supervised = self._by_process[process.name]
        if supervised.process is not process or not supervised.planned_faults or self.faults_ended:
            return
        kind, _, size = supervised.planned_faults.pop(0)
        self.result.faults[kind] += 1
        if kind == "kill":
            self.loop.kill(process)
            self._after(size, self._restart, supervised)
            return
        if kind == "pause":
            self.loop.pause(process)
            self._after(size, self.loop.resume, process)
        else:
            process.clock_error_ms += int(size)
        if supervised.planned_faults:
            process.fault_at_step = process.steps + supervised.planned_faults[0][1]

    def _after(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self.loop.post(delay_s, action, *arguments)

    def _on_append(self, topic: str, record: Outgoing) -> None:
        if not self._published and ("ce_type", WORKER_JOINED) in record.headers:
            self._published = True
            self._after(START_DELAY_S, self._publish)
        elif topic == self.topics.events.name:
            self.result.events += 1
            self.forger.take(record, self._after)
            if ("ce_type", ATTEMPT_ENDED) in record.headers:
                self.ended += 1
                self.on_attempt_ended(self.ended)
            elif not self.faults_ended and ("ce_type", self._end_type) in record.headers:
                if json.loads(record.value or b"{}").get("due_ms", 0) <= self.loop.now_ms():
                    self.loop.halt()  # else a clock is ahead: its end comes too early, and has no effect
            elif self.scenario.saves and ("ce_type", ARTIFACT_SAVED) in record.headers:
                self._check_saved(record)

    def _check_saved(self, record: Outgoing) -> None:
        """Checks that the store had the bytes of an artifact before an event says so."""
        saved = json.loads(record.value or b"")
        if saved["sha256"] not in self.shared.store.blobs:
            message = f"version {saved['version']} of {saved['name']} is saved before the store has it"
            self.result.violations.append(message)

    def _end_faults(self) -> None:
        """Ends all faults: paused processes go on, killed ones are restarted, the network loses nothing."""
        self.faults_ended = True
        self.result.faults += self.log.faults + self.shared.store.faults + self.forger.forged
        for disk in self.shared.disks.values():
            self.result.faults += disk.faults
        self.log.network_faults, self.shared.store.store_faults = NO_FAULTS, StoreFaults()
        for supervised in self.supervised:
            assert supervised.process is not None
            self.loop.resume(supervised.process)
            supervised.process.fault_at_step = -1
            self._restart(supervised)

    def _check(self, ended_in_time: bool) -> None:
        result, violations = self.result, self.result.violations
        result.virtual_s, result.steps = self.loop.time(), self.loop.steps
        violations += self._crashes + self.shared.gpus.violations
        if self._crashes:
            return
        if not ended_in_time:
            violations.append(
                f"no end after {self.loop.time():.0f} s of virtual time and {self.loop.steps} steps"
            )
            return
        replayed = Streams(AGGREGATES)
        decoded = decode if result.seed % DECODE_EVERY == 0 else self.log.decoded
        fold = partial(self._fold, replayed)
        shuffled = ShuffledLog(self.log, self.log.between, random.Random(result.seed))
        work = verify_topics(
            shuffled, self.topics, fold=fold, on_progress=self.on_verify_progress, decoded=decoded
        )
        violations += [str(finding) for finding in self.loop.run_until_complete(work).findings]
        violations += self._check_stream(replayed.by_id[STREAM])
        violations += self._check_placements()
        violations += self._check_states(replayed)

    def _fold(self, replayed: Streams, record: Record) -> tuple[Stream, Outcome]:
        stream, outcome = replayed.fold(record)
        if outcome is Outcome.APPLIED:
            self.result.applied += 1
            if self.forger.has_written(record):
                self.result.violations.append(f"a forged {type(record.message).__name__} has an effect")
            self.times.note(record)
            self.scenario.take(record, stream)
            if type(record.message) is AttemptEnded:
                self.result.attempts += 1
        return stream, outcome

    def _check_stream(self, stream: Stream) -> list[str]:
        if stream.root is None or not stream.root.over:
            return [f"the {self.scenario.kind} is not over"]
        return self.scenario.violations(stream)

    def _check_placements(self) -> list[str]:
        started_placements = [(worker.worker_id, worker.disk.begun.most_common(1)) for worker in self.workers]
        return [
            f"worker {name} began {most[0][0]} twice"
            for name, most in started_placements
            if most and most[0][1] > 1
        ]

    def _check_states(self, replayed: Streams) -> list[str]:
        """Compares the state that each service has folded with a fold of the log."""
        expected = _states(replayed)
        return [
            f"{supervised.name} has folded another state than the log has"
            for supervised in self.supervised
            if supervised.streams is not None and _states(supervised.streams) != expected
        ]


def _rerun_command(seed: int, config: SimulationConfig) -> str:
    kind = "" if config.scenario is DEFAULT_SCENARIO else f" --kind {config.scenario.name}"
    shared = " --shared-gpu" if config.shared_gpu else ""
    forger = " --forger" if config.forger else ""
    return f"trackside simulate --seed {seed}{kind}{shared}{forger}"


def _states(streams: Streams) -> dict[str, Any]:
    for stream in streams.by_id.values():
        shrink(stream)
    states: dict[str, Any] = {name: json.loads(dump(stream)) for name, stream in streams.by_id.items()}
    return {"positions": streams.positions, **states}


def simulate(seed: int, config: SimulationConfig | None = None) -> SimulationResult:
    """Simulates one seed."""
    simulation = Simulation(seed, config or SimulationConfig())
    try:
        return simulation.run()
    finally:
        simulation.forget()


def sweep(seeds: Iterable[int], config: SimulationConfig | None = None) -> Iterator[SimulationResult]:
    """Simulates seed after seed, without garbage collection within each: that saves a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    gc.collect()
    gc.freeze()  # objects from before are not traversed again and again
    try:
        for number, seed in enumerate(seeds, 1):
            yield simulate(seed, config)
            if number % COLLECT_EVERY == 0:
                gc.collect()
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


def simulate_fleet(
    seed: int,
    config: SimulationConfig,
    on_attempt_ended: Callable[[int], None],
    on_verify_progress: VerifyProgress,
) -> tuple[SimulationResult, FleetStatistics | None]:
    """Simulates a fleet and verifies its log; the statistics are None if it didn't end.

    The garbage collector is off meanwhile: a fleet is one long run that leaves little garbage.
    """
    simulation = Simulation(seed, config, compact=True)
    simulation.on_attempt_ended, simulation.on_verify_progress = on_attempt_ended, on_verify_progress
    was_on = gc.isenabled()
    gc.disable()
    try:
        result = simulation.run()
        return result, simulation.statistics() if result.applied else None
    finally:
        if was_on:
            gc.enable()
