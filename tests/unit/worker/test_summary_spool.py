"""What a task and processes that it forks keep for the store, and when they wait or a store is given up."""

import asyncio
import hashlib
import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from trackside.eventlog.log import Appended
from trackside.sdk.in_task.channel import ReportedSummary
from trackside.worker.artifacts.store_messages import FIRST_RETRY_S, LAST_RETRY_S
from trackside.worker.artifacts.summary_uploads import StoreOutage
from trackside.worker.child.channel import summary_spool
from trackside.worker.child.channel.spool import Spool
from trackside.worker.child.channel.summary_spool import SummarySender, summaries_below, summary_file
from trackside.worker.child.channel.worker_channel import WorkerChannel
from trackside.worker.messages.report_messages import (
    StoredAnswer,
    StoredRequest,
    SummaryOmitted,
    SummaryValueReport,
)
from trackside.worker.reporting.summary_flow import MAX_UNAPPENDED_BATCHES, SummaryFlow

Sent = list[SummaryValueReport | SummaryOmitted | StoredRequest]


def image(data: bytes | None) -> ReportedSummary:
    return ReportedSummary("image", "a", 3, 1_700, 0, {"width": 2}, data, "image/png")


def sender_of(folder: Path) -> tuple[SummarySender, Sent]:
    sent: Sent = []
    sender = SummarySender(sent.append, Spool(folder / "spool", 1 << 30, {}))
    sender.answer = StoredAnswer
    return sender, sent


def test_bytes_are_in_a_file_that_the_message_names(tmp_path: Path) -> None:
    sender, sent = sender_of(tmp_path)
    sender.report(image(b"picture"))
    (report,) = sent
    assert isinstance(report, SummaryValueReport)
    assert report.sha256 == hashlib.sha256(b"picture").hexdigest() and report.size_bytes == 7
    assert summary_file(summaries_below(tmp_path / "spool"), report.file).read_bytes() == b"picture"
    assert report.body["sha256"] == report.sha256 and report.body["width"] == 2


def test_too_many_files_or_bytes_wait_for_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_spool, "MAX_UNSTORED_FILES", 3)
    sender, sent = sender_of(tmp_path)
    for _ in range(7):
        sender.report(image(b"x"))
    requests = [(place, each.request) for place, each in enumerate(sent) if isinstance(each, StoredRequest)]
    assert requests == [(3, 1), (7, 2)]
    monkeypatch.setattr(summary_spool, "MAX_UNSTORED_BYTES", 10)
    sender, sent = sender_of(tmp_path)
    for _ in range(3):
        sender.report(image(b"12345"))
    assert [isinstance(each, StoredRequest) for each in sent] == [False, False, True, False]


def test_a_task_that_has_to_exit_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_spool, "MAX_UNSTORED_FILES", 1)
    sender, sent = sender_of(tmp_path)
    sender.answer = lambda _: None
    sender.report(image(b"x"))
    sender.report(image(b"x"))
    assert sum(isinstance(each, SummaryValueReport) for each in sent) == 2


def test_a_file_of_the_task_is_moved_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_WORKDIR", str(tmp_path / "work"))
    (tmp_path / "work").mkdir()
    inside, outside = tmp_path / "work" / "a.png", tmp_path / "data.png"
    for path in (inside, outside):
        path.write_bytes(b"picture")
    link = tmp_path / "work" / "link.png"
    link.symlink_to(outside)
    sender, sent = sender_of(tmp_path)
    for path in (inside, outside, link):
        sender.report(image(None), path)
    assert [type(each) for each in sent] == [SummaryValueReport, SummaryValueReport, SummaryOmitted]
    assert (inside.exists(), outside.exists(), link.is_symlink()) == (False, True, True)


def test_what_is_large_or_has_no_room_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_spool, "MAX_FILE_BYTES", 3)
    sender, sent = sender_of(tmp_path)
    sender.report(image(b"1234"))
    SummarySender(sent.append, None).report(image(b"123"))
    assert [(each.code, each.reason) for each in sent if isinstance(each, SummaryOmitted)] == [
        ("bad_summary", "a: its bytes can't be kept: it has 4 B, more than 3 B"),
        ("store_missing", "a: the worker has no store; set TRACKSIDE_STORE for it"),
    ]


def full(is_stalled: Callable[[], bool] = lambda: False) -> tuple[SummaryFlow, Callable[[Appended], None]]:
    flow = SummaryFlow(is_stalled)
    appended = [flow.sent() for _ in range(MAX_UNAPPENDED_BATCHES)]
    assert flow.is_full
    return flow, appended[0]


async def test_a_full_flow_waits_until_a_batch_is_in_the_log_or_what_a_process_left_passes() -> None:
    flow, appended = full()
    waiting = asyncio.create_task(flow.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    appended(Appended(0, 0))
    await waiting
    assert not flow.is_full
    flow, _ = full()
    waiting = asyncio.create_task(flow.room())
    await asyncio.sleep(0)
    flow.release()
    await waiting


async def test_nothing_waits_for_a_log_that_does_not_answer_and_a_batch_that_is_dropped_is_counted() -> None:
    stalled = False
    flow, _ = full(lambda: stalled)
    stalled = True
    assert not flow.is_full
    await flow.room()
    flow, _ = full()
    flow.dropped(200)
    await flow.room()
    assert flow.left_out == 200


PROBLEM = {"code": "store_full", "message": "no room"}


def test_pauses_grow_up_to_their_limit_and_begin_again_after_a_success() -> None:
    outage, pauses = StoreOutage(60), []
    for at in range(10):
        assert outage.note(PROBLEM, float(at)) == (at == 0)
        pauses.append(outage.pause_s)
    assert pauses[:3] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S]
    assert pauses[-1] == LAST_RETRY_S
    outage.end()
    assert outage.note(PROBLEM, 20.0) and outage.pause_s == FIRST_RETRY_S


def test_a_store_is_given_up_after_its_limit_and_not_before_until_it_is_there_again() -> None:
    outage = StoreOutage(60)
    assert not outage.is_given_up(1_000.0)
    outage.note(PROBLEM, 100.0)
    assert not outage.is_given_up(159.9)
    outage.note(PROBLEM, 160.0)
    assert outage.is_given_up(160.0) and outage.retry_at_s > 160.0
    outage.end()
    assert not outage.is_given_up(161.0)


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
    channel.summary(image(b"of the parent"))
    for number in range(3):

        def report(number: int = number) -> None:
            channel.points(number, {"loaded": 0.5})
            channel.summary(image(b"of child %d" % number))

        assert forked(channel, report) == 0
    channel.summary(image(b"of the parent again"))
    channel.close()
    theirs.close()
    with ours, ours.makefile("rb") as lines:
        messages = [json.loads(line) for line in lines]
    assert [point[1] for each in messages for point in each.get("points", [])] == [0, 1, 2]
    files = [each["file"] for each in messages if "file" in each]
    found = Counter(summary_file(summaries_below(tmp_path), number).read_bytes() for number in files)
    children = (b"of child %d" % number for number in range(3))
    assert found == Counter([b"of the parent", *children, b"of the parent again"])


def test_a_forked_process_waits_for_its_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no answer for it: those are read by a thread of the parent."""
    monkeypatch.setattr(summary_spool, "MAX_UNSTORED_FILES", 2)
    monkeypatch.setattr(summary_spool, "FORK_WAIT_S", 0.05)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = WorkerChannel(theirs, {}, Spool(tmp_path, 1 << 30, {}))

        def report() -> None:
            for _ in range(5):
                channel.summary(image(b"x"))

        assert forked(channel, report) == 0
    assert len(list(summaries_below(tmp_path).iterdir())) == 5
