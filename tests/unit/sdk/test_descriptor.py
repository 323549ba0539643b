"""A program's words through the descriptor that its worker gave it."""

import json
import os
from pathlib import Path

import pytest

from trackside.sdk.channel import ScreenChannel
from trackside.sdk.descriptor import DescriptorChannel, channel_of


def test_words_go_through_the_descriptor_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"lr": 0.1}')
    hears, tells = os.pipe()
    channel = channel_of(
        {"TRACKSIDE_METRICS_FD": str(tells), "TRACKSIDE_PARAMETERS_FILE": str(tmp_path / "p.json")}
    )
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


@pytest.mark.parametrize("descriptor", ["", "x", "-1", "99999"])
def test_without_a_descriptor_that_is_there_words_go_to_the_screen(descriptor: str) -> None:
    environment = {"TRACKSIDE_METRICS_FD": descriptor, "TRACKSIDE_PARAMETERS_FILE": "p.json"}
    assert isinstance(channel_of(environment), ScreenChannel)


def test_a_descriptor_that_means_something_else_by_now_is_left_alone(tmp_path: Path) -> None:
    with (tmp_path / "model.bin").open("wb") as file:
        environment = {"TRACKSIDE_METRICS_FD": str(file.fileno()), "TRACKSIDE_PARAMETERS_FILE": "p.json"}
        assert isinstance(channel_of(environment), ScreenChannel)


def test_d19_a_program_asks_for_other_parameters_and_reads_them(tmp_path: Path) -> None:
    (hears, tells), (reads, answers) = os.pipe(), os.pipe()
    environment = {
        "TRACKSIDE_METRICS_FD": str(tells),
        "TRACKSIDE_PARAMETERS_FILE": str(tmp_path / "p.json"),
        "TRACKSIDE_ANSWERS_FD": str(reads),
    }
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
