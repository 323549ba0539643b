"""What processes report that a task forks, such as those that load its data."""

import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from trackside.sdk.channel import ReportedSummary
from trackside.worker.child import summary_spool
from trackside.worker.child.spool import Spool
from trackside.worker.child.summary_spool import summaries_below, summary_file
from trackside.worker.child.worker_channel import WorkerChannel


def picture(data: bytes) -> ReportedSummary:
    return ReportedSummary("image", "seen", 0, 0, 0, {}, data, "image/png")


def forked(channel: WorkerChannel, report: Callable[[], None]) -> int:
    """Reports in a child, while another thread of the parent could have the locks; returns its exit code."""
    with channel._lock, channel.summaries._taking:
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        report()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_processes_that_a_task_forks_report_each_value_once_and_overwrite_no_picture(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    channel = WorkerChannel(theirs, {}, Spool(tmp_path, 1 << 30, {}))
    channel.summary(picture(b"of the parent"))
    for number in range(3):

        def report(number: int = number) -> None:
            channel.points(number, {"loaded": 0.5})
            channel.summary(picture(b"of child %d" % number))

        assert forked(channel, report) == 0
    channel.summary(picture(b"of the parent again"))
    channel.close()
    theirs.close()
    with ours, ours.makefile("rb") as lines:
        messages = [json.loads(line) for line in lines]
    assert [point[1] for each in messages for point in each.get("points", [])] == [0, 1, 2]
    files = [each["file"] for each in messages if "file" in each]
    found = Counter(summary_file(summaries_below(tmp_path), number).read_bytes() for number in files)
    assert found == Counter(
        [b"of the parent", b"of child 0", b"of child 1", b"of child 2", b"of the parent again"]
    )


def test_a_process_that_a_task_forks_waits_until_its_pictures_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no answer for it: those are read by a thread of the parent."""
    monkeypatch.setattr(summary_spool, "MAX_UNSTORED_FILES", 2)
    monkeypatch.setattr(summary_spool, "FORK_WAIT_S", 0.05)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = WorkerChannel(theirs, {}, Spool(tmp_path, 1 << 30, {}))

        def report() -> None:
            for _ in range(5):
                channel.summary(picture(b"x"))

        assert forked(channel, report) == 0
    assert len(list(summaries_below(tmp_path).iterdir())) == 5
