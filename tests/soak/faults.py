"""The faults of a soak: random ones at a mean distance, and how long the stack takes to recover from each."""

import asyncio
import random
from collections.abc import Callable

from tests.chaos.faults import PROGRAMS
from tests.chaos.proxy import Proxy
from tests.chaos.random_faults import Injected, RandomFaults, pause
from tests.chaos.settings import SECURE
from tests.small_disk import SmallDisk
from tests.soak.history import SoakHistory
from tests.soak.measures import everything_is_ready
from tests.soak.options import MOST_INTERVALS, SoakOptions
from tests.soak.records import FaultRecord, RunRecord
from trackside.embedded.stack import CONSOLE, Stack, load

KINDS = (
    *["kill"] * 5,
    *["pause"] * 4,
    *["task"] * 2,
    "rival",
    "forkserver",
    "restart",
    "hand over",
)
NETWORK = ("cut", "cut", "hold")
FULL_DISK, LOW_DISK = "full disk", "low disk"
LEASES = 3
"""How many leases a pause lasts at most: most pauses end one."""
FULL_S = 20.0
"""How long the disk is full, or low, at most."""
LEFT_BYTES = 200 * 2**20
"""How much room is left on a low disk: less than the limit below which no task is started."""
LOOK_S = 0.5
"""How often the stack is asked whether it is ready; a shorter recovery is not told from none."""


class SoakFaults:
    """Injects faults until it is cancelled; `stop` undoes them."""

    def __init__(
        self,
        options: SoakOptions,
        running: Stack,
        proxy: Proxy,
        history: SoakHistory,
        disk: SmallDisk | None,
        record: RunRecord,
        elapsed_s: Callable[[], float],
    ) -> None:
        disks = () if disk is None else (FULL_DISK, LOW_DISK)
        self._rng = random.Random(options.seed)
        self._faults = RandomFaults(
            running,
            self._rng,
            proxy,
            lambda _: None,
            kinds=(*KINDS, *disks) if SECURE else (*KINDS, *NETWORK, *disks),
            programs=(*PROGRAMS, CONSOLE),
            longest_s=LEASES * options.lease_s,
            variables=options.variables,
        )
        self._mean_s = options.fault_interval_s
        self._running, self._history, self._disk = running, history, disk
        self._record, self._elapsed_s = record, elapsed_s
        self._is_short_of_room = False
        self._recoveries: set[asyncio.Task[None]] = set()
        if disk is not None:
            self._faults.makers[FULL_DISK] = lambda: self._fill(0)
            self._faults.makers[LOW_DISK] = lambda: self._fill(LEFT_BYTES)

    @property
    def count(self) -> int:
        """How many faults were injected."""
        return self._faults.counts.total()

    def unasked_ends(self) -> list[str]:
        """Returns which processes have ended more often than faults ended them, and how at last."""
        kills = self._faults.kills
        return [
            f"{name} ended by itself {each.restarts - kills.get(name, 0)} times, at last: {each.last_end}"
            for name, each in load(self._running.folder).status.processes.items()
            if each.restarts > kills.get(name, 0)
        ]

    async def run(self) -> None:
        """Injects one fault after another, at distances that are drawn around the mean."""
        while True:
            distance_s = self._rng.expovariate(1 / self._mean_s)
            await pause(min(distance_s, MOST_INTERVALS * self._mean_s))
            at_s, position = self._elapsed_s(), self._history.events
            injected = self._faults.inject()
            task = asyncio.create_task(self._recovery(injected, at_s, position))
            self._recoveries.add(task)
            task.add_done_callback(self._recoveries.discard)

    async def stop(self) -> None:
        """Undoes all faults."""
        await self._faults.stop()
        if self._is_short_of_room:
            self._give_back()

    async def until_recovered(self) -> None:
        """Waits until the stack has recovered from the last faults."""
        await asyncio.gather(*self._recoveries)

    async def _recovery(self, fault: Injected, at_s: float, position: int) -> None:
        """Waits until the log has another event and the stack is ready, and records the fault."""
        event_s = ready_s = None
        try:
            while event_s is None or ready_s is None:
                await pause(LOOK_S)
                took_s = self._elapsed_s() - at_s
                if event_s is None and self._history.events > position:
                    event_s = round(took_s, 2)
                if ready_s is None and await asyncio.to_thread(everything_is_ready, self._running):
                    ready_s = round(took_s, 2)
        finally:
            self._record.add_fault(FaultRecord(round(at_s, 2), fault.kind, fault.target, event_s, ready_s))

    def _fill(self, leave_bytes: int) -> str:
        """Takes the room of the disk, and gives it back after a while."""
        assert self._disk is not None
        if self._is_short_of_room:
            return ""
        self._disk.shrink(leave_bytes)
        self._is_short_of_room = True
        self._faults.after(self._give_back, FULL_S)
        return "the disk of the stack"

    def _give_back(self) -> None:
        assert self._disk is not None
        self._disk.restore()
        self._is_short_of_room = False
