"""A process with a worker over a log in memory, to be killed: `python -m ...killable_worker DIR JSON`.

It sends the worker one task with the parameters given, and prints the pid that the task reports, or
`withheld` once the task's ending is on the disk and the log does not take it.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.integration.worker.harness import LIMIT_S, running, settings_for
from tests.polling import poll_until
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.tasks import AttemptAdopted, AttemptEnded, MetricReported
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog


class StallingLog(MemoryLog):
    """A log that doesn't answer any more after the end of an attempt, while `stalls` is true."""

    stalls = True

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch, unless it holds the end of an attempt."""
        ended = AttemptEnded.wire_type().encode()
        if self.stalls and any(("ce_type", ended) in record.headers for record in batch):
            sys.stdout.write("withheld\n")
            sys.stdout.flush()
            await asyncio.Event().wait()
        return await super().append(topic, partition, batch)


async def until_a_heartbeat(log: StallingLog, topics: Topics) -> None:
    """Waits for the next record of the heartbeats topic."""
    reader = log.reader({(topics.heartbeats.name, 0): (await log.ends(topics.heartbeats.name))[0]})
    try:
        while not await reader.read(1.0):
            pass
    finally:
        await reader.close()


async def main(
    data_dir: Path, parameters: dict[str, object], catalogue: str = "", task_type: str = "noop"
) -> None:
    """Runs until it is killed.

    With the parameter `held`, another task `b` waits for its device; with `before`, another task has ended.
    With `adopts` it gets no task, and prints its incarnation once it has adopted that one. `lease_s` is that
    of the command, `device` that of the task. With `settles` it waits until the log has what
    the task reports, and three heartbeats.
    """
    held, before = parameters.pop("held", False), parameters.pop("before", False)
    adopts, lease_s = str(parameters.pop("adopts", "")), parameters.pop("lease_s", 60.0)
    device, settles = parameters.pop("device", "cpu-0"), parameters.pop("settles", False)
    topics, entries = Topics("t."), data_dir / "journal"
    log = StallingLog()
    await log.ensure(topics.shared)
    given: dict[str, Any] = {"catalogue": Path(catalogue)} if catalogue else {}
    async with running(log, topics, settings_for(data_dir, **given)) as harness:
        if adopts:
            adopted = await harness.event(AttemptAdopted, adopts)
            await harness.joined()
            sys.stdout.write(f"{adopted.incarnation}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()
        if before:
            log.stalls = False
            await harness.run("first", {}, task_type=task_type)
            await harness.end("first")
            await poll_until(lambda: asyncio.to_thread(lambda: not [*entries.glob("*.json")]), LIMIT_S)
            log.stalls = True
        command = await harness.run("a", parameters, task_type=task_type, lease_s=lease_s, device=device)
        sys.stdout.write(f"{command.incarnation}\n")
        pid = await harness.pid("a")
        if settles:
            reports = parameters["report"]
            assert isinstance(reports, list)
            await harness.event(MetricReported, "a", 1 + len(reports))
            for _ in range(3):
                await until_a_heartbeat(log, topics)
        if held:
            await harness.run("b", wait=True)
            await poll_until(lambda: asyncio.to_thread(lambda: len([*entries.glob("*.json")]) == 2), LIMIT_S)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), json.loads(sys.argv[2]), *sys.argv[3:]))
