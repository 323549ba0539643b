"""A search that a user's Python defines, runs, changes and looks at; services are real processes."""

import secrets
from contextlib import closing
from pathlib import Path

import pytest

from trackside.aggregates.search.messages import SearchStatus, TrialSuggested
from trackside.aggregates.search.state import search_of
from trackside.sdk import Search
from trackside.sdk.blocking import BlockingClient
from trackside.sdk.errors import ClientError, RefusedError, UnsendableError

SPACE = {"value": {"_type": "uniform", "_value": [0, 1]}, "seconds": {"type": "choice", "values": [0]}}
WAITS = {**SPACE, "seconds": {"type": "choice", "values": [3600]}}


pytestmark = pytest.mark.usefixtures("settings")


def test_a_search_is_run_and_its_trials_are_looked_at(tmp_path: Path) -> None:
    search = Search("noop", SPACE, max_trials=4, concurrency=2, tuner="random", seed=3)
    best = search.run(timeout_s=60)
    trials = search.trials()
    assert [trial.number for trial in trials] == [0, 1, 2, 3]
    assert best is not None and best.value == max(trial.value or 0 for trial in trials)
    assert best == search.best() == trials[best.number]
    assert search.status() is SearchStatus.DONE
    watched = list(search.watch())
    assert sorted(watched, key=lambda trial: trial.number) == trials
    rows = search.export_trials(tmp_path / "t.csv")
    past = [{"parameters": row["parameters"], "value": row["value"]} for row in rows]
    other = Search("noop", SPACE, max_trials=1, tuner="random", past=past)
    other.run(timeout_s=60)
    imported = search_of(other.state())
    assert imported is not None
    assert [each.value for each in imported.imported] == [row["value"] for row in rows]
    with pytest.raises(RefusedError, match="already_terminal"):
        other.import_trials(tmp_path / "t.csv")


def test_a_search_is_changed_from_python_while_it_goes_on(client: BlockingClient) -> None:
    search_id = f"python-{secrets.token_hex(3)}"
    Search("noop", WAITS, max_trials=5, tuner="random", search_id=search_id).submit()
    search = Search.open(search_id)
    with closing(client.events(search_id, follow=True)) as events:
        next(record for record in events if isinstance(record.message, TrialSuggested))
    search.pause(reason="a look")
    assert search.status() is SearchStatus.PAUSED
    search.resume()
    search.update(max_trials=7, goal=0.99)
    search.update_space({**WAITS, "value": {"type": "uniform", "low": 1, "high": 2}})
    search.import_trials([{"parameter": {"value": 1.5, "seconds": 3600}, "value": "0.5"}])
    search.add_trial({"value": 7, "seconds": 3600}, tell_tuner=True, outside=True)
    search.request_trials(1)
    assert search.ping().whole_ms > 0
    state = search_of(search.state())
    assert state is not None
    assert (state.spec.max_trials, state.spec.goal, state.space_version) == (7, 0.99, 2)
    assert [past.value for past in state.imported] == [0.5]
    search.stop_trial(0)
    assert next(search.watch()).status == "USER_CANCELED"
    search.stop("seen enough")
    assert search.wait(60) is None
    assert search.status() is SearchStatus.STOPPED


def test_what_is_wrong_is_an_error_of_python() -> None:
    with pytest.raises(UnsendableError, match=r"\$\.max_trials"):
        Search("noop", SPACE, max_trials=0)
    with pytest.raises(RefusedError, match="unknown_task_type"):
        Search("nop", SPACE, max_trials=1).run()
    with pytest.raises(ClientError, match="there is no search nobody"):
        Search.open("nobody").trials()
