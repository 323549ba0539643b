"""What Sedna does with triggers and samples, and what is done here: the table of docs/sedna-rules.md.

The results of Sedna are those of its trigger package and of its loop over new samples, run with these inputs
at commit 2c30e569.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tests.house.source import ROOT
from tests.unit.aggregates.rounds.given import JobLog
from tests.unit.aggregates.rounds.test_trigger_times import at
from trackside.aggregates.rounds.job_spec import JobDataset, StageSpec
from trackside.aggregates.rounds.messages import RoundStarted, SampleManifestWritten
from trackside.aggregates.rounds.split import added, count, samples, share_of
from trackside.aggregates.rounds.triggers import Known, holds, problems, seen
from trackside.contracts.message import Json
from trackside.contracts.refusals import field_names, problems_of

PAGE = ROOT / "docs" / "sedna-rules.md"
YES, NO, SAME = "holds", "does not hold", ""


@dataclass(frozen=True)
class Case:
    """An input, what Sedna makes of it, and what is made of it here."""

    row: str
    what: str
    sedna: str
    ours: str
    found: Callable[[], str]
    """Computes `ours`."""
    why: str = SAME


def refusal(kind: type[BaseModel], body: Json) -> str:
    """Returns the codes that a body is refused with; empty if it isn't."""
    try:
        kind.model_validate(body)
    except ValidationError as error:
        return ", ".join(problem.code for problem in problems_of(error, field_names(kind), body))
    return ""


def trigger(given: Json | None, metrics: dict[str, Any] | None = None, now: str = "") -> Callable[[], str]:
    """Returns what finds whether a trigger holds, with metrics, at a time of a day in UTC."""

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
    """Returns what finds whether a condition holds of a metric `m`."""
    given = {"type": "condition", "metric": metric, "operator": operator, "threshold": threshold}
    return trigger(given, {"m": value})


def daily(start: str, end: str, now: str, timezone: str = "UTC") -> Callable[[], str]:
    """Returns what finds whether a daily window holds at a time of a day in UTC."""
    return trigger({"type": "daily", "start": start, "end": end, "timezone": timezone}, now=now)


def divided(train_prob: float, arriving: int, times: int = 1) -> Callable[[], str]:
    """Returns what finds how many samples are for training and for evaluation, as they arrive."""

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
    """Returns a job after rounds that have begun with so many new samples each."""
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
        log.append(10)
    log.work()
    return f"{evaluation_lines(log)[0]} lines"


def kept_versions() -> str:
    log = rounds_of(*[50] * 9)
    return ", ".join(str(len(event.evaluation)) for event in log.of(RoundStarted))


def without_new_samples() -> str:
    log = rounds_of(10, 2, 1)  # of the last three the first one is for evaluation
    assert [event.evaluation for event in log.of(RoundStarted)][1:] == [[(0, 10), (10, 12)]] * 2
    return f"{evaluation_lines(log)[-1]} lines"


NOT_NUMBERS = "only a number is compared, and the reason is written"
TEXTS = "a time has the form HH:MM, so that texts can't be compared in a wrong order"
HINT = "m is a list of 1 item, not a number; write mean(m), max(m), min(m), m[0] or m[-1]"
REMAINDER = "what is left of a fraction counts for the samples to come"
BY_ZONE = "a window names its time zone; Sedna takes the clock of the host"
CASES = [
    Case("I8", "`m > 500`, m is 500.0000009", NO, NO, condition("m", ">", 500, 500.0000009)),
    Case("I8", "`m >= 500`, m is 499.9999991", YES, YES, condition("m", ">=", 500, 499.9999991)),
    Case("I8", "`m == 500`, m is 499.999998", NO, NO, condition("m", "==", 500, 499.999998)),
    Case("I8", "`m != 500`, m is 500.0000009", NO, NO, condition("m", "!=", 500, 500.0000009)),
    Case("I8", "`m lt 500`, m is 499.999998", YES, YES, condition("m", "lt", 500, 499.999998)),
    Case(
        "I8",
        "`m ~ 500`",
        "never holds",
        "refused: unknown_value",
        condition("m", "~", 500),
        "a job that would never begin is refused when it is made",
    ),
    Case(
        "I8",
        "`m < 1`, m is true",
        YES,
        f"{NO}: m is true, not a number",
        condition("m", "<", 1, True),
        NOT_NUMBERS,
    ),
    Case("I9", "no trigger", YES, YES, trigger(None)),
    Case(
        "I9",
        "only a window, 01:00 to 23:00, at 12:00",
        "never holds",
        YES,
        daily("01:00", "23:00", "12:00"),
        "there, every trigger has a condition, too, which never holds without an operator",
    ),
    Case("I10", "01:00 to 02:00, at 02:00:59", YES, YES, daily("01:00", "02:00", "02:00:59")),
    Case("I10", "01:00 to 02:00, at 02:01:00", NO, NO, daily("01:00", "02:00", "02:01:00")),
    Case("I10", "23:00 to 01:00, at 00:30", YES, YES, daily("23:00", "01:00", "00:30")),
    Case("I10", "22:00 to 24:00, at 23:59", YES, YES, daily("22:00", "24:00", "23:59")),
    Case("I10", "24:00 to 01:00, at 00:30", YES, YES, daily("24:00", "01:00", "00:30")),
    Case(
        "I10",
        "10:00 to 10:00, at 10:00:30",
        YES,
        "refused: empty_window",
        daily("10:00", "10:00", "10:00:30"),
        "a whole day was meant, or nothing, but hardly this minute",
    ),
    Case(
        "I10",
        "9:00 to 17:00, at 07:00",
        YES,
        "refused: unknown_value",
        daily("9:00", "17:00", "07:00"),
        TEXTS,
    ),
    Case(
        "I10",
        "01:00 to 23:00 with the type `daily`, at 12:00",
        "never holds",
        YES,
        daily("01:00", "23:00", "12:00"),
        "there, the clock is compared as an empty text for this type",
    ),
    Case(
        "I10",
        "23:00 to 01:00 with the type `daily`, at 12:00",
        "always holds",
        NO,
        daily("23:00", "01:00", "12:00"),
        "the same",
    ),
    Case(
        "I10",
        "08:00 to 09:00 in Kathmandu, at 02:15 UTC on a host with UTC",
        NO,
        YES,
        daily("08:00", "09:00", "02:15", "Asia/Kathmandu"),
        BY_ZONE,
    ),
    Case("I11", "`m[1] > 0`, m is [0.2, 0.4]", YES, YES, condition("m[1]", ">", 0, [0.2, 0.4])),
    Case(
        "I11",
        "`m[2] > 0`, m is [0.2, 0.4]",
        NO,
        f"{NO}: there is no m[2]: the list has 2 items",
        condition("m[2]", ">", 0, [0.2, 0.4]),
        "the reason is written",
    ),
    Case(
        "I11",
        "`m[-1] > 0`, m is [0.2, 0.4]",
        "panics",
        YES,
        condition("m[-1]", ">", 0, [0.2, 0.4]),
        "-1 is the last item",
    ),
    Case(
        "I11",
        "`m[ > 0`",
        "panics",
        "refused: unknown_value",
        condition("m[", ">", 0),
        "what names no metric is refused when the job is made",
    ),
    Case(
        "I11",
        "`unknown > 0`",
        NO,
        f"{NO}: there is no metric 'unknown'",
        condition("unknown", ">", 0),
        "the reason is written; for training and evaluation it is refused when the job is made",
    ),
    Case(
        "I11",
        '`m > 0`, m is "0.5"',
        YES,
        f"{NO}: m is a text, not a number",
        condition("m", ">", 0, "0.5"),
        NOT_NUMBERS,
    ),
    Case(
        "I11",
        '`m > "0.1"`, the threshold is a text',
        "understood as 0.1",
        "refused: wrong_type",
        condition("m", ">", "0.1"),
        "nothing is converted",
    ),
    Case("I12", "`m > 0.1`, m is [0.2]", NO, f"{NO}: {HINT}", condition("m", ">", 0.1, [0.2]), NOT_NUMBERS),
    Case(
        "I12",
        "`m < 0.1`, m is [0.2]",
        YES,
        f"{NO}: {HINT}",
        condition("m", "<", 0.1, [0.2]),
        "a list is not read as 0",
    ),
    Case(
        "I12",
        "`mean(m) > 0.1`, m is [0.2]",
        NO,
        YES,
        condition("mean(m)", ">", 0.1, [0.2]),
        "there are mean, max and min",
    ),
    Case("I16", "100 samples at once, `train_prob` 0.8", "80 and 20", "80 and 20", divided(0.8, 100)),
    Case(
        "I16",
        "100 samples at once, `train_prob` 0.29",
        "28 and 72",
        "29 and 71",
        divided(0.29, 100),
        "there are no floats in it: 0.29 * 100 is 28.999999999999996",
    ),
    Case(
        "I16",
        "10 samples at once, 0.8: those for evaluation",
        "8, 9",
        "0, 5",
        evaluated_of_ten,
        "each run of samples has its share, so samples that drift are in both",
    ),
    Case(
        "I16",
        "10 samples, `train_prob` 1.5",
        "panics",
        "refused: train_prob_range",
        divided(1.5, 10),
        "it is checked when the job is made",
    ),
    Case(
        "I16",
        "10 samples, `train_prob` -0.5",
        "panics",
        "refused: train_prob_range",
        divided(-0.5, 10),
        "the same",
    ),
    Case("I17", "0.8, 100 times 1 sample", "0 and 100", "80 and 20", divided(0.8, 1, 100), REMAINDER),
    Case("I17", "0.8, 25 times 4 samples", "75 and 25", "80 and 20", divided(0.8, 4, 25), REMAINDER),
    Case("I17", "0.8, 10 times 10 samples", "80 and 20", "80 and 20", divided(0.8, 10, 10)),
    Case(
        "I18",
        "0.8, 10 times 10 samples: lines of the evaluation",
        "110 lines, 20 of them different",
        "20 lines",
        ten_polls_of_ten,
        "a sample is in one version, and an evaluation has each version once",
    ),
    Case(
        "I19",
        "9 evaluations, each after 5 times new samples: versions kept",
        "5, 9, 13, 17, 21, 25, 29, 33, 37",
        "1, 2, 3, 4, 5, 5, 5, 5, 5",
        kept_versions,
        "what comes between two rounds is one version, and all that are too many are dropped",
    ),
    Case(
        "I19",
        "an evaluation for which no samples have come since the last one",
        "an empty file",
        "3 lines",
        without_new_samples,
        "it has the versions that are kept; the stage doesn't begin with an empty file",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row} {case.what}")
def test_what_is_done_here_is_what_the_table_says(case: Case) -> None:
    assert case.found() == case.ours


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row} {case.what}")
def test_a_difference_to_sedna_has_a_reason(case: Case) -> None:
    assert bool(case.why) is (case.sedna != case.ours)


def test_every_row_of_triggers_and_samples_has_a_case() -> None:
    rows = {"I8", "I9", "I10", "I11", "I12", "I16", "I17", "I18", "I19"}
    assert {case.row for case in CASES} == rows


def table() -> str:
    """Returns the table of the page."""
    lines = ["| row | case | Sedna | Trackside | why they differ |", "| --- | --- | --- | --- | --- |"]
    for case in CASES:
        cells = (case.row, case.what, case.sedna, case.ours, case.why or "-")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def test_the_page_has_this_table() -> None:
    assert table() in PAGE.read_text("utf-8")
