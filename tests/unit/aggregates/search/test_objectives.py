"""Several objectives: what a trial's numbers mean for them, which no other beats, what people see."""

from datetime import UTC, datetime
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.unit.domain import given
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.aggregate import SEARCH
from trackside.aggregates.search.messages import Direction, TrialEnded, TrialStatus
from trackside.aggregates.search.trials.objectives import beats, values_of
from trackside.aggregates.search.view import trial_table
from trackside.contracts.tasks.tasks import Figure, MetricReported
from trackside.domain.folding.streams import load, pack
from trackside.domain.rows.table import ViewRow

BOTH: list[dict[str, Any]] = [
    {"name": "accuracy", "direction": "maximize"},
    {"name": "latency", "direction": "minimize"},
]


def search_of_two(values: list[list[Figure | None]], objectives: Any = BOTH) -> given.Told:
    told = given.search_running(max_trials=100, concurrency=1, objectives=objectives)
    for number, found in enumerate(values):
        told.tell(given.suggested(number), given.submitted(number))
        told.each(given.assigned(number), given.begun(number), given.ended(trial=number))
        status = TrialStatus.FAILED if None in found else TrialStatus.SUCCEEDED
        told.tell(TrialEnded(trial=number, status=status, values=found))
    return told


def test_a_trial_that_no_other_beats_is_of_the_front_and_leaves_it_when_beaten() -> None:
    values: list[list[Figure | None]] = [[0.5, 9.0], [0.6, 12.0], [0.4, 10.0], [0.5, 9.0], [0.6, 8.0]]
    assert search_of_two(values[:4]).search.front == [0, 1, 3]
    told = search_of_two(values)
    assert told.search.front == [4]
    assert told.search.best is None


@pytest.mark.parametrize("odd", [None, "nan", "inf", "-inf"])
def test_a_value_that_is_missing_or_not_finite_is_kept_and_beats_nobody(odd: Figure | None) -> None:
    told = search_of_two([[0.5, 9.0], [0.9, odd], [0.7, 9.5]])
    assert (told.search.front, told.search.trials[1].values) == ([0, 2], [0.9, odd])
    again = load(pack(told.stream), AGGREGATES).root
    assert again is not None
    assert (again.front, again.trials[1].values) == ([0, 2], [0.9, odd])


@pytest.mark.thorough
@hypothesis.given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12),
    st.permutations(["maximize", "minimize"]),
)
def test_the_front_is_that_of_comparing_all_with_all(points: Any, directions: list[Direction]) -> None:
    objectives = [{"name": name, "direction": way} for name, way in zip(("a", "b"), directions, strict=True)]
    told = search_of_two([[float(value) for value in point] for point in points], objectives)
    assert told.search.front == [
        number
        for number, point in enumerate(points)
        if not any(beats(directions, other, point) for other in points)
    ]


def test_an_objective_is_the_number_of_its_name_or_the_first_one() -> None:
    cases: tuple[tuple[list[str], float | None, Any, list[Any]], ...] = (
        *((["default"], 0.5, {}, [0.5]), (["default"], None, {"f1": 0.5}, [None])),
        *((["f1"], None, {"f1": 0.5}, [0.5]), (["f1"], 0.25, {}, [0.25])),
        *((["f1"], 0.25, {"f1": 0.5}, [0.5]), (["f1", "loss"], 0.25, {"loss": "nan"}, [0.25, "nan"])),
        (["f1", "loss"], None, {"f1": 0.5}, [0.5, None]),
        (["f1", "default"], 0.25, {"f1": 0.5}, [0.5, 0.25]),
    )
    for names, deciding, others, found in cases:
        assert values_of(names, deciding, others) == found


def test_what_was_said_beside_a_value_is_that_of_the_final_one_else_of_the_last() -> None:
    told = given.task_active()
    beside: list[tuple[MetricReported, dict[str, Figure]]] = [
        (given.report(0, 0.1), {"loss": 2.0}),
        (given.report(1, None), {"loss": "inf"}),
        (given.report(2, 0.5, final=True), {"loss": 1.0, "f1": 0.5}),
        (given.report(3, 0.2), {"loss": 3.0}),
    ]
    found = []
    for event, others in beside:
        odd = "nan" if event.value is None else None
        told.tell(event.model_copy(update={"others": others, "non_finite": odd}))
        found.append((told.task().non_finite, told.task().others))
    final = ("", {"loss": 1.0, "f1": 0.5})
    assert found == [("", {"loss": 2.0}), ("nan", {"loss": "inf"}), final, final]


def trial_row(number: int, values: list[float | None]) -> ViewRow:
    row: dict[str, Any] = {"trial": number, "status": "SUCCEEDED", "value": values[0], "last_value": None}
    row |= {"objective_values": values, "reports": 1, "duration_s": 4.0, "source": "algorithm"}
    return row | {"space_version": 1, "parameters": {"lr": 0.5}}


def search_row() -> ViewRow:
    row: dict[str, Any] = {"search_id": "s", "status": "ERROR", "failure": "tuner_failed: no"}
    row |= {"stop_reason": "search_failed", "ended_trials": 2, "max_trials": 9, "running_trials": 1}
    row |= {"tuner": "nsga2", "assessor": None, "direction": "maximize"}
    row |= {"started_at": datetime(2026, 1, 31, tzinfo=UTC), "ended_at": None}
    return row | {
        "spec": {"objectives": BOTH, "max_trials": 9, "concurrency": 2, "goal": 0.5, "max_duration_s": 90}
    }


def test_the_progress_of_several_objectives_has_the_newest_trials_of_the_front() -> None:
    told = search_of_two([[0.1, 1.0], [0.2, 2.0], [0.3, 3.0], [0.4, 4.0], [0.0, 9.0]])
    [line] = SEARCH.view.progress(told.stream).lines
    shown = "; ".join(f"trial {at} (accuracy 0.{at + 1}, latency {at + 1})" for at in (1, 2, 3))
    assert line == f"Pareto front: {shown} and 1 more"


def test_the_page_of_several_objectives_has_the_front_and_the_best_trial_of_each() -> None:
    front = [trial_row(at, [at / 10, float(at)]) for at in range(1, 31)]
    rows = {"trials": front, "front": front}
    facts = dict(SEARCH.view.facts(search_row(), rows))
    assert facts["front"] == f"trials {', '.join(map(str, range(1, 21)))} and 10 more"
    assert (facts["best accuracy"], facts["best latency"]) == ("3  trial 30", "1  trial 1")
    assert facts["limits"] == "9 trials, 2 at once, 1 min 30 s of running, until 0.5 is reached"
    assert facts["status"] == "ERROR (tuner_failed: no)"
    [table] = SEARCH.view.tables(search_row(), rows)
    assert [column.heading for column in table.columns][:4] == ["trial", "status", "accuracy", "latency"]


def test_a_table_of_trials_has_the_columns_that_differ_from_the_usual() -> None:
    plain, added = trial_row(0, [0.5]), trial_row(1, [0.5]) | {"source": "user"}
    assert "source" not in [column.heading for column in trial_table([plain]).columns]
    assert "source" in [column.heading for column in trial_table([plain, added]).columns]
    many = plain | {"parameters": {f"p{at}": at for at in range(9)}}
    assert [column.heading for column in trial_table([many]).columns][-1] == "parameters"
