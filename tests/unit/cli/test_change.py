from typing import Any

import pytest

from trackside.cli.app import call
from trackside.cli.commands.change import assignments, seconds
from trackside.cli.runtime.failures import BadUsage
from trackside.sdk.trial_lists import past_trial


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), ("90", 90.0), ("10m", 600.0), ("1.5 h", 5_400.0), ("1d", 86_400.0), ("2s", 2.0)],
)
def test_a_time_is_read_as_nni_s_users_write_it(text: str, expected: float | None) -> None:
    assert seconds(text) == expected


def test_values_of_parameters_are_json_or_text_and_what_is_neither_or_no_time_is_bad_usage() -> None:
    found = assignments(["lr=0.01", "n=7", "opt=adam", 'layer={"_name": "conv"}', "path=a=b", "on=true"])
    assert found == {"lr": 0.01, "n": 7, "opt": "adam", "layer": {"_name": "conv"}, "path": "a=b", "on": True}
    with pytest.raises(BadUsage, match="expected NAME=VALUE"):
        assignments(["lr"])
    with pytest.raises(BadUsage, match="expected seconds, or a number with s, m, h or d"):
        seconds("soon")


@pytest.mark.parametrize(
    ("past", "value"),
    [
        ({"parameters": {"x": 1}, "value": 0.5}, 0.5),
        ({"parameter": {"x": 1}, "value": 0.5, "trialJobId": "a"}, 0.5),
        ({"parameter": {"x": 1}, "value": "0.5"}, 0.5),
        ({"parameter": {"x": 1}, "value": '{"default": 0.5, "loss": 3}'}, 0.5),
        ({"parameter": {"x": 1}, "value": {"default": 0.5}}, 0.5),
    ],
)
def test_nni_s_exported_trials_are_read(past: dict[str, Any], value: float) -> None:
    assert past_trial(past) == {"parameters": {"x": 1}, "value": value}


@pytest.mark.parametrize(
    "typed",
    ["pause", "resume", "update --goal 1", "request-trials 1", "add-trial x=1", "stop-trial 1", "stop"],
)
def test_d29_an_imported_search_can_be_looked_at_and_not_changed(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *rest = typed.split()
    assert call([verb, "imported/digits-1", *rest]) == 2
    said = capsys.readouterr().err
    assert "is read-only" in said and "trackside replay fork imported/digits-1" in said
