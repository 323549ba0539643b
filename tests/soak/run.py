"""One run of a soak: a stack on a small disk behind a proxy, experiments, faults, measures, and the end."""

import asyncio
import logging
import os
import random
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from tests.chaos.assertions import rows_are_what_the_log_says
from tests.chaos.harness import start_stack
from tests.chaos.processes import processes_in
from tests.chaos.proxy import Proxy, port_of_broker
from tests.chaos.random_faults import pause
from tests.chaos.settings import SECURE
from tests.polling import poll_until
from tests.small_disk import NotMountableError, SmallDisk, mounted_disk
from tests.soak import experiments
from tests.soak.faults import SoakFaults
from tests.soak.history import SoakHistory
from tests.soak.measures import everything_is_ready, sample
from tests.soak.options import SoakOptions
from tests.soak.records import ExperimentRecord, Finding, RunRecord
from tests.soak.scene import PATIENCE_S, Scene
from tests.soak.verification import next_pause, verify_log
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import ADMIN, PUBLISHER
from trackside.embedded import stack
from trackside.embedded.folder import NAME, held_leash
from trackside.embedded.ports import free_ports
from trackside.embedded.stack import Stack
from trackside.embedded.supervision.spares import AFTER_S
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.sdk.async_client import AsyncClient

PROGRESS_S = 60.0
CATALOGUE = Path(__file__).with_name("catalogue.yaml")
Say = Callable[[str], None]


@dataclass
class Place:
    """Where a run is: the folder of its stack's commands, its disk if it has its own, and its proxy."""

    home: Path
    running: Stack
    disk: SmallDisk | None
    proxy: Proxy


class Soak:
    """Runs experiments with faults until the time is over or `end` is called; `record` has what there was."""

    def __init__(self, options: SoakOptions, record: RunRecord, say: Say) -> None:
        self.options, self.record, self._say = options, record, say
        self._began_s = monotonic_s()
        self._over = asyncio.Event()

    def end(self) -> None:
        """Ends the faults now; experiments that run come to their end."""
        self._over.set()

    def elapsed_s(self) -> float:
        """Returns how long the run has lasted, s."""
        return monotonic_s() - self._began_s

    def find(self, check: str, text: str) -> None:
        """Records something that is wrong."""
        self._say(f"FINDING ({check}): {text}")
        self.record.add_finding(Finding(round(self.elapsed_s(), 2), check, text))

    async def run(self) -> None:
        """Runs it all; what is wrong is in the record."""
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a broker that is away is no news here
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        with place_of_stack(self.options, self.record) as place:
            self._began_s = monotonic_s()
            async with scene_of(place, random.Random(self.options.seed + 1)) as scene:
                await self._experiments_with_faults(place, scene)
                self.record.events = scene.history.events
                self.record.attempts = dict(scene.history.attempts)
                await self._checks_of_the_end(place, scene)
            await asyncio.to_thread(stack.stop, place.running.folder)
            if left := processes_in(place.running.folder):
                self.find("stack", f"processes are left: {left}")
        self.record.length_s = self.elapsed_s()

    async def _experiments_with_faults(self, place: Place, scene: Scene) -> None:
        faults = SoakFaults(
            self.options, place.running, place.proxy, scene.history, place.disk, self.record, self.elapsed_s
        )
        await experiments.define_nightly(scene)
        workload = [asyncio.create_task(self._repeat(scene, kind)) for kind in experiments.KINDS]
        others = [
            asyncio.create_task(self._guard("soak", work))
            for work in (
                faults.run(),
                self._sample(scene),
                self._verify(place),
                self._progress(scene, faults),
            )
        ]
        try:
            async with asyncio.timeout(self.options.length_s):
                await self._over.wait()
        except TimeoutError:
            pass
        scene.ending.set()
        others[0].cancel()
        await faults.stop()
        self._say(f"{faults.count} faults are over; the experiments that run come to their end")
        await self._until_ready(place.running)
        await faults.until_recovered()
        self.record.notes += faults.unasked_ends()
        await self._guard("commands", experiments.retire_nightly(scene))
        await asyncio.gather(*workload)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _repeat(self, scene: Scene, kind: str) -> None:
        """Begins an experiment of a kind whenever the one before has ended."""
        number = 0
        while not scene.ending.is_set():
            number += 1
            name, began_s = f"{kind}-{number}", self.elapsed_s()
            outcome = "wrong"

            async def run(name: str = name) -> None:
                nonlocal outcome
                outcome = await experiments.KINDS[kind](scene, name)
                scene.forget(name)

            await self._guard("experiments", run(), name)
            took_s = round(self.elapsed_s() - began_s, 2)
            self.record.add_experiment(
                ExperimentRecord(round(self.elapsed_s(), 2), kind, name, outcome, took_s)
            )

    async def _guard(self, check: str, work: Awaitable[None], what: str = "") -> None:
        """Awaits something; its error is a finding, and the run continues."""
        try:
            await work
        except AssertionError as error:
            self.find(check, f"{what} {error}".strip())
        except Exception:  # noqa: BLE001 - whatever is wrong is reported, after hours of a run too
            self.find("soak", f"{what} {traceback.format_exc(limit=-4)}".strip())

    async def _sample(self, scene: Scene) -> None:
        while True:
            began_s = monotonic_s()
            found: dict[str, Any] = {"at_s": round(self.elapsed_s(), 2)}
            try:
                found |= await asyncio.to_thread(sample, scene.running, os.getpid())
            except OSError as error:  # a process has ended while it was looked at
                self._say(f"no sample: {error}")
            else:
                found |= {"events": scene.history.events, "faults": len(self.record.faults)}
                self.record.add_sample(found)
            await pause(max(0.1, self.options.sample_every_s - (monotonic_s() - began_s)))

    async def _verify(self, place: Place) -> None:
        took_s = 0.0
        while True:
            await next_pause(took_s, self.options.verify_every_s)
            began_s = monotonic_s()
            while (verified := await verify_log(place.home)) is None:
                await pause(1.0)
            took_s = monotonic_s() - began_s
            self.record.verifications.append(verified.events)
            for each in verified.findings:
                self.find("verification", each)

    async def _progress(self, scene: Scene, faults: SoakFaults) -> None:
        while True:
            await pause(PROGRESS_S)
            ended = Counter(each.kind for each in self.record.experiments)
            self._say(
                f"{self.elapsed_s() / 60:7.1f} min  {faults.count} faults  {ended.total()} experiments  "
                f"{scene.history.events:,} events  {len(self.record.findings)} findings"
            )

    async def _until_ready(self, running: Stack) -> None:
        async def ready() -> bool:
            await pause(0.5)
            return await asyncio.to_thread(everything_is_ready, running)

        try:
            await poll_until(ready, PATIENCE_S)
        except TimeoutError:
            self.find("stack", f"not ready {PATIENCE_S:g} s after the last fault was undone")

    async def _checks_of_the_end(self, place: Place, scene: Scene) -> None:
        """Checks what has to hold when all faults are undone and all experiments have ended."""
        await self._until_ready(place.running)
        history = scene.history
        for each in scene.unanswered():
            self.find("commands", each)
        if waiting := [name for name, each in history.streams.by_id.items() if each.unanswered]:
            self.find("commands", f"unanswered commands in {', '.join(waiting[:20])}")
        verified = await verify_log(place.home, complete=True)
        if verified is None:
            self.find("verification", "the log can't be read at the end")
        else:
            self.record.verifications.append(verified.events)
            for each in verified.findings:
                self.find("verification", each)
        rows = rows_are_what_the_log_says(scene.log, scene.topics, place.running.postgres_dsn)
        await self._guard("rows", rows)
        self.record.end_checked = True


@contextmanager
def place_of_stack(options: SoakOptions, record: RunRecord) -> Iterator[Place]:
    """Starts the stack on its own disk, behind a proxy; all of it is removed after the block."""
    home = Path(tempfile.mkdtemp(prefix="trackside-soak-"))
    home.chmod(0o755)  # the account of Postgres must pass through
    folder = home / NAME
    try:
        with ExitStack() as holds:
            disk = None
            try:
                disk = holds.enter_context(mounted_disk(folder, options.disk))
            except NotMountableError as error:
                record.notes.append(f"no small disk, and no faults of the disk: {error}")
            leash = holds.enter_context(held_leash(home / "leash"))
            proxy = holds.enter_context(Proxy(free_ports(1)[0], lambda: port_of_broker(folder)))
            for name in ("work", "summaries", "host"):
                (home / name).mkdir()
            variables = {
                "TRACKSIDE_SUMMARY_DIRECTORIES": str(home / "summaries"),
                "TRACKSIDE_SUMMARY_LOOK_S": "0.5",
                "TRACKSIDE_WORKER_HOST_DIR": str(home / "host"),
                **options.variables,
            }
            address = "" if SECURE else proxy.address
            running = start_stack(folder, leash, address, CATALOGUE, options.slots, variables, AFTER_S)
            try:
                yield Place(home, running, disk, proxy)
            finally:
                stack.stop(folder)
                shutil.copytree(folder / "logs", record.folder / "logs", dirs_exist_ok=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@asynccontextmanager
async def scene_of(place: Place, rng: random.Random) -> AsyncIterator[Scene]:
    """Yields the scene, whose history follows the log."""
    topics, running = Topics(), place.running
    async with (
        KafkaLog(running.kafka(ADMIN), client_id="soak") as log,
        AsyncClient(running.kafka(PUBLISHER), name="soak") as client,
        asyncio.TaskGroup() as group,
    ):
        history = SoakHistory(log, topics)
        following = group.create_task(history.follow())
        work, summaries = place.home / "work", place.home / "summaries"
        yield Scene(running, history, log, client, topics, work, summaries, rng)
        following.cancel()
