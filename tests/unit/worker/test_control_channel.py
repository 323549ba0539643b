"""What a task process is told, and which messages are rejected (T3, T13)."""

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from trackside.worker.child.channel.control_channel import ControlChannel, WorkerGoneError
from trackside.worker.child.channel.control_states import ControlGuard, ControlState
from trackside.worker.messages import process_messages as messages
from trackside.worker.messages.assignment import Assignment
from trackside.worker.messages.process_messages import encode

LOAD, TRAIN, EXIT = messages.LoadCommand(), messages.TrainCommand("cuda:0"), messages.ExitCommand()
NEXT, NONE = messages.ParametersAnswer(1, {"x": 0.5}), messages.ParametersAnswer(2)
ASSIGNMENT = Assignment("x:Y", [], "", {}, {}, "/tmp/x", "/tmp/x.json")


@pytest.mark.parametrize("message", [LOAD, TRAIN, EXIT, NEXT, NONE])
def test_t3_a_message_arrives_as_it_was_sent(message: messages.ControlMessage) -> None:
    assert messages.decode(encode(message), messages.CONTROL) == message


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ([LOAD, TRAIN, EXIT], None),
        ([LOAD, NEXT, TRAIN, NEXT, NONE], None),
        ([LOAD, LOAD], "LOAD is rejected: the task has been told to load, and waits for its device"),
        ([LOAD, TRAIN, LOAD], "LOAD is rejected: the task has been told to train"),
        ([LOAD, TRAIN, TRAIN], "TRAIN is rejected: the task has been told to train"),
        ([TRAIN], "TRAIN is rejected: the task has not been told to load"),
        ([NEXT], "NEXT is rejected: the task has not been told to load"),
    ],
)
def test_t13_what_is_out_of_order_has_a_reason(
    told: list[messages.ControlMessage], reason: str | None
) -> None:
    guard = ControlGuard()
    *before, last = (guard.objection(message) for message in told)
    assert (last, before) == (reason, [None] * len(before))


def test_after_an_interrupt_it_may_be_told_to_train_again_once_unless_it_shall_exit() -> None:
    guard = ControlGuard()
    assert (guard.objection(LOAD), guard.objection(TRAIN)) == (None, None)
    guard.interrupted()
    assert guard.objection(TRAIN) is None
    assert guard.objection(TRAIN) is not None
    guard = ControlGuard()
    for message in (LOAD, TRAIN, EXIT):
        guard.objection(message)
    guard.interrupted()
    assert guard.state is ControlState.LEAVING


@pytest.mark.parametrize("message", [LOAD, TRAIN, EXIT, NEXT])
def test_t13_nothing_is_obeyed_after_the_end(message: messages.ControlMessage) -> None:
    guard = ControlGuard()
    guard.over()
    assert guard.objection(message) == f"{messages.type_of(message)} is rejected: the task has ended its work"


Ends = tuple[socket.socket, ControlChannel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The worker's end, and the channel of the task."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, ControlChannel(theirs)


def test_an_assignment_and_what_follows_are_read_one_by_one(ends: Ends) -> None:
    ours, channel = ends
    ours.sendall(encode(ASSIGNMENT) + encode(LOAD) + encode(TRAIN))
    assert channel.assignment() == ASSIGNMENT
    assert (channel.next(), channel.next()) == (LOAD, TRAIN)


def test_t13_what_came_before_an_interrupt_is_rejected(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, channel = ends
    ours.sendall(encode(LOAD) + encode(TRAIN))
    assert (channel.next(), channel.next()) == (LOAD, TRAIN)
    ours.sendall(encode(TRAIN))
    channel.interrupted()
    assert capsys.readouterr().err == "trackside: TRAIN is rejected: the task has been told to train\n"
    ours.sendall(encode(messages.TrainCommand("cpu")))
    assert channel.next() == messages.TrainCommand("cpu")


def test_locks_come_with_messages_an_interrupt_closes_them(ends: Ends) -> None:
    ours, channel = ends
    reading, writing = os.pipe()
    socket.send_fds(ours, [encode(LOAD) + encode(TRAIN)], [writing])
    os.close(writing)
    channel.next()
    assert len(channel.locks) == 1
    channel.interrupted()
    assert channel.locks == [] and os.read(reading, 1) == b""
    os.close(reading)


def test_a_closed_channel_says_that_the_worker_is_gone(ends: Ends) -> None:
    ours, channel = ends
    ours.sendall(b'{"half": "a line"}')
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(WorkerGoneError):
        channel.assignment()


def test_threads_that_wait_for_answers_and_instructions_get_each_their_own(ends: Ends) -> None:
    ours, channel = ends
    ours.sendall(encode(ASSIGNMENT) + encode(LOAD))
    channel.assignment()
    assert channel.next() == LOAD
    with ThreadPoolExecutor(4) as threads:
        instruction = threads.submit(channel.instruction, 60.0)
        answers = [threads.submit(channel.answer, number, messages.FetchAnswer) for number in (1, 2, 3)]
        for number in (2, 3):
            ours.sendall(encode(messages.FetchAnswer(number, f"/cache/{number}")))
            found = answers[number - 1].result(30)
            assert found is not None and found.path == f"/cache/{number}"
        ours.sendall(encode(messages.InstructionMessage(1, {})))
        assert instruction.result(30) == messages.InstructionMessage(1, {})
        ours.sendall(encode(EXIT))
        assert answers[0].result(30) is None, "it is told to exit"
