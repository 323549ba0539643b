"""What Sedna does with triggers and samples, and what is done here: each row of docs/sedna-rules.md.

The results of Sedna are those of its trigger package and of its loop over new samples, run with these inputs
at commit 2c30e569.
"""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tests.house.source import ROOT
from tests.unit.aggregates.rounds.given import JobLog
from tests.unit.aggregates.rounds.test_trigger_times import at
from trackside.aggregates.rounds.job.job_spec import JobDataset, StageSpec
from trackside.aggregates.rounds.job.split import added, count, samples, share_of
from trackside.aggregates.rounds.messages import RoundStarted, SampleManifestWritten
from trackside.aggregates.rounds.stages.triggers import Known, holds, problems, seen
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import field_names, problems_of

PAGE = ROOT / "docs" / "sedna-rules.md"
YES, NO = "holds", "does not hold"


def refusal(kind: type[BaseModel], body: Json) -> str:
    try:
        kind.model_validate(body)
    except ValidationError as error:
        return ", ".join(problem.code for problem in problems_of(error, field_names(kind), body))
    return ""


def trigger(given: Json | None, metrics: dict[str, Any] | None = None, now: str = "") -> Callable[[], str]:
    def found() -> str:
        body: Json = {} if given is None else {"trigger": given}
        if codes := refusal(StageSpec, body):
            return f"refused: {codes}"
        parsed = StageSpec.model_validate(body).trigger
        if codes := ", ".join(problem.code for problem in problems(parsed, "$.trigger")):
            return f"refused: {codes}"
        now_ms = at(f"{now if 'T' in now else '2026-06-01T' + (now or '12:00')}+00:00")
        known = Known(metrics or {})
        if holds(parsed, known, now_ms):
            return YES
        reasons = [each.reason for each in seen(parsed, known, now_ms).values() if each.reason]
        return ": ".join([NO, *reasons])

    return found


def condition(metric: str, operator: str, threshold: Any, value: Any = 500) -> Callable[[], str]:
    given = {"type": "condition", "metric": metric, "operator": operator, "threshold": threshold}
    return trigger(given, {"m": value})


def daily(start: str, end: str, now: str, timezone: str = "UTC") -> Callable[[], str]:
    return trigger({"type": "daily", "start": start, "end": end, "timezone": timezone}, now=now)


def divided(train_prob: float, arriving: int, times: int = 1) -> Callable[[], str]:
    def found() -> str:
        if codes := refusal(JobDataset, {"name": "feed", "train_prob": train_prob}):
            return f"refused: {codes}"
        share, train, evaluation = share_of(train_prob), 0, 0
        for begin in range(0, arriving * times, arriving):
            segments = added([], 0, share)
            train += count(segments, begin, begin + arriving, "train")
            evaluation += count(segments, begin, begin + arriving, "eval")
        return f"{train} and {evaluation}"

    return found


def evaluated_of_ten() -> str:
    return ", ".join(map(str, samples(added([], 0, share_of(0.8)), 0, 10, "eval")))


def rounds_of(*arriving: int) -> JobLog:
    log = JobLog()
    log.create()
    for number in arriving:
        log.append(number)
        log.work()
    return log


def evaluation_lines(log: JobLog) -> list[int]:
    return [event.lines for event in log.of(SampleManifestWritten) if event.stage == "eval"]


def ten_polls_of_ten() -> str:
    log = JobLog()
    wait = {"type": "condition", "metric": "num_of_samples", "operator": ">=", "threshold": 80}
    log.create(train={"task_type": "train", "check_period_s": 0, "trigger": wait})
    for _ in range(10):
        log.next_round()
    return f"{evaluation_lines(log)[0]} lines"


def kept_versions() -> str:
    log = rounds_of(*[50] * 9)
    return ", ".join(str(len(event.evaluation)) for event in log.of(RoundStarted))


def without_new_samples() -> str:
    log = rounds_of(10, 2, 1)  # of the last three the first one is for evaluation
    assert [event.evaluation for event in log.of(RoundStarted)][1:] == [[(0, 10), (10, 12)]] * 2
    return f"{evaluation_lines(log)[-1]} lines"


FOUND: dict[str, Callable[[], str]] = {
    "`m > 500`, m is 500.0000009": condition("m", ">", 500, 500.0000009),
    "`m >= 500`, m is 499.9999991": condition("m", ">=", 500, 499.9999991),
    "`m == 500`, m is 499.999998": condition("m", "==", 500, 499.999998),
    "`m != 500`, m is 500.0000009": condition("m", "!=", 500, 500.0000009),
    "`m lt 500`, m is 499.999998": condition("m", "lt", 500, 499.999998),
    "`m ~ 500`": condition("m", "~", 500),
    "`m < 1`, m is true": condition("m", "<", 1, True),
    "no trigger": trigger(None),
    "only a window, 01:00 to 23:00, at 12:00": daily("01:00", "23:00", "12:00"),
    "01:00 to 02:00, at 02:00:59": daily("01:00", "02:00", "02:00:59"),
    "01:00 to 02:00, at 02:01:00": daily("01:00", "02:00", "02:01:00"),
    "23:00 to 01:00, at 00:30": daily("23:00", "01:00", "00:30"),
    "22:00 to 24:00, at 23:59": daily("22:00", "24:00", "23:59"),
    "24:00 to 01:00, at 00:30": daily("24:00", "01:00", "00:30"),
    "10:00 to 10:00, at 10:00:30": daily("10:00", "10:00", "10:00:30"),
    "9:00 to 17:00, at 07:00": daily("9:00", "17:00", "07:00"),
    "01:00 to 23:00 with the type `daily`, at 12:00": daily("01:00", "23:00", "12:00"),
    "23:00 to 01:00 with the type `daily`, at 12:00": daily("23:00", "01:00", "12:00"),
    "08:00 to 09:00 in Kathmandu, at 02:15 UTC on a host with UTC": daily(
        "08:00", "09:00", "02:15", "Asia/Kathmandu"
    ),
    "`m[1] > 0`, m is [0.2, 0.4]": condition("m[1]", ">", 0, [0.2, 0.4]),
    "`m[2] > 0`, m is [0.2, 0.4]": condition("m[2]", ">", 0, [0.2, 0.4]),
    "`m[-1] > 0`, m is [0.2, 0.4]": condition("m[-1]", ">", 0, [0.2, 0.4]),
    "`m[ > 0`": condition("m[", ">", 0),
    "`unknown > 0`": condition("unknown", ">", 0),
    '`m > 0`, m is "0.5"': condition("m", ">", 0, "0.5"),
    '`m > "0.1"`, the threshold is a text': condition("m", ">", "0.1"),
    "`m > 0.1`, m is [0.2]": condition("m", ">", 0.1, [0.2]),
    "`m < 0.1`, m is [0.2]": condition("m", "<", 0.1, [0.2]),
    "`mean(m) > 0.1`, m is [0.2]": condition("mean(m)", ">", 0.1, [0.2]),
    "100 samples at once, `train_prob` 0.8": divided(0.8, 100),
    "100 samples at once, `train_prob` 0.29": divided(0.29, 100),
    "10 samples at once, 0.8: those for evaluation": evaluated_of_ten,
    "10 samples, `train_prob` 1.5": divided(1.5, 10),
    "10 samples, `train_prob` -0.5": divided(-0.5, 10),
    "0.8, 100 times 1 sample": divided(0.8, 1, 100),
    "0.8, 25 times 4 samples": divided(0.8, 4, 25),
    "0.8, 10 times 10 samples": divided(0.8, 10, 10),
    "0.8, 10 times 10 samples: lines of the evaluation": ten_polls_of_ten,
    "9 evaluations, each after 5 times new samples: versions kept": kept_versions,
    "an evaluation for which no samples have come since the last one": without_new_samples,
}
"""What finds the result of Trackside, by the case."""


def rows_of_the_page() -> list[tuple[str, ...]]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| I")]
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]


@pytest.mark.parametrize(("row", "case", "sedna", "ours", "why"), rows_of_the_page())
def test_the_page_says_what_is_done_and_why(row: str, case: str, sedna: str, ours: str, why: str) -> None:
    assert FOUND[case]() == ours
    assert (why != "-") is (sedna != ours)


def test_every_row_of_triggers_and_samples_has_a_case() -> None:
    rows = rows_of_the_page()
    assert {row for row, *_ in rows} == {"I8", "I9", "I10", "I11", "I12", "I16", "I17", "I18", "I19"}
    assert [case for _, case, *_ in rows] == list(FOUND)
