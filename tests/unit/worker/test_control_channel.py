"""What a task's process is told, and what of it is rejected (T3, T13)."""

import json
import os
import socket
from collections.abc import Iterator

import pytest

from trackside.worker.child.control_channel import ControlChannel, WorkerGoneError
from trackside.worker.child.control_states import ControlGuard, ControlState, Word, line, read, spoken

LOAD, TRAIN, EXIT = Word("LOAD"), Word("TRAIN", "cuda:0"), Word("EXIT")
NEXT, NONE = Word("NEXT", "", 1, {"x": 0.5}), Word("NEXT", "", 2)


def objections(*words: Word) -> list[str | None]:
    guard = ControlGuard()
    return [guard.objection(word) for word in words]


@pytest.mark.parametrize("word", [LOAD, TRAIN, EXIT, NEXT, NONE])
def test_t3_a_word_arrives_as_it_was_spoken(word: Word) -> None:
    assert read(spoken(word)) == word


@pytest.mark.parametrize("octets", [b"{}", b"[]", b"null", b'{"do": "DANCE"}', b"\xff", b'{"do": 1}'])
def test_t13_what_is_no_word_is_rejected_with_what_was_expected(octets: bytes) -> None:
    found = read(octets)
    assert isinstance(found, str) and "expected LOAD, TRAIN, EXIT or NEXT" in found


def test_load_then_train_then_exit_makes_sense() -> None:
    assert objections(LOAD, TRAIN, EXIT) == [None, None, None]


def test_t13_a_second_load_is_rejected_with_a_reason() -> None:
    assert objections(LOAD, LOAD)[1] == (
        "LOAD is rejected: the task has been told to load, and waits for its device"
    )
    assert objections(LOAD, TRAIN, LOAD)[2] == "LOAD is rejected: the task has been told to train"


def test_t13_a_second_train_is_rejected_with_a_reason() -> None:
    assert objections(LOAD, TRAIN, TRAIN)[2] == "TRAIN is rejected: the task has been told to train"


def test_t13_train_before_load_is_rejected_with_a_reason() -> None:
    assert objections(TRAIN)[0] == "TRAIN is rejected: the task has not been told to load"


def test_after_an_interrupt_it_may_be_told_to_train_again_once() -> None:
    guard = ControlGuard()
    assert (guard.objection(LOAD), guard.objection(TRAIN)) == (None, None)
    guard.interrupted()
    assert guard.objection(TRAIN) is None
    assert guard.objection(TRAIN) is not None


def test_d19_parameters_may_come_until_the_work_is_over() -> None:
    assert objections(LOAD, NEXT, TRAIN, NEXT, NONE) == [None] * 5
    assert objections(NEXT)[0] == "NEXT is rejected: the task has not been told to load"


@pytest.mark.parametrize("word", [LOAD, TRAIN, EXIT, NEXT])
def test_t13_nothing_is_obeyed_after_the_end(word: Word) -> None:
    guard = ControlGuard()
    guard.over()
    assert guard.objection(word) == f"{word.do} is rejected: the task has ended its work"


def test_an_interrupt_of_what_shall_exit_changes_nothing() -> None:
    guard = ControlGuard()
    for word in (LOAD, TRAIN, EXIT):
        guard.objection(word)
    guard.interrupted()
    assert guard.state is ControlState.LEAVING


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_the_assignment_and_what_follows_at_once_are_read_one_by_one(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    ours.sendall(line({"entry": "x:Y"}) + spoken(LOAD) + spoken(TRAIN))
    orders = ControlChannel(theirs)
    assert orders.assignment() == {"entry": "x:Y"}
    assert (orders.next(), orders.next()) == (LOAD, TRAIN)


def test_t13_what_was_said_during_a_training_is_turned_away_when_it_is_interrupted(
    ends: tuple[socket.socket, socket.socket], capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = ends
    orders = ControlChannel(theirs)
    ours.sendall(spoken(LOAD) + spoken(TRAIN))
    assert (orders.next(), orders.next()) == (LOAD, TRAIN)
    ours.sendall(spoken(TRAIN))
    orders.interrupted()
    assert capsys.readouterr().err == "trackside: TRAIN is rejected: the task has been told to train\n"
    ours.sendall(spoken(Word("TRAIN", "cpu")))
    assert orders.next().device == "cpu"


def test_locks_come_with_the_words_and_are_closed_by_an_interrupt(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    reading, writing = os.pipe()
    socket.send_fds(ours, [spoken(LOAD) + spoken(TRAIN)], [writing])
    os.close(writing)
    orders = ControlChannel(theirs)
    orders.next()
    assert len(orders.locks) == 1
    orders.interrupted()
    assert orders.locks == [] and os.read(reading, 1) == b""
    os.close(reading)


def test_a_channel_that_closes_says_that_the_worker_is_gone(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    ours.sendall(json.dumps({"half": "a line"}).encode())
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(WorkerGoneError):
        ControlChannel(theirs).assignment()
