"""T21: how often mails go out, and what is in one."""

from datetime import UTC, datetime

from trackside.cli.commands.mail import Mailer, MailQueue, compose
from trackside.cli.render.report import StreamReport
from trackside.domain.display.report import FailedTask, FinishedTask, ReportSection
from trackside.domain.display.text import Column, TextTable
from trackside.domain.display.view import Page


def report(stream_id: str = "compare-1") -> StreamReport:
    section = ReportSection("warm-up", "DONE", ["value"])
    section.finished.append(FinishedTask("compare-1.1.a", "a", {"value": 0.5}, 1, 2, 1))
    section.failed.append(FailedTask("compare-1.1.b", "b", "oom_device", "TRAIN", "CUDA out of <memory>", 3))
    began = datetime(2026, 1, 31, 12, tzinfo=UTC)
    name = "compare\r\nBcc: all@example.org"
    return StreamReport("batch", stream_id, name, "DONE", began, began, [section])


def test_t21_mails_go_out_seldom_and_only_so_many_and_what_was_not_sent_goes_with_the_next_one() -> None:
    queue = MailQueue(min_interval_s=3_600, left=10)
    assert queue.due_in_s(0.0) is None
    queue.put("a", 1)
    assert queue.due_in_s(0.0) == 0.0
    assert queue.take(0.0) == {"a": 1}
    queue.put("b", 7)
    queue.put("c", 1)
    queue.put("b", 9)
    assert queue.due_in_s(600.0) == 3_000.0
    assert queue.due_in_s(3_600.0) == 0.0
    assert queue.take(3_600.0) == {"b": 9, "c": 1}
    queue = MailQueue(min_interval_s=0, left=2)
    for number in range(2):
        queue.put(str(number), number)
        queue.take(0.0)
    queue.put("more", 1)
    assert queue.due_in_s(10.0) is None
    queue = MailQueue(min_interval_s=60, left=1)
    queue.put("a", 3)
    taken = queue.take(0.0)
    queue.put("b", 4)
    queue.put_back(taken)
    assert queue.left == 1
    assert queue.due_in_s(60.0) == 0.0
    assert queue.take(60.0) == {"a": 3, "b": 4}


def test_t22_a_mail_says_what_failed_and_carries_each_report_whole() -> None:
    mailer = Mailer("localhost", 25, "trackside@localhost", ("a@example.org", "b@example.org"))
    message = compose(mailer, [report(), report("other-1")], left=0)
    assert message["Subject"] == "Trackside: batch compare-1: DONE, batch other-1: DONE"
    assert message["To"] == "a@example.org, b@example.org"
    assert message["Bcc"] is None
    body = message.get_body(("plain",))
    assert body is not None
    text = body.get_content()
    assert "b: oom_device CUDA out of <memory>" in text
    assert "the last mail of this run" in text
    pages = {str(part.get_filename()): part.get_content() for part in message.iter_attachments()}
    assert sorted(pages) == ["compare-1.html", "other-1.html"]
    assert "CUDA out of &lt;memory&gt;" in pages["compare-1.html"]


def test_the_mail_of_a_run_has_its_facts_and_its_page_a_picture_with_escaped_texts() -> None:
    """P27: what failed and why is in the text of the mail, the picture in the attached page."""
    found = report("nightly-1")
    facts = [("failed", "train failed (TRAIN: ValueError: <b> no rows)")]
    found.page = Page(facts, [TextTable([Column("step")], [["<i>"]])])
    node = {"name": "train", "what": "<fit>", "state": "failed", "color": "red", "needs": [], "took_s": 1.0}
    found.picture = [node]
    message = compose(Mailer("localhost", 25, "a@example.org", ("b@example.org",)), [found], 1)
    text = message.get_body(("plain",))
    assert text is not None
    assert "  failed: train failed (TRAIN: ValueError: <b> no rows)" in text.get_content().splitlines()
    [attached] = message.iter_attachments()
    page = attached.get_content()
    assert "<svg" in page and ">train</" in page and "&lt;fit&gt;" in page and "&lt;i&gt;" in page
    assert "<thead><tr>\n</tr>" not in page
    assert "<b>" not in page and "<fit>" not in page
