"""Assessors stop the same trials as Optuna's pruners, for any reports; options are checked before."""

import math
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.dispatcher.optuna_pruners import pruned
from trackside.aggregates.search.messages import Direction
from trackside.aggregates.search.space.builtin_assessors import ASSESSORS, check_assessor
from trackside.aggregates.search.state import FeedRow
from trackside.dispatcher.advisor.search_assessor import SearchAssessor
from trackside.dispatcher.assessors.stopping_rules import percentile_of

MEDIAN: dict[str, Any] = {"name": "median", "options": {"n_startup_trials": 2, "n_warmup_steps": 1}}
Options = st.SearchStrategy[dict[str, Any]]


def drawn(needed: dict[str, Any], **optional: Any) -> Options:
    return st.fixed_dictionaries(needed, optional=optional)


def up_to(most: int, least: int = 0) -> st.SearchStrategy[int]:
    return st.integers(least, most)


WRAPPED: list[dict[str, Any]] = [
    {"name": "median", "options": {"n_startup_trials": 2}},
    {"name": "successive-halving", "options": {"min_resource": 1, "reduction_factor": 2}},
]
STEPS = {"n_warmup_steps": up_to(5), "interval_steps": up_to(4, 1)}
RUNGS = {"min_resource": up_to(3, 1), "reduction_factor": up_to(4, 2)}
BRACKETS = {"max_resource": up_to(30, 3), "reduction_factor": up_to(4, 2)}
SPECS: dict[str, Options] = {
    "median": drawn({}, n_startup_trials=up_to(6), n_min_trials=up_to(4, 1), **STEPS),
    "percentile": drawn({"percentile": st.floats(0, 100), "n_startup_trials": up_to(4)}, **STEPS),
    "successive-halving": drawn(RUNGS, min_early_stopping_rate=up_to(2), bootstrap_count=up_to(3))
    | st.just({}),
    "hyperband": drawn(BRACKETS, min_resource=up_to(3, 1), bootstrap_count=up_to(2)) | st.just({}),
    "threshold": drawn({"lower": st.floats(-0.2, 0.3)}, upper=st.floats(0.6, 2), interval_steps=up_to(4, 1)),
    "wilcoxon": drawn({"p_threshold": st.floats(0.05, 0.6)}, n_startup_steps=up_to(5)),
    "patient": drawn({"patience": up_to(4)}, min_delta=st.floats(0, 0.2), wrapped=st.sampled_from(WRAPPED)),
}
ENDS = ["SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "FAILED"]


@st.composite
def lives(draw: st.DrawFn) -> list[FeedRow]:
    """Draws the past of a search: up to four trials at once, steps with gaps, some equal values."""
    chance = Random(draw(st.integers(0, 2**32)))
    levels = [0.25, 0.5, 0.75] if draw(st.booleans()) else [chance.random() for _ in range(60)]
    rows: list[FeedRow] = []
    running: dict[int, int] = {}
    trials = 0
    for _ in range(draw(st.integers(40, 120))):
        if len(running) < 4:
            running[trials] = -1
            trials += 1
        trial = chance.choice(sorted(running))
        if running[trial] >= 0 and chance.random() < 0.12:
            status = chance.choice(ENDS)
            rows.append((trial, status, chance.choice(levels) if status == "SUCCEEDED" else None))
            del running[trial]
        else:
            running[trial] += chance.choice([1, 1, 1, 2, 5])
            rows.append((trial, running[trial], chance.choice(levels) + trial % 3 / 10))
    return rows


def verdicts(assessment: SearchAssessor, rows: list[FeedRow]) -> dict[int, int]:
    """Tells rows one by one; returns the trials to stop, each with the row that showed it.

    A trial that was to be stopped ends as such, independent of its last row.
    """
    found: dict[int, int] = {}
    for trial, step, value in rows:
        early = isinstance(step, str) and trial in found
        found |= dict(assessment.take([(trial, "EARLY_STOPPED" if early else step, value)]))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", SPECS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore")  # pruners of Optuna are experimental
def test_d33_verdicts_are_those_of_optunas_pruner_alone(name: str, data: st.DataObject) -> None:
    assessor = {"name": name, "options": data.draw(SPECS[name])}
    assert not check_assessor(assessor)
    direction: Direction = data.draw(st.sampled_from(["maximize", "minimize"]))
    seed, rows = data.draw(st.integers(0, 2**53)), data.draw(lives())
    found = verdicts(SearchAssessor(assessor, direction, seed), rows)
    assert found == pruned(assessor, direction, seed, rows)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40), st.floats(0, 100))
def test_a_percentile_is_numpys_to_the_last_bit(values: list[float], percent: float) -> None:
    assert percentile_of(sorted(values), percent) == np.nanpercentile(np.array(values), percent)


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(rows=lives(), cut=st.floats(0, 1), name=st.sampled_from(sorted(ASSESSORS)), data=st.data())
def test_d08_told_again_it_is_alike(rows: list[FeedRow], cut: float, name: str, data: st.DataObject) -> None:
    """D8: there is no checkpoint to load; rows are sent again from the log, in lines of any size."""
    specs = {**SPECS, "asha": SPECS["successive-halving"], "curve-fitting": st.just({"epochs": 60})}
    assessor = {"name": name, "options": data.draw(specs[name])}
    place = int(cut * len(rows))
    whole = SearchAssessor(assessor, "minimize", 3)
    whole.take(rows[:place])
    again = SearchAssessor(assessor, "minimize", 3)
    for begin, end in pairwise(sorted({0, place // 3, place // 2, place})):
        again.take(rows[begin:end])
    assert [whole.take([row]) for row in rows[place:]] == [again.take([row]) for row in rows[place:]]


def completed(*levels: float, assessor: dict[str, Any] = MEDIAN) -> SearchAssessor:
    assessment = SearchAssessor(assessor, "maximize", 7)
    for trial, level in enumerate(levels):
        assessment.take([(trial, step, level + step / 10) for step in range(5)])
        assessment.take([(trial, "SUCCEEDED", level)])
    return assessment


def stopped(assessment: SearchAssessor, *rows: FeedRow) -> list[int]:
    return [trial for trial, _ in assessment.take(rows)]


def test_a_trial_below_the_median_is_stopped_once_enough_have_completed_and_behind_the_warm_up() -> None:
    assert stopped(completed(0.5, 0.6, 0.7), (3, 2, 0.1), (4, 2, 0.95)) == [3]
    assert stopped(completed(0.5), (1, 3, 0.0)) == []
    assert stopped(completed(0.5, 0.6, 0.7), (3, 0, 0.0)) == []
    assessment = completed(0.5, 0.6, 0.7)
    assert assessment.take([(3, 2, 0.1)]) == assessment.take([]) == assessment.take([(3, 3, 9.0)])


@pytest.mark.parametrize("status", ["FAILED", "EARLY_STOPPED", "USER_CANCELED", "SYS_CANCELED"])
def test_trials_that_did_not_succeed_are_no_yardstick(status: str) -> None:
    assessment = SearchAssessor(MEDIAN, "maximize", 7)
    for trial in range(3):
        assessment.take([(trial, 2, 0.9), (trial, status, 0.9)])
    assert stopped(assessment, (9, 2, 0.0)) == []


def test_d18_a_new_attempt_is_judged_on_its_own_reports_alone() -> None:
    assessment = completed(0.5, 0.6, 0.7)
    assert stopped(assessment, (3, 4, 0.0)) == [3]
    assert stopped(assessment, (3, None, None)) == []
    assert stopped(assessment, (3, 1, 0.9)) == []
    assert stopped(assessment, (3, 2, 0.0)) == []  # its best so far counts


@pytest.mark.parametrize("name", ["successive-halving", "hyperband"])
def test_d18_an_attempt_that_is_repeated_competes_on_no_rung_any_more(name: str) -> None:
    assessor = {"name": name, "options": {"min_resource": 1, "reduction_factor": 2}}
    if name == "hyperband":
        assessor["options"]["max_resource"] = 1  # type: ignore[index]
    fresh, assessment = (SearchAssessor(assessor, "maximize", 7) for _ in range(2))
    assert stopped(assessment, (0, 1, 0.9), (1, 1, 0.5)) == [1]
    assessment.take([(1, None, None), (0, None, None)])
    rows: list[FeedRow] = [(1, 1, 0.5), (2, 1, 0.4), (0, 1, 0.45), (3, 2, 0.7), (3, 4, 0.1)]
    for row in rows:
        assert stopped(assessment, row) == stopped(fresh, row)


def test_d17_a_gap_in_the_steps_delays_no_verdict() -> None:
    """D17: NNI waits for the missing sequence numbers; here steps may be counted in any way."""
    assert stopped(completed(0.5, 0.6, 0.7), (3, 4, 0.0)) == [3]


def test_d17_a_step_that_was_reported_already_and_rows_of_unknown_or_ended_trials_change_nothing() -> None:
    """D17: NNI overwrites and judges again; here, as in Optuna and in the log, the first report wins."""
    repeated, plain = completed(0.5, 0.6, 0.7), completed(0.5, 0.6, 0.7)
    assert stopped(repeated, (3, 2, 1.5), (3, 2, 0.0), (3, 1, 0.0)) == []
    plain.take([(3, 2, 1.5)])
    assert stopped(repeated, (3, 4, 0.2)) == stopped(plain, (3, 4, 0.2)) == []
    assessment = completed(0.5, 0.6, 0.7)
    assert stopped(assessment, (77, None, None), (78, "FAILED", None)) == []
    assert stopped(assessment, (0, 9, -5.0), (0, "SUCCEEDED", 0.1)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", None])
@pytest.mark.parametrize("name", sorted(set(ASSESSORS) - {"threshold"}))
def test_values_that_are_no_finite_number_change_no_verdict(name: str, value: str | None) -> None:
    options: dict[str, dict[str, Any]] = {
        "percentile": {"percentile": 50, "n_startup_trials": 2},
        "median": {"n_startup_trials": 2},
        "patient": {"patience": 1},
        "curve-fitting": {"epochs": 20, "start_step": 3},
    }
    spec = {"name": name, "options": options.get(name, {})}
    rows: list[FeedRow] = [(3, step, 0.3 - step / 100) for step in range(0, 14, 2)]
    spoiled = [spoiled for row in rows for spoiled in (row, (3, int(row[1] or 0) + 1, value))]
    without = verdicts(completed(0.5, 0.6, 0.7, assessor=spec), rows)
    assert verdicts(completed(0.5, 0.6, 0.7, assessor=spec), spoiled) == {
        trial: (place - 18) * 2 + 18 for trial, place in without.items()
    }


@pytest.mark.parametrize(("value", "hopeless"), [("nan", True), ("inf", True), ("-inf", False), (None, True)])
def test_a_threshold_stops_what_is_no_number_or_beyond_it(value: str | None, hopeless: bool) -> None:
    assessment = SearchAssessor({"name": "threshold", "options": {"upper": 2.0}}, "minimize", 7)
    assert stopped(assessment, (0, 0, 1.0), (0, 1, value)) == ([0] if hopeless else [])


def test_the_bracket_of_a_trial_follows_from_the_seed_and_a_flat_curve_is_predicted_to_stay() -> None:
    spec = {"name": "hyperband", "options": {"max_resource": 27, "min_resource": 1}}
    rows: list[FeedRow] = [(trial, 1, -float(trial)) for trial in range(40)]
    found = [verdicts(SearchAssessor(spec, "maximize", seed), rows) for seed in (7, 7, 8)]
    assert found[0] == found[1] != found[2]
    spec = {"name": "curve-fitting", "options": {"epochs": 50, "start_step": 3, "gap": 5}}
    assessment = SearchAssessor(spec, "maximize", 7)
    assessment.take([(0, "SUCCEEDED", 0.9)])
    rows = [(1, step, 0.95 if step < 4 else 0.1) for step in range(12)]
    assert verdicts(assessment, rows) == {1: 1 + 7}


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("offset", [0.0, -3.0])
def test_a_curve_that_levels_off_below_the_best_is_stopped(direction: Any, offset: float) -> None:
    sign = 1.0 if direction == "maximize" else -1.0

    def curve(level: float, step: int) -> float:
        return sign * (level - 0.6 * math.exp(-step / 6) + offset)

    assessment = SearchAssessor({"name": "curve-fitting", "options": {"epochs": 50}}, direction, 7)
    assert stopped(assessment, *((0, step, curve(0.3, step)) for step in range(12))) == []
    assessment.take([(0, step, curve(0.9, step)) for step in range(12, 50)])
    assessment.take([(0, "SUCCEEDED", curve(0.9, 50))])
    good: list[FeedRow] = [(1, step, curve(0.92, step)) for step in range(12)]
    bad: list[FeedRow] = [(2, step, curve(0.5, step)) for step in range(12)]
    assert stopped(assessment, *good, *bad) == [2]
    assert stopped(assessment, (3, 0, curve(0.1, 9)), (3, 1, curve(0.1, 9)), (3, 2, curve(0.1, 9))) == [2]


def patient(**wrapped: Any) -> dict[str, Any]:
    return {"patience": 1, "wrapped": wrapped}


@pytest.mark.parametrize(
    ("name", "options", "path", "words"),
    [
        ("medain", {}, "name", "did you mean 'median'"),
        ("median", {"interval_steps": 0}, "options.interval_steps", "from 1"),
        ("median", {"n_warmup_step": 0}, "options.n_warmup_step", "'n_warmup_steps'"),
        ("percentile", {}, "options.percentile", "missing option"),
        ("percentile", {"percentile": 101}, "options.percentile", "from 0 to 100"),
        ("percentile", {"percentile": math.nan}, "options.percentile", "a number"),
        ("asha", {"min_resource": "all"}, "options.min_resource", "or one of auto"),
        ("asha", {"bootstrap_count": 1}, "options.bootstrap_count", "needs a number"),
        ("hyperband", {"bootstrap_count": 1}, "options.bootstrap_count", "max_resource"),
        ("hyperband", {"min_resource": 9, "max_resource": 3}, "options.max_resource", "below"),
        ("threshold", {}, "options", "lower, upper or both"),
        ("threshold", {"lower": 2, "upper": 1}, "options.upper", "below lower"),
        ("threshold", {"lower": 10**400}, "options.lower", "a number"),
        ("patient", {}, "options.patience", "missing option"),
        ("patient", {"patience": 1, "wrapped": "median"}, "options.wrapped", "an object"),
        ("patient", patient(name="wilcoxn"), "options.wrapped.name", "did you mean 'wilcoxon'"),
        ("patient", patient(name="median", options={"a": 1}), "options.wrapped.options.a", "unknown option"),
        ("patient", patient(name="patient"), "options.wrapped.name", "not itself"),
        ("wilcoxon", {"p_threshold": 2}, "options.p_threshold", "from 0 to 1"),
        ("curve-fitting", {}, "options.epochs", "missing option"),
        ("curve-fitting", {"epochs": 9, "start_step": 2}, "options.start_step", "from 3"),
    ],
)
def test_d33_a_bad_assessor_is_refused(name: str, options: dict[str, Any], path: str, words: str) -> None:
    fault, *_ = check_assessor({"name": name, "options": options} if options else {"name": name})
    assert fault[0] == f"$.assessor.{path}"
    assert words in fault[1]


@pytest.mark.parametrize(
    ("name", "options", "places"),
    [
        ("median", {"interval_steps": 0, "a": 1}, ["interval_steps", "a"]),
        ("percentile", {"interval_steps": 0}, ["interval_steps", "percentile"]),
        ("asha", {"bootstrap_count": 1, "min_resource": 0}, ["min_resource"]),
        ("asha", {"bootstrap_count": 1, "reduction_factor": 0}, ["reduction_factor", "bootstrap_count"]),
        ("hyperband", {"bootstrap_count": 1, "max_resource": 0, "min_resource": 9}, ["max_resource"]),
        ("threshold", {"lower": 2, "upper": 1, "interval_steps": 0}, ["interval_steps", "upper"]),
        ("threshold", {"lower": "a"}, ["lower"]),
        (
            "patient",
            patient(name="median", options={"a": 1, "b": 1}) | {"patience": -1},
            ["patience", "wrapped.options.a", "wrapped.options.b"],
        ),
    ],
)
def test_all_that_is_wrong_with_an_assessor_is_listed_but_for_what_only_follows_from_it(
    name: str, options: dict[str, Any], places: list[str]
) -> None:
    faults = check_assessor({"name": name, "options": options})
    assert [path.removeprefix("$.assessor.options.") for path, _ in faults] == places


def test_names_and_their_options_are_taken() -> None:
    assert not check_assessor(MEDIAN)
    with pytest.raises(ValueError, match="no assessor 'mean' is installed"):
        SearchAssessor({"name": "mean"}, "maximize", 7)


@pytest.mark.thorough
@settings(max_examples=60)
@given(st.data())
def test_an_attempt_that_resumes_is_judged_as_if_it_had_not_ended(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(SPECS)))
    assessor = {"name": name, "options": data.draw(SPECS[name])}
    rows = data.draw(lives())
    chance = Random(data.draw(st.integers(0, 2**32)))
    plain, interrupted = SearchAssessor(assessor, "minimize", 7), SearchAssessor(assessor, "minimize", 7)
    last: dict[int, int] = {}
    for row in rows:
        trial, step, _ = row
        again: list[FeedRow] = []
        if chance.random() < 0.3 and trial in last:
            again = [(trial, None, None), (trial, "RESUMED", last[trial] + 1)]
        judged = [stopped for stopped, _ in interrupted.take([*again, row])]
        assert judged == [stopped for stopped, _ in plain.take([row])]
        if isinstance(step, int):
            last[trial] = max(step, last.get(trial, step))


def test_a_verdict_about_a_report_that_counts_again_stands_and_one_about_a_later_report_does_not() -> None:
    rows: list[FeedRow] = [(0, 0, 0.9), (0, 1, 0.2), (0, 2, 0.8), (0, None, None)]
    for step, stopped in ((1, []), (2, [(0, 1)]), (3, [(0, 1)])):
        found = SearchAssessor({"name": "threshold", "options": {"lower": 0.5}}, "maximize", 7)
        assert found.take(rows[:-1]) == [(0, 1)]
        assert found.take(rows[-1:]) == []
        assert found.take([(0, "RESUMED", step)]) == stopped
