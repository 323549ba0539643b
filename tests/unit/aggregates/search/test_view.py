"""What people see of a search with several objectives: its front, and the best trial of each."""

from datetime import UTC, datetime

from tests.unit.aggregates.search.test_objectives import BOTH, search_of_two
from trackside.aggregates.search.aggregate import SEARCH
from trackside.aggregates.search.view import trial_table
from trackside.domain.table import ViewRow


def trial_row(number: int, values: list[float | None]) -> ViewRow:
    return {
        "trial": number,
        "status": "SUCCEEDED",
        "value": values[0],
        "last_value": None,
        "objective_values": values,
        "reports": 1,
        "duration_s": 4.0,
        "source": "algorithm",
        "space_version": 1,
        "parameters": {"lr": 0.5},
    }


def search_row() -> ViewRow:
    return {
        "search_id": "s",
        "status": "ERROR",
        "failure": "tuner_failed: no",
        "stop_reason": "search_failed",
        "ended_trials": 2,
        "max_trials": 9,
        "running_trials": 1,
        "tuner": "nsga2",
        "assessor": None,
        "direction": "maximize",
        "started_at": datetime(2026, 1, 31, tzinfo=UTC),
        "ended_at": None,
        "spec": {"objectives": BOTH, "max_trials": 9, "concurrency": 2, "goal": 0.5, "max_duration_s": 90},
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
