"""One seed: a search through everything that can go wrong, in virtual time, and what must be true of its log.

The shipped dispatcher, scheduler and reactor, twice each, and the model of a worker run over a virtual log.
From the seed come all faults: processes are killed and started again, paused past their lease and continued,
their clocks jump, appends and commands are lost, repeated and late, partitions are read out of step.
"""

import gc
import json
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trackside.contracts.fleet import Device
from trackside.contracts.message import Message, Record
from trackside.contracts.searches import SearchEnded, SearchStatus, StartSearch, TrialEnded, TrialStatus
from trackside.contracts.tasks import AttemptEnded
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream, shrink
from trackside.domain.streams import Streams, dump
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Outgoing
from trackside.eventlog.record_writer import RecordWriter
from trackside.simulation.scenario import Outcomes, Scene
from trackside.simulation.services import dispatcher, drawn, scheduler, shipped_settings
from trackside.simulation.statistics import Figures, Times, figures_of
from trackside.simulation.virtual.log import CALM, FixedTopics, VirtualLog
from trackside.simulation.virtual.loop import Process, State, VirtualLoop
from trackside.simulation.worker import SimulatedWorker
from trackside.verify.log import Told, examine

STREAM = "s"
ENDED = SearchEnded.wire_type().encode()
TRIAL_ENDED = TrialEnded.wire_type().encode()
LIMIT_S = 600.0
"""The virtual time after which a search that hasn't ended never will."""
STEPS_A_WORKER = 1_000
STEPS_A_TRIAL = 2_000
"""After how many steps a trial something goes round in circles; a good one takes a hundred."""
JOINED_S = 1.2
"""How long after the first worker has joined the search is started, s: now all know that its task can run."""
QUIET_S = 2.0
"""How long the log is left alone after the end, s: what is late comes now, and everybody folds it."""
ANEW_EVERY = 8
"""How many seeds share one whose log is verified from its bytes: others use what services have decoded."""
COLLECT_EVERY = 20
"""After how many seeds the garbage is collected."""
WRONG_MS = 3_600_000
"""How far the clock of a process may jump, either way."""


@dataclass(slots=True, eq=False)
class _Supervised:
    """A process that is started again when it was killed, and the streams that it folds into now."""

    name: str
    make: Callable[[Callable[[Streams], None]], Coroutine[Any, Any, None]]
    strikes: list[tuple[str, int, float]] = field(default_factory=list)
    process: Process | None = None
    streams: Streams | None = None

    def hold(self, streams: Streams) -> None:
        """Notes what the service folds into."""
        self.streams = streams


class Simulation:
    """One run of a scene; everything that is drawn by chance is drawn from the seed.

    A `frugal` one keeps no more of the log than is needed; `told` hears how many trials have ended,
    `verifying` how much of the log is verified.
    """

    def __init__(self, seed: int, scene: Scene, *, frugal: bool = False) -> None:
        self.scene = scene
        self.outcome = Outcomes(seed, again=f"trackside simulate --seed {seed}")
        self.chance = random.Random(seed)
        self.topics = FixedTopics(event_partitions=3)
        self.loop = VirtualLoop(self._struck)  # type: ignore[abstract]  # what asyncio needs of it is there
        self.log = VirtualLog(
            self.loop,
            self.chance,
            scene.weather,
            frugal=frugal,
            forgets=frozenset({self.topics.heartbeats.name}),
        )
        self.log.create(self.topics.shared)
        self.log.written = self._written
        self.ends: Counter[int] = Counter()
        self.supervised: list[_Supervised] = []
        self.workers: list[SimulatedWorker] = []
        self.calm = False
        self._published = False
        self.ended = 0
        self.told: Callable[[int], None] = lambda _: None
        self.verifying: Told = lambda _read, _total: None
        self.times = Times()
        self._by_process: dict[str, _Supervised] = {}
        self._broken: list[str] = []

    def run(self) -> Outcomes:
        """Runs the search to its end and says what is wrong with the log."""
        with self.loop:
            over = self.search()
            if over and not self._broken:
                self._calm_down()
                self.loop.run_until(self.loop.time() + QUIET_S)
            self._judge(over)
        return self.outcome

    def forget(self) -> None:
        """Drops all that was simulated, which holds itself: else the collector must look through it."""
        self.log.clear()
        self.supervised.clear()
        self.workers.clear()
        self._by_process.clear()

    def search(self) -> bool:
        """Runs the search until the log says that it is over; False if it never is."""
        scene = self.scene
        self._set_up()
        limit_s = LIMIT_S + 10 * scene.work.seconds[1] * scene.trials / (scene.workers * scene.slots)
        return self.loop.run_until(limit_s, STEPS_A_TRIAL * scene.trials + STEPS_A_WORKER * scene.workers)

    def figures(self) -> Figures:
        """Gives what the log says about the fleet, after `run`."""
        devices = self.scene.workers * self.scene.slots
        return figures_of(self.times, self.log.entries, devices, self.scene.trials)

    def _set_up(self) -> None:
        scene = self.scene
        settings = shipped_settings().model_copy(update={"lease_s": scene.lease_s})
        for number in range(self._instances()):
            deciding = partial(
                dispatcher, self.log, self.topics, str(number), self.chance, decoded=self.log.decoded
            )
            self._supervise(f"dispatcher-{number}", partial(deciding, standby=self._stands_by(number)))
        for number in range(self._instances()):
            placing = partial(
                scheduler, self.log, self.topics, str(number), settings, decoded=self.log.decoded
            )
            self._supervise(f"scheduler-{number}", partial(placing, standby=self._stands_by(number)))
        for number in range(scene.workers):
            name = f"w{number}"
            slots = [f"cpu-{slot}" for slot in range(scene.slots)]
            devices = [Device(device_id=slot, kind="cpu", name="cpu", memory_bytes=2**33) for slot in slots]
            worker = SimulatedWorker(self.log, self.topics, name, devices, scene.work, self.log.decoded)
            self.workers.append(worker)
            self._supervise(name, partial(worker.run, self.chance))

    def _instances(self) -> int:
        return self.chance.randint(1, self.scene.rivals)

    def _stands_by(self, number: int) -> bool:
        return number > 0 and self.chance.random() < 0.3

    def _publish(self) -> None:
        """Publishes the command twice, on two partitions."""
        writer = RecordWriter("publisher", "simulation")
        record = writer.single(STREAM, self._command(), message_id="c")
        for partition in (2, 0):
            self.log._land((self.topics.commands.name, partition), [record], None)

    def _command(self) -> Message:
        assessor = {"name": "median", "options": {"n_startup_trials": 3}}
        return StartSearch.model_validate(
            {
                "task_type": "noop",
                "space": {"x": {"type": "uniform", "low": 0.0, "high": 1.0}},
                "tuner": {"name": "random"},
                "assessor": assessor if self.outcome.seed % 2 else None,
                "max_trials": self.scene.trials,
                "concurrency": self.scene.concurrency,
                "retry": {"lost": 100},
            }
        )

    def _supervise(self, name: str, make: Any) -> None:
        one = _Supervised(name, make)
        self.supervised.append(one)
        for _ in range(self.chance.randint(0, self.scene.strikes)):
            what = self.chance.choice(("kill", "kill", "pause", "clock"))
            steps = int(10 ** self.chance.uniform(0.5, 3.3))
            if what == "clock":
                size = self.chance.uniform(-WRONG_MS, WRONG_MS)
            else:
                size = 10 ** self.chance.uniform(-1, 0.8)
            one.strikes.append((what, steps, size))
        self._start(one)

    def _start_again(self, one: _Supervised) -> None:
        if one.process is not None and one.process.state is State.DEAD:
            self._start(one)

    def _start(self, one: _Supervised) -> None:
        process, task = self.loop.start(one.name, partial(one.make, one.hold), self.chance.randbytes)
        one.process, one.streams = process, None
        self._by_process[one.name] = one
        if one.strikes and not self.calm:
            process.strike_at = one.strikes[0][1]
        task.add_done_callback(partial(self._over, one), context=self.loop.network)

    def _over(self, one: _Supervised, task: Any) -> None:
        if not task.cancelled():
            self._broken.append(f"{one.name} ended by itself: {task.exception()!r}")
            self.loop.halt()

    def _struck(self, process: Process) -> None:
        one = self._by_process[process.name]
        if one.process is not process or not one.strikes or self.calm:
            return
        what, _, size = one.strikes.pop(0)
        self.outcome.faults[what] += 1
        if what == "kill":
            self.loop.kill(process)
            self._after(size, self._start_again, one)
            return
        if what == "pause":
            self.loop.pause(process)
            self._after(size, self.loop.resume, process)
        else:
            process.wrong_ms += int(size)
        if one.strikes:
            process.strike_at = process.steps + one.strikes[0][1]

    def _after(self, delay_s: float, what: Callable[..., None], *arguments: Any) -> None:
        self.loop.post(delay_s, what, *arguments)

    def _written(self, topic: str, record: Outgoing) -> None:
        if topic == self.topics.fleet.name and not self._published:
            self._published = True
            self._after(JOINED_S, self._publish)
        elif topic == self.topics.events.name:
            self.outcome.events += 1
            if ("ce_type", TRIAL_ENDED) in record.headers:
                self.ended += 1
                self.told(self.ended)
            if not self.calm and ("ce_type", ENDED) in record.headers:
                self.loop.halt()

    def _calm_down(self) -> None:
        """Ends all faults: nobody is hit any more, who was paused goes on, the network is calm."""
        self.calm = True
        self.outcome.faults += self.log.faults
        self.log.weather = CALM
        for one in self.supervised:
            assert one.process is not None
            self.loop.resume(one.process)
            one.process.strike_at = -1
            self._start_again(one)

    def _judge(self, over: bool) -> None:
        outcome, wrong = self.outcome, self.outcome.wrong
        outcome.virtual_s, outcome.steps = self.loop.time(), self.loop.steps
        wrong += self._broken
        if self._broken:
            return
        if not over:
            wrong.append(f"no end after {self.loop.time():.0f} s of virtual time and {self.loop.steps} steps")
            return
        anew = Streams()
        decoded = decode if outcome.seed % ANEW_EVERY == 0 else self.log.decoded
        fold = partial(self._fold, anew)
        work = examine(self.log, self.topics, fold=fold, told=self.verifying, decoded=decoded)
        wrong += [str(finding) for finding in self.loop.run_until_complete(work).findings]
        wrong += self._wrong_ends(anew)
        wrong += self._wrong_states(anew)

    def _fold(self, anew: Streams, record: Record) -> tuple[Stream, Outcome]:
        stream, outcome = anew.fold(record)
        if outcome is Outcome.APPLIED:
            self.outcome.applied += 1
            self.times.note(record)
            message = record.message
            if type(message) is TrialEnded:
                self.ends[message.trial] += 1
            elif type(message) is AttemptEnded:
                self.outcome.attempts += 1
        return stream, outcome

    def _wrong_ends(self, anew: Streams) -> list[str]:
        stream = anew.by_id[STREAM]
        search, trials = stream.search, range(self.scene.trials)
        if search is None or search.status is not SearchStatus.DONE:
            return [f"the search is {search and search.status}"]
        wrong = [] if self.ends == Counter(trials) else [f"trials ended so often: {dict(self.ends)}"]
        space = search.spec.model_dump(mode="json")["space"]
        for trial in search.trials:
            if trial.parameters != drawn(space, search.seed, trial.number):
                wrong.append(f"trial {trial.number} has parameters that nobody suggested")
            if trial.status not in (TrialStatus.SUCCEEDED, TrialStatus.EARLY_STOPPED):
                wrong.append(f"trial {trial.number} is {trial.status}: nobody asked for this end")
        begun = [(worker.worker_id, worker.disk.begun.most_common(1)) for worker in self.workers]
        wrong += [
            f"worker {name} began {most[0][0]} twice" for name, most in begun if most and most[0][1] > 1
        ]
        return wrong

    def _wrong_states(self, anew: Streams) -> list[str]:
        """Compares what everybody has folded, live, with the fold of the bytes in the log."""
        for stream in anew.by_id.values():
            shrink(stream)
        said = _states(anew)
        return [
            f"{one.name} has folded another state than the log has"
            for one in self.supervised
            if one.streams is not None and _states(one.streams) != said
        ]


def _states(streams: Streams) -> dict[str, Any]:
    states: dict[str, Any] = {name: json.loads(dump(stream)) for name, stream in streams.by_id.items()}
    return {"positions": streams.positions, **states}


def simulate(seed: int, scene: Scene | None = None) -> Outcomes:
    """Simulates one seed."""
    simulation = Simulation(seed, scene or Scene())
    try:
        return simulation.run()
    finally:
        simulation.forget()


def sweep(seeds: Iterable[int], scene: Scene | None = None) -> Iterator[Outcomes]:
    """Simulates seed after seed, with the garbage collector at rest within each: that saves a third."""
    was_on = gc.isenabled()
    gc.disable()
    gc.collect()
    gc.freeze()  # what was there before is not looked through again and again
    try:
        for number, seed in enumerate(seeds, 1):
            yield simulate(seed, scene)
            if number % COLLECT_EVERY == 0:
                gc.collect()
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


def fleet(
    seed: int, scene: Scene, told: Callable[[int], None], verifying: Told
) -> tuple[Outcomes, Figures | None]:
    """Simulates a fleet and verifies its log; the figures are None if the search didn't end.

    The collector rests meanwhile: a fleet is one long run that leaves little behind.
    """
    simulation = Simulation(seed, scene, frugal=True)
    simulation.told, simulation.verifying = told, verifying
    was_on = gc.isenabled()
    gc.disable()
    try:
        outcome = simulation.run()
        return outcome, simulation.figures() if outcome.applied else None
    finally:
        if was_on:
            gc.enable()
