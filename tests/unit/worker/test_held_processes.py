"""What a forkserver keeps of the processes that outlive a worker: what they write, and for how long."""

import os
from collections.abc import Iterator

import pytest

from trackside.worker.child import held_processes
from trackside.worker.child.held_processes import HeldProcesses
from trackside.worker.messages.forkserver_messages import HoldProcess

KEEP_S = 600.0
"""Longer than any test."""


class Pipes:
    def __init__(self) -> None:
        pairs = [os.pipe() for _ in range(3)]
        self.held, self.writes = [read for read, _ in pairs], [write for _, write in pairs]

    def close(self) -> None:
        while self.writes:
            os.close(self.writes.pop())


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    yield made
    made.close()


@pytest.fixture
def held(pipes: Pipes) -> Iterator[HeldProcesses]:
    made = HeldProcesses()
    made.hold(HoldProcess(7, "key", KEEP_S), 4_711, pipes.held)
    yield made
    made.close()


def read_all(held: HeldProcesses) -> None:
    """Reads what is there, as without a worker."""
    for stream in held.readable().values():
        os.set_blocking(stream.descriptor, False)
        stream.read()


def unread(held: HeldProcesses) -> list[bytes]:
    [(_, descriptors)] = held.offers()
    return [os.pread(each, 1_000, 0) for each in descriptors[3:]]


def test_what_is_written_without_a_worker_is_read_once_by_the_next(held: HeldProcesses, pipes: Pipes) -> None:
    held.worker_gone()
    for number, end in enumerate(pipes.writes):
        os.write(end, f"first {number}\n".encode())
    read_all(held)
    os.write(pipes.writes[1], b"second")
    read_all(held)
    assert unread(held) == [b"first 0\n", b"first 1\nsecond", b"first 2\n"]
    held.taken_over()
    assert unread(held) == [b"", b"", b""]
    assert 7 in held, "it may outlive the next worker, too"


def test_who_writes_much_waits(held: HeldProcesses, pipes: Pipes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_processes, "MAX_UNREAD_BYTES", 10)
    held.worker_gone()
    os.write(pipes.writes[1], b"0123456789")
    read_all(held)
    assert pipes.held[1] not in held.readable()
    held.taken_over()
    assert pipes.held[1] in held.readable()


def test_an_exclusive_task_has_less_time_without_the_log_than_without_a_worker(held: HeldProcesses) -> None:
    exclusive = Pipes()
    held.hold(HoldProcess(8, "other", KEEP_S, silent_s=1e-9), 4_712, exclusive.held)
    held.worker_gone()
    assert held.overdue() == [8]
    left_s = held.left_s()
    assert left_s == 0
    held.release(8)
    left_s = held.left_s()
    assert left_s is not None and KEEP_S - 60 < left_s <= KEEP_S
    exclusive.close()


def test_a_process_that_exited_is_offered_with_its_status_once(held: HeldProcesses, pipes: Pipes) -> None:
    held.worker_gone()
    held.exited(7, 9, ["4713 sleep 600"])
    [(offer, _)] = held.offers()
    assert (offer.pid, offer.status, offer.leftovers) == (4_711, 9, ["4713 sleep 600"])
    pipes.close()
    read_all(held)
    assert held.readable() == {}
    held.taken_over()
    assert not held and held.left_s() is None
