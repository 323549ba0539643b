"""A program's words through the descriptor that its worker gave it."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.small_disk import small_disk
from trackside.sdk.in_task.channel import ReportedSummary, ScreenChannel
from trackside.sdk.in_task.descriptor import DescriptorChannel, channel_of


def test_words_go_through_the_descriptor_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"lr": 0.1}')
    hears, tells = os.pipe()
    words = {"TRACKSIDE_METRICS_FD": str(tells), "TRACKSIDE_PARAMETERS_FILE": str(tmp_path / "p.json")}
    channel = channel_of(words)
    assert isinstance(channel, DescriptorChannel)
    assert channel.parameters() == {"lr": 0.1}
    channel.points(3, {"loss": float("nan"), "rate": 0.5})
    channel.report(4, 0.25, {})
    channel.report(5, 0.5, {"loss": float("inf")})
    channel.final(None, {"f1": 0.75, "loss": 0.5})
    os.close(tells)
    with os.fdopen(hears) as lines:
        assert [json.loads(line) for line in lines] == [
            {"metric": "loss", "value": "nan", "step": 3},
            {"metric": "rate", "value": 0.5, "step": 3},
            {"report": 0.25, "step": 4},
            {"report": {"default": 0.5, "loss": "inf"}, "step": 5},
            {"final": {"f1": 0.75, "loss": 0.5}},
        ]


def test_without_a_descriptor_that_is_there_and_its_own_words_go_to_the_screen(tmp_path: Path) -> None:
    with (tmp_path / "model.bin").open("wb") as file:
        for descriptor in ("", "x", "-1", "99999", str(file.fileno())):
            environment = {"TRACKSIDE_METRICS_FD": descriptor, "TRACKSIDE_PARAMETERS_FILE": "p.json"}
            assert isinstance(channel_of(environment), ScreenChannel)


def test_d19_a_program_asks_for_other_parameters_and_reads_them(tmp_path: Path) -> None:
    (hears, tells), (reads, answers) = os.pipe(), os.pipe()
    environment = {"TRACKSIDE_METRICS_FD": str(tells), "TRACKSIDE_ANSWERS_FD": str(reads)}
    environment["TRACKSIDE_PARAMETERS_FILE"] = str(tmp_path / "p.json")
    channel = channel_of(environment)
    os.write(answers, b'{"parameters": {"lr": 0.5}}\n')
    assert channel.next_parameters() == {"lr": 0.5}
    os.write(answers, b'{"parameters": null}\n')
    assert channel.next_parameters() is None
    os.write(answers, b'{"problem": "$.lr: expected a number"}\n')
    with pytest.raises(ValueError, match="expected a number"):
        channel.next_parameters()
    assert os.read(hears, 100) == b'{"next": true}\n' * 3
    environment.pop("TRACKSIDE_ANSWERS_FD")
    assert channel_of(environment).next_parameters() is None
    for descriptor in (hears, tells, reads, answers):
        os.close(descriptor)


def test_processes_that_a_program_forks_write_whole_lines_and_wait_for_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are read from one pipe: a child would take that of its parent, which then waits for ever."""
    (tmp_path / "p.json").write_text("{}")
    (hears, tells), (reads, answers) = os.pipe(), os.pipe()
    channel = DescriptorChannel(tells, tmp_path / "p.json", reads)
    text = ReportedSummary("text", "notes", 0, 0, 0, {"value": "x" * 30_000})
    image = ReportedSummary("image", "seen", 0, 0, 0, {}, b"picture", "image/png")
    monkeypatch.setenv("TRACKSIDE_WORKDIR", str(tmp_path))
    children = [_child_that_reports(channel, [text, image, text, image]) for _ in range(3)]
    os.close(tells)
    with os.fdopen(hears) as lines:
        found = [json.loads(line)["summary"] for line in lines]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert sorted(each["kind"] for each in found) == ["image"] * 6 + ["text"] * 6
    assert not any("answer" in each for each in found)
    os.close(reads)
    os.close(answers)


def _child_that_reports(channel: DescriptorChannel, values: list[ReportedSummary]) -> int:
    """Reports values in a child, while another thread of the parent has the locks; returns its id."""
    with channel._writing, channel._asking:
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        for value in values:
            channel.summary(value)
        os._exit(0)
    return child


def test_a_full_disk_ends_no_training_with_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hears, tells = os.pipe()
    channel = DescriptorChannel(tells, tmp_path / "p.json")
    with small_disk(tmp_path / "disk", "2m") as disk:
        monkeypatch.setenv("TRACKSIDE_WORKDIR", str(disk.folder))
        disk.fill()
        channel.summary(ReportedSummary("image", "seen", 0, 0, 0, {}, b"x" * 100_000, "image/png"))
        assert [path.name for path in disk.folder.iterdir()] == ["filler"], "nothing takes more of it"
    os.close(tells)
    with os.fdopen(hears) as lines:
        (said,) = [json.loads(line)["summary"] for line in lines]
    assert (said["code"], said["problem"]) == ("spool_full", "No space left on device")
