"""What a watcher says comes from outside: any JSON is taken in, stops the dataset visibly, or is left."""

import json
from random import Random
from typing import Any

import pytest

from tests.unit.aggregates.dataset.given import DatasetLog, digest, end_of, stopped_with, watched
from tests.unit.aggregates.given import the
from trackside.aggregates.dataset import messages
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.tasks.instructions import InstructionGiven
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested

ODD: list[Any] = [None, True, 0, -1, 2**70, 1.5, "", "5", "\x00", [], [1], {}, {"lines": 1}, float("nan")]


def decided(log: DatasetLog, **detail: Any) -> list[Event]:
    return [event for event in log.say(**detail) if not isinstance(event, TaskStopRequested)]


@pytest.mark.parametrize(
    "end",
    [
        *ODD,
        end_of(5),
        end_of(4),
        end_of(7, size=50),
        end_of(7, size=51),
        end_of(7, sha256="abc"),
        end_of(7, sha256=digest(7).upper() + "A"),
        end_of(7, size="70"),
        end_of(7, more=1),
        end_of(7) | {"lines": True},
        end_of(2**60),
    ],
)
def test_an_end_that_cannot_be_read_or_is_none_leaves_the_dataset_as_it_is(end: Any) -> None:
    log = watched(5)
    before = repr(log.dataset.end)
    assert decided(log, end=end) == []
    assert (repr(log.dataset.end), log.dataset.status) == (before, messages.DatasetStatus.ACTIVE)
    the(messages.DatasetObserved, decided(log, end=end_of(6)))


def test_a_dataset_that_is_not_as_it_was_or_has_a_bad_sample_is_stopped() -> None:
    """I15: Sedna ignores a file that is shorter until it is longer again."""
    for problem, kind, expected, reason in (
        (
            {"code": "truncated", "message": "shorter", "size": 40},
            messages.DatasetTruncated,
            {"observed_bytes": 50, "size_bytes": 40},
            "it has 40 bytes, 50 were observed",
        ),
        (
            {"code": "changed", "sha256": digest(9)},
            messages.DatasetChanged,
            {"observed_sha256": digest(5), "sha256": digest(9)},
            "its first 50 bytes are other ones than were observed",
        ),
        (
            {"code": "line_too_long", "message": "over 1 MiB", "line": 5},
            *(messages.DatasetRefused, {}, "line_too_long at sample 5: over 1 MiB"),
        ),
    ):
        log = watched(5)
        event = the(kind, decided(log, problem=problem))
        assert {name: getattr(event, name) for name in expected} == expected
        status = kind.__name__.removeprefix("Dataset").upper()
        assert (log.dataset.status, log.dataset.reason) == (messages.DatasetStatus(status), reason)
        assert log.watcher.stop_reason == "user"


def test_the_samples_before_a_problem_are_observed_first_and_it_counts_of_any_watcher() -> None:
    log = watched(5)
    first, second = decided(log, end=end_of(7), problem={"code": "bad_line", "line": 7})
    assert isinstance(first, messages.DatasetObserved) and first.end == 7
    assert isinstance(second, messages.DatasetRefused) and second.line == 7
    log = watched(5)
    log.lose()
    log.place()
    log.say()
    log.acknowledge(ok=False)  # it has not found what was observed
    event = the(messages.DatasetTruncated, decided(log, problem={"code": "truncated", "size": 10}))
    assert event.attempt == 2


@pytest.mark.parametrize(
    ("problem", "code", "line"),
    [
        ({}, "unreadable_report", None),
        ("no such file", "unreadable_report", None),
        ([1], "unreadable_report", None),
        ({"code": "no such code", "line": -1}, "unreadable_report", None),
        ({"code": 5, "line": True}, "unreadable_report", None),
        ({"code": "truncated"}, "truncated", None),
        ({"code": "truncated", "size": 50}, "truncated", None),
        ({"code": "truncated", "size": "1"}, "truncated", None),
        ({"code": "bad_line", "line": 2**70}, "bad_line", None),
        ({"code": "bad_line", "line": 0, "message": {"a": 1}}, "bad_line", 0),
    ],
)
def test_an_unreadable_problem_stops_the_intake_with_what_can(problem: Any, code: str, line: Any) -> None:
    log = watched(5)
    event = the(messages.DatasetRefused, decided(log, problem=problem))
    assert (event.code, event.line) == (code, line)
    assert log.dataset.status is messages.DatasetStatus.REFUSED


def test_a_long_message_is_cut_and_another_digest_than_one_is_left_out() -> None:
    log = watched(5)
    event = the(messages.DatasetRefused, decided(log, problem={"code": "bad_line", "message": "x" * 5_000}))
    assert len(event.message) == 1_000
    changed = the(messages.DatasetChanged, decided(watched(5), problem={"code": "changed", "sha256": "zz"}))
    assert changed.sha256 == ""


def test_what_is_repaired_is_compared_again_before_more_is_observed() -> None:
    """A resumed dataset stops again as long as its old bytes are missing; nothing is taken over."""
    log = stopped_with(code="truncated", size=40)
    log.do(messages.ResumeDataset)
    log.lose(AttemptEnd.CANCELLED)
    log.settle()
    log.place()
    given = the(InstructionGiven, log.say())
    assert given.body["end"] == end_of(5)
    log.acknowledge(ok=False)
    event = the(messages.DatasetTruncated, decided(log, problem={"code": "truncated", "size": 40}))
    assert (event.stop, event.watcher) == (2, 2)


def test_metrics_come_with_what_is_observed_and_odd_ones_are_left_out() -> None:
    said: Json = {"drift": 0.25, "n": 3, "loss": "nan", "a b": 1.0, "text": "x", "yes": True, "none": None}
    log = watched(5)
    event = the(messages.DatasetObserved, decided(log, end=end_of(6), metrics=said))
    assert event.metrics == log.dataset.metrics == {"drift": 0.25, "n": 3.0, "loss": "nan"}
    many = {f"m{number}": number for number in range(50)}
    event = the(messages.DatasetObserved, decided(log, end=end_of(7), metrics=many))
    assert len(event.metrics) == messages.MAX_METRICS
    huge = {"huge": 10**400, "small": -(10**400), "inf": float("inf"), "nan": float("nan")}
    event = the(messages.DatasetObserved, decided(log, end=end_of(8), metrics=huge))
    assert event.metrics == {"huge": "inf", "small": "-inf", "inf": "inf", "nan": "nan"}
    for odd in ODD:
        event = the(
            messages.DatasetObserved, decided(log, end=end_of(log.dataset.end.lines + 1), metrics=odd)
        )
        json.dumps(event.model_dump(mode="json"), allow_nan=False)


@pytest.mark.thorough
def test_whatever_a_watcher_says_is_decided_once_and_counts(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        log = watched(5)
        for _ in range(4):
            if not log.dataset.served:
                break
            log.say(
                **{name: _drawn(random, 3) for name in ("end", "problem", "metrics") if random.random() < 0.5}
            )


def _drawn(random: Random, depth: int) -> Any:
    whole: list[Json] = [end_of(random.randint(0, 9)), {"code": "truncated", "size": random.randint(0, 60)}]
    whole.append({"code": "changed", "sha256": digest(3)})
    if random.random() < 0.3 or not depth:
        return random.choice(ODD)
    found = random.choice(whole)
    if random.random() < 0.6:
        found[random.choice(["lines", "size", "sha256", "code", "line", "message"])] = _drawn(
            random, depth - 1
        )
    return found
