"""T21: how often mails go out, and what is in one."""

from datetime import UTC, datetime

from trackside.cli.commands.mail import Letterbox, Post, letter
from trackside.cli.render.report import Failed, Finished, Report, Section


def report(stream_id: str = "compare-1") -> Report:
    section = Section("warm-up", "DONE", ["value"])
    section.finished.append(Finished("compare-1.1.a", "a", {"value": 0.5}, 1, 2, 1))
    section.failed.append(Failed("compare-1.1.b", "b", "oom_device", "TRAIN", "CUDA out of <memory>", 3))
    began = datetime(2026, 1, 31, 12, tzinfo=UTC)
    return Report("batch", stream_id, "compare\r\nBcc: all@example.org", "DONE", began, began, [section])


def test_t21_what_ends_soon_after_a_mail_goes_with_the_next_one() -> None:
    box = Letterbox(min_interval_s=3_600, left=10)
    assert box.due_in_s(0.0) is None
    box.put("a", 1)
    assert box.due_in_s(0.0) == 0.0
    assert box.take(0.0) == {"a": 1}
    box.put("b", 7)
    box.put("c", 1)
    box.put("b", 9)
    assert box.due_in_s(600.0) == 3_000.0
    assert box.due_in_s(3_600.0) == 0.0
    assert box.take(3_600.0) == {"b": 9, "c": 1}


def test_t21_after_so_many_mails_there_are_no_more() -> None:
    box = Letterbox(min_interval_s=0, left=2)
    for number in range(2):
        box.put(str(number), number)
        box.take(0.0)
    box.put("more", 1)
    assert box.due_in_s(10.0) is None


def test_what_could_not_be_sent_goes_with_the_next_mail() -> None:
    box = Letterbox(min_interval_s=60, left=1)
    box.put("a", 3)
    taken = box.take(0.0)
    box.put("b", 4)
    box.put_back(taken)
    assert box.left == 1
    assert box.due_in_s(60.0) == 0.0
    assert box.take(60.0) == {"a": 3, "b": 4}


def test_t22_a_mail_says_what_failed_and_carries_each_report_whole() -> None:
    post = Post("localhost", 25, "trackside@localhost", ("a@example.org", "b@example.org"))
    message = letter(post, [report(), report("other-1")], left=0)
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
