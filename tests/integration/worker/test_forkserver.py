"""The forkserver by itself: processes that are told to end at once, and its own death."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator

import pytest

from tests.integration.worker.harness import LIMIT_S, parent_of
from tests.integration.worker.processes import wait_until_gone
from trackside.worker.attempts.forkservers.forkserver_client import ForkserverClient, allowed_environment
from trackside.worker.attempts.forkservers.forkserver_connection import ForkserverGoneError, TaskProcess


@pytest.fixture
async def forkserver() -> AsyncIterator[ForkserverClient]:
    made = ForkserverClient([], allowed_environment(os.environ))
    await made.start()
    yield made
    made.close()


async def test_a_process_that_is_told_to_end_before_it_has_begun_ends(forkserver: ForkserverClient) -> None:
    """The forkserver ignores SIGTERM, and so does a process that has just been forked off."""
    for _ in range(20):
        process = await forkserver.acquire()
        process.kill(signal.SIGTERM)
        assert await asyncio.wait_for(process.exited, LIMIT_S) == -signal.SIGTERM
        process.close()


async def taken_until_none_is_left(forkserver: ForkserverClient, taken: list[TaskProcess]) -> None:
    """Takes the process that is ready, if there is one, and one that must be forked."""
    for _ in range(2):
        process = await forkserver.acquire()
        taken.append(process)


async def test_a_forkserver_whose_death_was_not_heard_yet_is_as_one_that_has_died(
    forkserver: ForkserverClient,
) -> None:
    taken: list[TaskProcess] = [await forkserver.acquire()]
    died = parent_of(taken[0].pid)
    os.kill(died, signal.SIGKILL)
    assert wait_until_gone(died)
    taken[0].kill(signal.SIGTERM)
    with pytest.raises(ForkserverGoneError):
        await taken_until_none_is_left(forkserver, taken)
    for process in taken:
        with pytest.raises(ForkserverGoneError):
            await asyncio.wait_for(process.exited, LIMIT_S)
        process.close()
    process = await forkserver.acquire()
    assert parent_of(process.pid) != died
    process.close()


async def test_a_signal_to_a_forkserver_that_takes_no_more_waits_until_it_does(
    forkserver: ForkserverClient,
) -> None:
    first, last = await forkserver.acquire(), await forkserver.acquire()
    died = parent_of(first.pid)
    os.kill(died, signal.SIGSTOP)
    for _ in range(1_000):
        first.kill(signal.SIGCONT)
    last.kill(signal.SIGTERM)
    os.kill(died, signal.SIGCONT)
    assert await asyncio.wait_for(last.exited, LIMIT_S) == -signal.SIGTERM
    for process in (first, last):
        process.close()


async def test_what_a_process_was_not_sent_any_more_is_in_no_later_connections_way(
    forkserver: ForkserverClient,
) -> None:
    """The loop went on to watch a descriptor that was closed, and failed for the next user of its number."""
    process = await forkserver.acquire()
    os.kill(process.pid, signal.SIGSTOP)
    _, writer = await process.connected()
    number = process.channel.fileno()
    writer.write(b" " * 10_000_000)
    process.close()
    process.kill(signal.SIGKILL)
    assert await asyncio.wait_for(process.exited, LIMIT_S) == -signal.SIGKILL
    later: list[socket.socket] = []
    while number not in [each.fileno() for each in later]:
        later += socket.socketpair()
    loop = asyncio.get_running_loop()
    loop.add_reader(number, int)
    loop.remove_reader(number)
    for each in later:
        each.close()
