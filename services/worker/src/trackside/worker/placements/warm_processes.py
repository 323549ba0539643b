"""Processes that wait for another task of the type that they have run, and end when others need the room.

Each belongs to a type and to what CUDA shows it: all slots of the CPU are alike, a GPU is itself. In the
ledger one is a holding that nobody counts who can have it ended: on the devices it was used on last, so that
there is no more than one for a slot, and on the host.
"""

import asyncio
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass

from trackside.contracts.message import Json
from trackside.worker.attempts.forkserver_client import Forkserver, Process
from trackside.worker.host.sampler import Owned
from trackside.worker.placements.ledger import Claim, Holding, Ledger, Stage

Kind = tuple[str, str]
"""What tasks have in common that one process may run: their type, and what CUDA shows them."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A process that waits for a task; `holding` is what it has in the ledger."""

    key: str
    kind: Kind
    process: Process
    holding: Holding


class WarmProcesses:
    """The processes of one incarnation that wait for a task; `changed` is called when one is gone."""

    def __init__(self, ledger: Ledger, forkserver: Forkserver, changed: Callable[[], None]) -> None:
        self._ledger = ledger
        self._forkserver = forkserver
        self._changed = changed
        self._waiting: dict[str, Waiting] = {}

    def park(self, kind: Kind, process: Process, device_ids: tuple[str, ...], memory: Json) -> None:
        """Keeps a process that is free, and what it has."""
        key = f"warm-{process.number}"
        holding = Holding("", Claim(device_ids), Stage.IDLE)
        holding.saw(memory["memory_bytes"], memory["cuda_memory_bytes"])
        self._waiting[key] = Waiting(key, kind, process, holding)
        self._ledger.put(key, holding)
        process.exited.add_done_callback(self._hear_exit)

    def fitting(self, kind: Kind, device_ids: tuple[str, ...]) -> Waiting | None:
        """Gives a process for a task: best the one that was on its devices last, else the oldest."""
        fit = [each for each in self._waiting.values() if each.kind == kind and _idles(each)]
        return next((each for each in fit if each.holding.claim.device_ids == device_ids), None) or next(
            iter(fit), None
        )

    def take(self, waiting: Waiting) -> Process:
        """Gives a process away to a task."""
        waiting.process.exited.remove_done_callback(self._hear_exit)
        self._forget(waiting.key)
        return waiting.process

    def make_room(self, device_ids: Collection[str], spared: str) -> bool:
        """Ends what waits on those devices, or else, for memory, the one that has waited longest.

        Says whether there was one.
        """
        idle = [each for each in self._waiting.values() if each.key != spared and _idles(each)]
        there = [each for each in idle if set(device_ids) & set(each.holding.claim.device_ids)]
        ending = there or idle[:1]
        for each in ending:
            self._end(each)
        return bool(ending)

    def end_on(self, device_id: str) -> None:
        """Ends what waits on a device."""
        for each in self._waiting.values():
            if device_id in each.holding.claim.device_ids:
                self._end(each)

    async def end_all(self) -> None:
        """Ends all of them and waits until they are gone."""
        exits = [each.process.exited for each in self._waiting.values()]
        for each in self._waiting.values():
            self._end(each)
        await asyncio.gather(*exits, return_exceptions=True)

    def owned(self) -> list[Owned]:
        """Lists them as tasks that have processes."""
        return [
            Owned(each.key, each.process.pid, each.holding.claim.device_ids, each.holding.cuda_memory_bytes)
            for each in self._waiting.values()
        ]

    @property
    def memory_bytes(self) -> int:
        """What of the host would be free if all of them ended."""
        return sum(each.holding.memory_bytes for each in self._waiting.values())

    def _end(self, waiting: Waiting) -> None:
        waiting.holding.stage = Stage.GOING
        self._forkserver.kill(waiting.process, signal.SIGKILL)  # no code of a task runs in it

    def _hear_exit(self, exited: asyncio.Future[int]) -> None:
        for each in list(self._waiting.values()):
            if each.process.exited is exited:
                self._forget(each.key)
                each.process.close()
        self._changed()

    def _forget(self, key: str) -> None:
        del self._waiting[key]
        self._ledger.drop(key)


def _idles(waiting: Waiting) -> bool:
    return waiting.holding.stage is Stage.IDLE and not waiting.process.exited.done()
