import pytest

from trackside.console.whatif import options
from trackside.replay.history.errors import BadScenarioError


def test_fields_of_searches_runs_and_jobs_are_read_and_empty_ones_are_as_recorded() -> None:
    fields = {"workers": "1, 4,8", "slots": "2", "concurrency": "16"}
    fields |= {"assessors": "median:n_warmup_steps=5\n\n  asha  \n", "policies": "first-come, shortest-first"}
    grid = options.search_grid(fields)
    assert [each["name"] for each in grid.assessors] == ["median", "asha"]
    assert grid.assessors[0]["options"] == {"n_warmup_steps": 5}
    assert list(grid.workers) == [1, 4, 8] and grid.slots == 2 and grid.concurrency == 16
    assert list(grid.orders) == ["first-come", "shortest-first"]
    grid = options.search_grid({})
    assert not grid.assessors and not grid.workers and not grid.orders
    assert grid.slots == 1 and grid.concurrency is None
    run = options.run_grid({"on_end": "fail, continue", "workers": "3"})
    assert list(run.on_end) == ["continue", "fail"] and list(run.workers) == [3]
    job = options.job_grid({"thresholds": "0.02,5e-1", "train_thresholds": "100", "train_probs": "0.9"})
    assert list(job.thresholds) == [0.02, 0.5]
    assert list(job.train_thresholds) == [100.0] and list(job.train_probs) == [0.9]
    with pytest.raises(BadScenarioError, match="'retry' can't follow a step that fails"):
        options.run_grid({"on_end": "retry"})


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"workers": "many"}, "Workers: 'many' is not a number"),
        ({"workers": "0"}, "Workers: 0; expected 1 to 100,000"),
        ({"workers": "NaN"}, "Workers: 'NaN' is not a number"),
        ({"slots": "1, 2"}, "2 numbers; expected one"),
        ({"assessors": "nonsense"}, "unknown assessor 'nonsense'"),
        ({"policies": "random"}, "not a placement order"),
    ],
)
def test_a_wrong_field_is_refused_with_what_was_expected(fields: dict[str, str], problem: str) -> None:
    with pytest.raises(BadScenarioError, match=problem):
        options.search_grid(fields)
