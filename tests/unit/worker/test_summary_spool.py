"""What a task process keeps for the store, and when it waits for it."""

import hashlib
from pathlib import Path

import pytest

from trackside.sdk.channel import ReportedSummary
from trackside.worker.child import summary_spool
from trackside.worker.child.spool import Spool
from trackside.worker.child.summary_spool import SummarySender, summaries_below, summary_file
from trackside.worker.report_messages import StoredAnswer, StoredRequest, SummaryOmitted, SummaryValueReport

Sent = list[SummaryValueReport | SummaryOmitted | StoredRequest]


def image(data: bytes | None) -> ReportedSummary:
    return ReportedSummary("image", "a", 3, 1_700, 0, {"width": 2}, data, "image/png")


def sender_of(folder: Path, sent: Sent) -> SummarySender:
    sender = SummarySender(sent.append, Spool(folder / "spool", 1 << 30, {}))
    sender.answer = StoredAnswer
    return sender


def test_bytes_are_in_a_file_that_the_message_names(tmp_path: Path) -> None:
    sent: Sent = []
    sender_of(tmp_path, sent).report(image(b"picture"))
    (report,) = sent
    assert isinstance(report, SummaryValueReport)
    assert report.sha256 == hashlib.sha256(b"picture").hexdigest() and report.size_bytes == 7
    assert summary_file(summaries_below(tmp_path / "spool"), report.file).read_bytes() == b"picture"
    assert report.body["sha256"] == report.sha256 and report.body["width"] == 2


def test_a_task_with_too_many_files_waits_for_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary_spool, "MAX_UNSTORED_FILES", 3)
    sent: Sent = []
    sender = sender_of(tmp_path, sent)
    for _ in range(7):
        sender.report(image(b"x"))
    requests = [(place, each.request) for place, each in enumerate(sent) if isinstance(each, StoredRequest)]
    assert requests == [(3, 1), (7, 2)]


def test_a_task_with_too_many_bytes_waits_for_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary_spool, "MAX_UNSTORED_BYTES", 10)
    sent: Sent = []
    sender = sender_of(tmp_path, sent)
    for _ in range(3):
        sender.report(image(b"12345"))
    assert [isinstance(each, StoredRequest) for each in sent] == [False, False, True, False]


def test_a_task_that_has_to_exit_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_spool, "MAX_UNSTORED_FILES", 1)
    sent: Sent = []
    sender = sender_of(tmp_path, sent)
    sender.answer = lambda _: None
    sender.report(image(b"x"))
    sender.report(image(b"x"))
    assert sum(isinstance(each, SummaryValueReport) for each in sent) == 2


def test_a_file_of_the_task_is_moved_and_another_one_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_WORKDIR", str(tmp_path / "work"))
    (tmp_path / "work").mkdir()
    inside, outside = tmp_path / "work" / "a.png", tmp_path / "data.png"
    for path in (inside, outside):
        path.write_bytes(b"picture")
    link = tmp_path / "work" / "link.png"
    link.symlink_to(outside)
    sent: Sent = []
    sender = sender_of(tmp_path, sent)
    for path in (inside, outside, link):
        sender.report(image(None), path)
    assert [type(each) for each in sent] == [SummaryValueReport, SummaryValueReport, SummaryOmitted]
    assert (inside.exists(), outside.exists(), link.is_symlink()) == (False, True, True)


def test_what_is_too_large_or_has_no_room_is_left_out_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary_spool, "MAX_FILE_BYTES", 3)
    sent: Sent = []
    sender_of(tmp_path, sent).report(image(b"1234"))
    SummarySender(sent.append, None).report(image(b"123"))
    assert [(each.code, each.reason) for each in sent if isinstance(each, SummaryOmitted)] == [
        ("bad_summary", "a: its bytes can't be kept: it has 4 B, more than 3 B"),
        ("store_missing", "a: the worker has no store; set TRACKSIDE_STORE for it"),
    ]
