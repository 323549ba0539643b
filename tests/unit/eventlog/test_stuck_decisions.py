"""What a process keeps for the next one about decisions that took too long."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from trackside.eventlog.reactor.stuck_decisions import StuckDecisions

COUNTS = "dispatcher-1.stuck.json"


@contextmanager
def process(folder: Path, release: str = "1.0") -> Iterator[StuckDecisions]:
    with closing(StuckDecisions(folder, "dispatcher-1", release, limit_s=0.05)) as stuck:
        yield stuck


def end_in_a_decision(folder: Path, stream: str, *, killed: bool = False) -> int:
    """Lets a process end while it decides about a stream; returns the signal that ended it."""
    pid = os.fork()
    if not pid:
        with process(folder) as stuck:
            stuck.begin(stream)
            while not killed:
                pass
            os.kill(os.getpid(), signal.SIGKILL)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


def test_a_stream_is_given_up_after_two_ends_in_its_decision(tmp_path: Path) -> None:
    for times in (1, 2):
        assert end_in_a_decision(tmp_path, "a") == signal.SIGPROF
        with process(tmp_path) as stuck:
            assert (stuck.ended_for, stuck.by_stream["a"].times) == ("a", times)
            assert stuck.has_given_up("a") is (times == 2)
    with process(tmp_path) as stuck:
        assert (stuck.ended_for, stuck.has_given_up("a"), stuck.has_given_up("b")) == (None, True, False)
        stuck.refused("a")
        assert not stuck.has_given_up("a")
    with process(tmp_path) as stuck:
        assert stuck.by_stream == {}


def test_a_decision_that_is_made_drops_the_count(tmp_path: Path) -> None:
    end_in_a_decision(tmp_path, "a")
    with process(tmp_path) as stuck:
        stuck.begin("a")
        stuck.end("a")
    assert end_in_a_decision(tmp_path, "a") == signal.SIGPROF
    with process(tmp_path) as stuck:
        assert not stuck.has_given_up("a")


def test_a_process_that_is_killed_in_a_decision_counts_nothing(tmp_path: Path) -> None:
    for _ in range(3):
        assert end_in_a_decision(tmp_path, "a", killed=True) == signal.SIGKILL
    with process(tmp_path) as stuck:
        assert (stuck.ended_for, stuck.by_stream) == (None, {})


def test_a_stream_without_a_command_stays_given_up_until_another_release(tmp_path: Path) -> None:
    for _ in range(2):
        end_in_a_decision(tmp_path, "a")
    with process(tmp_path) as stuck:
        stuck.leave("a")
        stuck.refused("a")
        assert stuck.has_given_up("a")
    with process(tmp_path, "1.1") as stuck:
        assert stuck.by_stream == {}


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"release": "1.0", "streams": {"a": {"x": 1}}})])
def test_a_file_that_was_cut_off_counts_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / COUNTS).write_text(text)
    with process(tmp_path) as stuck:
        assert stuck.by_stream == {}
