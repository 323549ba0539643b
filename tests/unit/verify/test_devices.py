"""Who had a device or memory when: in the order in which the worker has numbered its events."""

from collections.abc import Iterable
from itertools import permutations
from typing import Any

import pytest

from tests.unit.domain.given import record_of
from tests.unit.verify.test_incarnations import joined
from trackside.contracts.envelope.message import Envelope, Event, Record
from trackside.contracts.fleet.fleet import Device
from trackside.contracts.tasks import tasks
from trackside.domain.checks.findings import Findings
from trackside.verify.checks.tasks.devices import AssignedPlace, ResourceChecks
from trackside.verify.checks.tasks.incarnations import IncarnationHistory

GIB = 2**30
GPU = Device(device_id="gpu-0", kind="gpu", name="GPU", memory_bytes=8 * GIB)
SLOT = Device(device_id="cpu-0", kind="cpu", name="slot", memory_bytes=GIB)


def incarnation(**changed: Any) -> IncarnationHistory:
    known: dict[str, Any] = {"worker_id": "w1", "incarnation": "i1", "joined_offset": 0, "max_tasks": 2}
    known |= {"devices": {each.device_id: each for each in (GPU, SLOT)}, "memory_bytes": 16 * GIB}
    return IncarnationHistory(**{**known, **changed})


class Worker:
    """The events of one incarnation, each with the number that its worker has given it."""

    def __init__(self) -> None:
        self.numbered = 0
        self.events: list[tuple[Record, tuple[Any, ...]]] = []
        self.say(joined("i1"))

    def begin(self, task: str, device: str, **more: Any) -> None:
        """A task begins with 3 GiB of the host and `cuda` GiB of its device."""
        known = more.get("incarnation", incarnation())
        place = AssignedPlace("w1", known, (device,), more.get("whole", False))
        cuda = None if more.get("behind") else more.get("cuda", 0) * GIB
        self.say(tasks.TaskAccepted(**token(task)), (place, 3 * GIB, cuda), more.get("number"))

    def train(self, task: str, device: str, number: int | None = None) -> None:
        place = AssignedPlace("w1", incarnation(), (device,), False)
        changed = tasks.TaskStatusChanged(**token(task), status=tasks.TaskStatus.TRAINING)
        self.say(changed, (place, None, 0), number)

    def interrupt(self, task: str) -> None:
        error = tasks.TaskError(stage="TRAIN", type="MemoryError", message="", traceback="")
        reserved = tasks.Reservation(memory_bytes=1, cuda_memory_bytes=1, estimated_by="raised")
        about = {**token(task), "reserved": reserved, "error": error}
        self.say(tasks.TaskInterrupted(interrupt=1, resource="device", **about))

    def end(self, task: str, number: int | None = None) -> None:
        self.say(tasks.AttemptEnded(**token(task), end=tasks.AttemptEnd.FINISHED), number=number)

    def draw(self) -> int:
        self.numbered += 1
        return self.numbered

    def say(self, event: Event, use: tuple[Any, ...] = (), number: int | None = None) -> None:
        """Adds an event; its number is drawn now if none is given, and 0 is none."""
        number = self.draw() if number is None else number
        record = record_of(event, len(self.events), stream="s")
        sequence = {"ce_sequence": b"%09d" % number} if number else {}
        headers = {**record.envelope.headers, "ce_source": b"trackside/worker/w1", **sequence}
        record.envelope = Envelope(headers)
        self.events.append((record, use))

    def checks(self, events: Iterable[tuple[Record, tuple[Any, ...]]] | None = None) -> ResourceChecks:
        checks = ResourceChecks(Findings())
        for record, use in self.events if events is None else events:
            if use:
                checks.start(record, *use, begins=isinstance(record.message, tasks.TaskAccepted))
            checks.take(record)
        return checks

    @property
    def found(self) -> list[str]:
        checks = self.checks()
        checks.finish()
        return messages(checks)


def played(*script: tuple[Any, ...]) -> Worker:
    """Returns a worker with the events of a script: its calls, with their arguments and options."""
    worker = Worker()
    for call, *arguments in script:
        options = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        getattr(worker, call)(*arguments, **options)
    return worker


def token(task: str) -> dict[str, Any]:
    return {"task_id": task, "attempt": 1, "placement": 1, "incarnation": "i1"}


def messages(checks: ResourceChecks) -> list[str]:
    return [finding.message for finding in checks.findings.found]


SMALL = incarnation(memory_bytes=5 * GIB)
BOTH = "device w1/cpu-0 has task b while it has a"
A, B, END_A = ("begin", "a", "cpu-0"), ("begin", "b", "cpu-0"), ("end", "a")
ON_GPU = ("begin", "a", "gpu-0", {"cuda": 5})


@pytest.mark.parametrize(
    ("script", "found"),
    [
        # A slot is had by one after another, and not by one that waits or was interrupted.
        ([A, END_A, B], []),
        ([A, B, END_A], [BOTH]),
        ([A, (*B, {"behind": True}), END_A, ("train", "b", "cpu-0")], []),
        ([A, ("interrupt", "a"), B, ("train", "a", "cpu-0")], ["device w1/cpu-0 has task a while it has b"]),
        # After a gap uses with a known end are still compared.
        ([A, ("draw",), B, END_A], [BOTH]),
        # An end that is reported late, behind the last output of its process, frees its device when it was.
        ([A, ("draw",), B, ("train", "a", "cpu-0"), ("end", "a", 3)], []),
        # A GPU is shared as far as its memory reaches.
        ([ON_GPU, ("begin", "b", "gpu-0", {"cuda": 3})], []),
        (
            [ON_GPU, ("begin", "b", "gpu-0", {"cuda": 4})],
            ["device w1/gpu-0 has 8589934592 bytes of memory, and 9663676416 are reserved: task b next to a"],
        ),
        ([ON_GPU, ("begin", "b", "gpu-0", {"cuda": 1, "whole": True})], [BOTH.replace("cpu", "gpu")]),
        # A host has as many tasks, and as much memory, as it takes.
        ([("begin", name, "gpu-0") for name in "abc"], ["host w1 has 3 tasks, it takes 2"]),
        (
            [("begin", name, "gpu-0", {"incarnation": SMALL}) for name in "ab"],
            ["host w1 has 5368709120 bytes of memory, and 6442450944 are reserved: task b next to a"],
        ),
    ],
)
def test_what_tasks_have_at_once_is_compared_with_what_there_is(script: list[Any], found: list[str]) -> None:
    assert played(*script).found == found


def test_in_whatever_order_partitions_are_read_the_same_is_found() -> None:
    worker = played(A, B, END_A, ("begin", "c", "gpu-0", {"whole": True}), ("end", "b"))
    for order in permutations(worker.events):
        checks = worker.checks(order)
        assert (messages(checks), checks.finish()) == (["device w1/cpu-0 has task b while it has a"], 0)


def test_what_is_found_of_some_events_is_found_of_more() -> None:
    worker = played(A, END_A, B, ("begin", "c", "cpu-0"), ("end", "b"))
    expected = ["device w1/cpu-0 has task c while it has b"]
    for order in permutations(worker.events):
        for length in range(len(order)):
            checks = worker.checks(order[:length])
            checks.finish()
            assert messages(checks) in ([], expected)


def test_while_an_end_may_still_be_read_nothing_is_found() -> None:
    checks = played(A, ("draw",), B).checks()
    assert (checks.finish(), messages(checks)) == (1, [])


def test_events_without_numbers_are_not_compared_and_what_has_ended_is_forgotten() -> None:
    checks = played((*A, {"number": 0}), (*B, {"number": 0})).checks()
    assert (checks.finish(), messages(checks)) == (2, [])
    assert [played(*script).checks().in_use() for script in ([A], [A, END_A])] == [1, 0]
