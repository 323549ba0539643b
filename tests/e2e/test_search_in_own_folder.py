"""A user's own search, in a folder outside the clone, on a stack that `trackside up` has started."""

import json
import os
from typing import Any

import pytest

from tests.e2e.shared_stack import SLOTS, StackFolder
from tests.e2e.shared_tasks import search_spec
from tests.polling import poll_until

pytestmark = pytest.mark.timeout(900)

SCRIPT = """
from mine import Parabola
from trackside.sdk import Search

space = {"x": {"type": "uniform", "low": 0, "high": 1}}
search = Search(Parabola, space, max_trials=6, concurrency=2, seed=7)
best = search.run(timeout_s=250)
print(best.status, best == search.best(), len(search.trials()), search.id)
"""


@pytest.fixture(scope="module")
def first(home: StackFolder) -> str:
    """Runs a search to its end; returns its id."""
    return home.submit("first", search_spec("parabola", 6), "--wait")


async def test_status_shows_every_process_ready_with_its_health_port(home: StackFolder) -> None:
    found: dict[str, Any] = {}

    async def ready() -> bool:  # a service that waits for an answer of Kafka just now says that it isn't
        found.update(json.loads(home.run("status", "--json").stdout))
        return found["ready"] is True

    await poll_until(ready)
    services = {row["name"]: row for row in found["processes"]}
    decide = {"dispatcher", "scheduler", "worker"}
    assert services.keys() == {"kafka", "postgres", "summary-indexer", "console", *decide}
    assert all(row["pid"] for row in services.values())
    assert all(services[name]["health_port"] for name in decide)
    assert len(found["devices"]) == SLOTS


def test_starting_again_finds_the_stack_that_runs(home: StackFolder) -> None:
    assert "runs already" in home.run_ok("up")


def test_a_search_is_submitted_watched_listed_shown_and_replayed(home: StackFolder) -> None:
    name = home.id("parabola")
    (home.path / "parabola.yaml").write_text(search_spec("parabola", 6))
    answer, end = home.json_lines("submit", "parabola.yaml", "--id", name, "--wait")
    assert answer["answer"] == "accepted"
    assert (end["status"], end["trials"]) == ("DONE", 6)
    assert home.json_lines("watch", name) == [end]

    events = home.json_lines("events", name)
    assert events[0]["type"] == "trackside.command-received.v1"
    assert events[-1]["type"] == "trackside.search-ended.v1"
    traces = {event["traceparent"].split("-")[1] for event in events}
    assert len(traces) == 1 + 6, "one trace of the search, and one of each trial"
    middle = events[5]["offset"]
    assert home.json_lines("events", name, "--from", str(middle)) == events[5:]

    assert "nothing found" in home.run_ok("verify-log", name)
    replay = home.json_output("replay", "rebuild")
    assert replay["equal"] is True and replay["events"] >= len(events)
    [row] = [row for row in home.json_output("ls") if row["id"] == name]
    assert (row["status"], row["best_value"]) == ("DONE", end["best_value"])
    assert [trial["status"] for trial in home.json_output("show", name)["trials"]] == ["SUCCEEDED"] * 6
    assert [attempt["attempt"] for attempt in home.json_output("show", f"{name}.0")["attempts"]] == [1]


@pytest.mark.long
def test_a_search_is_run_by_a_script_that_finds_task_and_stack_near_by(home: StackFolder) -> None:
    """D39: and the task runs by itself where there is no search."""
    script = home.home / f"{home.path.name}.py"
    script.write_text(SCRIPT)
    said = home.python(str(script)).split()
    assert said[:3] == ["SUCCEEDED", "True", "6"]
    assert home.json_output("show", said[3])["task_type"] == "parabola"
    alone = "import sys; sys.path[:0] = ['..']; import mine; from trackside.sdk import trial"
    assert home.python("-c", f"{alone}; print(trial.task_id())") == "alone\n"


def test_the_lines_of_a_task_are_followed_while_it_runs_and_shown_afterwards(home: StackFolder) -> None:
    name = home.id("chatty")
    begun, go_on = (home.home / "gates" / f"{name}.{pipe}" for pipe in ("begun", "go-on"))
    os.mkfifo(begun)
    os.mkfifo(go_on)
    home.submit("chatty", search_spec("chatty", 1))
    begun.read_text()
    with home.start("logs", f"{name}.0", "-f") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "begun\n"
        go_on.write_text("")
        rest = following.stdout.read().splitlines()
    assert following.returncode == 0 and sorted(rest) == ["almost", "done"]
    lines = home.json_lines("logs", f"{name}.0")
    assert sorted((line["source"], line["number"], line["text"]) for line in lines) == [
        ("stderr", 1, "almost"),
        ("stdout", 1, "begun"),
        ("stdout", 2, "done"),
    ]
    assert home.run_ok("logs", f"{name}.0", "--source", "stderr") == "almost\n"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("submit", "first.yaml", "--id", "FIRST"), 2, "already_exists"),
        (("watch", "no-such"), 1, "there is no no-such"),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in (
                (("stop", "nobody"), 2, "unknown_search"),
                (("submit", "nowhere.yaml"), 2, "nowhere.yaml"),
                (("submit", "first.yaml", "--id", "a b"), 2, "not an id"),
                (("show", "no-such"), 1, "nothing with the id no-such"),
                (("events", "no-such"), 1, "there is no no-such"),
                (("logs", "FIRST.99"), 1, "there is no task FIRST.99"),
                (("restart", "dispatcher", "kafka"), 2, "kafka is not a service of this stack; it has disp"),
                (("submit",), 2, "SPEC.yaml"),
            )
        ),
    ],
)
def test_what_cannot_be_done_is_said_and_counted(
    home: StackFolder, first: str, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    ended = home.run(*(each.replace("FIRST", first) for each in arguments))
    assert ended.returncode == code, ended.stderr
    assert reason.replace("FIRST", first) in ended.stderr
    assert "Traceback" not in ended.stderr
