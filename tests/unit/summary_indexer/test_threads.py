import asyncio
import subprocess
import sys
import threading

import pytest

from trackside.summary_indexer.api.reads import DaemonThreads

ENDS = """
import asyncio, threading
from trackside.summary_indexer.api.reads import DaemonThreads

async def main():
    started = threading.Event()
    def blocks():
        started.set()
        threading.Event().wait()
    reading = asyncio.create_task(DaemonThreads(1).run(blocks))
    await asyncio.sleep(0)
    started.wait()
    reading.cancel()

asyncio.run(main())
print("ended")
"""
STARTS_NOTHING = """
import asyncio, socket, threading
def refuse(*_, **__):
    raise AssertionError("something was started at import")
threading.Thread.start = socket.socket.connect = socket.socket.bind = asyncio.new_event_loop = refuse
import trackside.summary_indexer.app, trackside.summary_indexer.api.server
import trackside.projections.summaries.read_pool
print("imported")
"""


async def test_a_thread_hands_on_what_a_read_returns_or_raises() -> None:
    threads = DaemonThreads(2)
    assert await threads.run(lambda: 7) == 7
    for _ in range(3):  # an error gives the place of its thread back
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 // 0)


async def test_no_more_threads_run_than_are_set_even_if_their_callers_are_gone() -> None:
    threads, go_on = DaemonThreads(1), threading.Event()
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    def blocks() -> None:
        loop.call_soon_threadsafe(started.set)
        go_on.wait()

    first = asyncio.create_task(threads.run(blocks))
    await started.wait()
    first.cancel()
    second = asyncio.create_task(threads.run(lambda: 2))
    done, _ = await asyncio.wait({second}, timeout=0.05)
    assert not done
    go_on.set()
    assert await second == 2


@pytest.mark.thorough
@pytest.mark.parametrize(("code", "said"), [(ENDS, "ended"), (STARTS_NOTHING, "imported")])
def test_a_process_ends_with_a_read_that_blocks_and_an_import_starts_nothing(code: str, said: str) -> None:
    """S9: a loading thread that kept the process from ending, and a service that was made at import."""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (found.stdout.strip(), found.returncode) == (said, 0), found.stderr
