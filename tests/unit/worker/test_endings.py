"""How an attempt ended, from what its process left."""

import math
from pathlib import Path
from typing import Any

import pytest

from trackside.contracts.tasks import AttemptEnd, TaskStatus
from trackside.worker.endings import Why, judged, recovered
from trackside.worker.phases import UnreportableError, described, reportable
from trackside.worker.words import REDACTED, cut, printable, redact

FINISHED = {"end": "finished", "result": {"x": 1}, "load_time_ms": 1, "train_time_ms": 2, "reports": []}
FAILED = {"end": "failed", "error": {"stage": "TRAIN", "type": "E", "message": ""}}


@pytest.mark.parametrize(
    ("written", "code", "why", "end"),
    [
        (FINISHED, 0, None, AttemptEnd.FINISHED),
        (FINISHED, -9, Why.STOPPED, AttemptEnd.FINISHED),
        (FINISHED, None, Why.LEAVING, AttemptEnd.FINISHED),
        (FAILED, 0, None, AttemptEnd.FAILED),
        (FAILED, 0, Why.STOPPED, AttemptEnd.CANCELLED),
        (FAILED, 0, Why.LEAVING, AttemptEnd.LOST),
        (None, -15, Why.STOPPED, AttemptEnd.CANCELLED),
        (None, -15, Why.LEAVING, AttemptEnd.LOST),
        (None, None, None, AttemptEnd.LOST),
        (None, -9, None, AttemptEnd.FAILED),
        (None, 0, None, AttemptEnd.FAILED),
    ],
)
def test_what_was_written_counts_then_why_it_was_ended_then_how_it_died(
    written: dict[str, Any] | None, code: int | None, why: Why | None, end: AttemptEnd
) -> None:
    assert judged(written, code, why, TaskStatus.TRAINING)["end"] == end


@pytest.mark.parametrize(
    ("phase", "stage"),
    [
        (TaskStatus.INIT, "START"),
        (TaskStatus.AVAILABLE, "START"),
        (TaskStatus.LOADING, "LOAD"),
        (TaskStatus.WAITING, "TRAIN"),
        (TaskStatus.TRAINING, "TRAIN"),
    ],
)
def test_a_silent_death_names_the_stage_and_the_signal(phase: TaskStatus, stage: str) -> None:
    error = judged(None, -11, None, phase)["error"]
    assert (error.stage, "SIGSEGV" in error.message) == (stage, True)


def test_what_an_earlier_incarnation_left_is_told_as_recovered() -> None:
    assert recovered(None) == {"end": AttemptEnd.LOST, "recovered": True}
    told = recovered(FINISHED)
    assert told["recovered"] and told["result"] == {"x": 1} and "reports" not in told


class Number:
    """Looks as a number of numpy or torch does."""

    ndim = 0

    def item(self) -> float:
        return 0.5


def test_a_result_becomes_plain_json() -> None:
    found = reportable({"a": Number(), "b": (1, True, None), 3: {"c": "\ud800\x00"}, "d": math.nan})
    assert found == {"a": 0.5, "b": [1, True, None], "3": {"c": "?\\0"}, "d": None}


def test_a_result_that_is_no_dict_becomes_an_empty_one() -> None:
    assert reportable(None) == {}
    assert reportable([1, 2]) == {}


def nested(depth: int) -> dict[str, Any]:
    return {} if depth == 0 else {"a": nested(depth - 1)}


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"a": [object()]}, r"\$\.a\[0\]: object is not JSON"),
        ({"a": "x" * 70_000}, "more than 65536"),
        (nested(40), "nested deeper than 32"),
        ({"a": 2**70}, "2\\^63"),
        ({(1, 2): 3}, "a key is tuple"),
    ],
)
def test_a_result_that_cannot_be_kept_says_why(result: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnreportableError, match=reason):
        reportable(result)


def test_a_traceback_is_cut_at_its_front_and_says_nothing_secret() -> None:
    error = described("TRAIN", ValueError("password=hunter2 " + "é" * 60_000))
    assert len(error["traceback"].encode()) <= 65_536
    assert error["traceback"].startswith("[cut]") and error["traceback"].endswith("é\n")
    assert error["message"].startswith(f"password={REDACTED}")


@pytest.mark.parametrize(
    "secret", ["AKIA" + "A" * 16, "ghp_" + "a" * 36, "token: abc", "postgres://me:pw1234@host/db"]
)
def test_secrets_are_hidden(secret: str) -> None:
    assert REDACTED in redact(f"before {secret} after")


def test_ordinary_lines_are_left_alone() -> None:
    line = "epoch 3: loss=0.12 tokens/s 1200 at " + str(Path("a") / "b")
    assert redact(line) == line
    assert cut(line, 1_000) == line
    assert printable("naïve") == "naïve"
