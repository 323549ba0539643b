"""Warm processes: they wait for another task of the type that they have run, and end when memory is needed.

Each belongs to a task type and to the GPUs that CUDA shows it; all CPU slots are alike. In the ledger a warm
process is an allocation on the host and on the devices that it used last, so there is at most one a slot.
Admission doesn't count it, because it can be ended.
"""

import asyncio
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass

from trackside.worker.attempts.forkservers.forkserver_connection import TaskProcess
from trackside.worker.catalogue.task_catalogue import TaskType
from trackside.worker.host.sampler import OwnedSession
from trackside.worker.messages.process_messages import ProcessFree
from trackside.worker.placements.ledger import Allocation, Claim, Ledger, Stage

ProcessKind = tuple[TaskType, str]
"""What the tasks of one process have in common: the task type as it is defined, and CUDA_VISIBLE_DEVICES."""


@dataclass(frozen=True, slots=True)
class WarmProcess:
    """A process that waits for a task; `allocation` is its allocation in the ledger."""

    key: str
    kind: ProcessKind
    process: TaskProcess
    allocation: Allocation


class WarmProcessPool:
    """The warm processes of one incarnation; `changed` is called when one is gone."""

    def __init__(self, ledger: Ledger, changed: Callable[[], None]) -> None:
        self._ledger = ledger
        self._changed = changed
        self._processes: dict[str, WarmProcess] = {}

    def add(
        self, kind: ProcessKind, process: TaskProcess, device_ids: tuple[str, ...], free: ProcessFree
    ) -> None:
        """Adds a process that waits for a task; `free` is what it reported."""
        key = f"warm-{process.pid}"
        allocation = Allocation("", Claim(device_ids), Stage.IDLE)
        allocation.record_usage(free.memory_bytes, free.cuda_memory_bytes)
        self._processes[key] = WarmProcess(key, kind, process, allocation)
        self._ledger.add(key, allocation)
        process.exited.add_done_callback(self._on_exit)

    def matching(self, kind: ProcessKind, device_ids: tuple[str, ...]) -> WarmProcess | None:
        """Returns a process for a task: the last one on its devices, else the oldest; None if none fits."""
        fit = [each for each in self._processes.values() if each.kind == kind and _is_idle(each)]
        return next((each for each in fit if each.allocation.claim.device_ids == device_ids), None) or next(
            iter(fit), None
        )

    def remove_for_task(self, warm_process: WarmProcess) -> TaskProcess:
        """Removes a process and returns it, to be used by a task."""
        warm_process.process.exited.remove_done_callback(self._on_exit)
        self._remove(warm_process.key)
        return warm_process.process

    def make_room(self, device_ids: Collection[str], spared: str) -> bool:
        """Ends the processes on those devices or, if there are none, the one that has waited longest.

        Returns whether one was ended. The process with the key `spared` is kept.
        """
        idle = [each for each in self._processes.values() if each.key != spared and _is_idle(each)]
        there = [each for each in idle if set(device_ids) & set(each.allocation.claim.device_ids)]
        ending = there or idle[:1]
        for each in ending:
            self._end(each)
        return bool(ending)

    def end_on(self, device_ids: Collection[str]) -> None:
        """Ends the processes on devices."""
        for each in self._processes.values():
            if _is_idle(each) and set(device_ids) & set(each.allocation.claim.device_ids):
                self._end(each)

    def end_types(self, names: Collection[str]) -> None:
        """Ends the processes of task types."""
        for each in self._processes.values():
            if _is_idle(each) and each.kind[0].name in names:
                self._end(each)

    async def end_all(self) -> None:
        """Ends all processes and waits until they are gone."""
        exits = [each.process.exited for each in self._processes.values()]
        for each in self._processes.values():
            self._end(each)
        await asyncio.gather(*exits, return_exceptions=True)

    def owned(self) -> list[OwnedSession]:
        """Returns their sessions, as those of tasks."""
        return [
            OwnedSession(
                each.key,
                each.process.pid,
                each.allocation.claim.device_ids,
                each.allocation.cuda_memory_bytes,
                each.allocation.memory_bytes,
            )
            for each in self._processes.values()
        ]

    @property
    def memory_bytes(self) -> int:
        """Bytes of host memory that would be free if all of them ended."""
        return sum(each.allocation.memory_bytes for each in self._processes.values())

    def _end(self, warm_process: WarmProcess) -> None:
        warm_process.allocation.stage = Stage.ENDING
        warm_process.process.kill(signal.SIGKILL)  # no code of a task runs in it

    def _on_exit(self, exited: asyncio.Future[int]) -> None:
        for each in list(self._processes.values()):
            if each.process.exited is exited:
                self._remove(each.key)
                each.process.close()
        self._changed()

    def _remove(self, key: str) -> None:
        del self._processes[key]
        self._ledger.remove(key)


def _is_idle(warm_process: WarmProcess) -> bool:
    return warm_process.allocation.stage is Stage.IDLE and not warm_process.process.exited.done()
