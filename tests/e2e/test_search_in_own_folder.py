"""A user's own search, in an empty folder outside the clone, from `trackside up` to `trackside down`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import UserFolder
from tests.polling import poll_until
from trackside.contracts.topics import Topics
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Outgoing

pytestmark = pytest.mark.timeout(900)

TASKS = """
import sys
import threading
from pathlib import Path

from trackside.sdk import Task, trial


class Parabola(Task):
    def train(self, device):
        value = -((trial.parameters()["x"] - 0.3) ** 2)
        for step in range(3):
            trial.report(value, step=step)
        return {"value": value}


class Endless(Task):
    def train(self, device):
        threading.Event().wait()


class Broken(Task):
    def load(self):
        raise FileNotFoundError("no such data")


class Chatty(Task):
    def train(self, device):
        print("begun")
        here = Path(__file__).parent
        (here / "begun").write_text("")
        (here / "go-on").read_text()  # both are pipes: each end waits for the other
        print("almost", file=sys.stderr)
        print("done")
"""
CATALOGUE = """
tasks:
  parabola: {entry: mine:Parabola, path: .}
  endless: {entry: mine:Endless, path: .}
  broken: {entry: mine:Broken, path: .}
  chatty: {entry: mine:Chatty, path: .}
"""
SCRIPT = """
from mine import Parabola
from trackside.sdk import Search

space = {"x": {"type": "uniform", "low": 0, "high": 1}}
search = Search(Parabola, space, max_trials=6, concurrency=2, seed=7)
best = search.run(timeout_s=250)
print(best.status, best == search.best(), len(search.trials()), search.id)
"""
SPEC = """
kind: search
task_type: TYPE
max_trials: 6
concurrency: 2
space:
  x: {type: uniform, low: 0, high: 1}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[UserFolder]:
    path = tmp_path_factory.mktemp("home")
    folder = UserFolder(path, {"TRACKSIDE_WORKER_PRELOAD": "json"})
    (path / "mine.py").write_text(TASKS)
    (path / "catalogue.yaml").write_text(CATALOGUE)
    for kind in ("parabola", "endless", "broken", "unknown", "chatty"):
        (path / f"{kind}.yaml").write_text(SPEC.replace("TYPE", kind))
    folder.run_ok("up", "--leash", str(leash))
    folder.run_ok("submit", "parabola.yaml", "--id", "first", "--wait")
    yield folder
    folder.run_ok("down")
    assert folder.processes() == []
    assert folder.run("status").returncode == 1


async def test_status_shows_every_process_ready_with_its_health_port(home: UserFolder) -> None:
    found: dict[str, Any] = {}

    async def ready() -> bool:  # a service that waits for an answer of Kafka just now says that it isn't
        found.update(json.loads(home.run("status", "--json").stdout))
        return found["ready"] is True

    await poll_until(ready)
    services = {row["name"]: row for row in found["processes"]}
    assert services.keys() == {
        "kafka",
        "postgres",
        "dispatcher",
        "scheduler",
        "worker",
        "summary-indexer",
        "console",
    }
    assert all(row["state"] == "ready" and row["pid"] for row in services.values())
    assert all(services[name]["health_port"] for name in ("dispatcher", "scheduler", "worker"))
    assert [row["state"] for row in found["devices"]] == ["free", "free"]


def test_starting_again_finds_the_stack_that_runs(home: UserFolder) -> None:
    assert "runs already" in home.run_ok("up")


def test_a_search_is_submitted_watched_listed_shown_and_replayed(home: UserFolder) -> None:
    answer, end = home.json_lines("submit", "parabola.yaml", "--id", "parabola-1", "--wait")
    assert answer["answer"] == "accepted"
    assert (end["status"], end["trials"]) == ("DONE", 6)
    assert home.json_lines("watch", "parabola-1") == [end]

    events = home.json_lines("events", "parabola-1")
    assert events[0]["type"] == "trackside.command-received.v1"
    assert events[-1]["type"] == "trackside.search-ended.v1"
    traces = {event["traceparent"].split("-")[1] for event in events}
    assert len(traces) == 1 + 6, "one trace of the search, and one of each trial"
    middle = events[5]["offset"]
    assert home.json_lines("events", "parabola-1", "--from", str(middle)) == events[5:]

    assert "nothing found" in home.run_ok("verify-log")
    replay = home.json_output("replay", "rebuild")
    assert replay["equal"] is True and replay["events"] >= len(events)
    [row] = [row for row in home.json_output("ls") if row["search_id"] == "parabola-1"]
    assert (row["status"], row["best_value"]) == ("DONE", end["best_value"])
    shown = home.json_output("show", "parabola-1")
    assert [trial["status"] for trial in shown["trials"]] == ["SUCCEEDED"] * 6
    assert [attempt["attempt"] for attempt in home.json_output("show", "parabola-1.0")["attempts"]] == [1]
    for text in (home.run_ok("ls"), home.run_ok("show", "parabola-1"), home.run_ok("events", "parabola-1")):
        assert max(len(line) for line in text.splitlines()) <= 100


def test_a_search_is_run_by_a_script_that_finds_task_and_stack_near_by(home: UserFolder) -> None:
    """D39: and the task runs by itself where there is no search."""
    (home.path / "find.py").write_text(SCRIPT)
    said = home.python("find.py").split()
    assert said[:3] == ["SUCCEEDED", "True", "6"]
    assert home.json_output("show", said[3])["task_type"] == "parabola"
    assert (
        home.python("-c", "import mine; from trackside.sdk import trial; print(trial.task_id())") == "alone\n"
    )


def test_a_search_that_runs_is_stopped(home: UserFolder) -> None:
    home.run_ok("submit", "endless.yaml", "--id", "endless-1")
    home.run_ok("stop", "endless-1", "--reason", "seen enough", "--wait")
    [end] = home.json_lines("watch", "endless-1")
    assert end["status"] == "STOPPED"
    assert home.json_lines("events", "endless-1")[-1]["data"]["status"] == "STOPPED"


def test_the_error_of_a_task_is_in_the_log_with_its_traceback(home: UserFolder) -> None:
    home.run("submit", "broken.yaml", "--id", "broken-1", "--wait")
    ends = [e["data"] for e in home.json_lines("events", "broken-1") if "attempt-ended" in e["type"]]
    assert len({(end["task_id"], end["attempt"]) for end in ends}) == 6  # an end may be said again
    assert {end["error"]["type"] for end in ends} == {"FileNotFoundError"}
    assert "no such data" in ends[0]["error"]["traceback"]


def test_the_lines_of_a_task_are_followed_while_it_runs_and_shown_afterwards(home: UserFolder) -> None:
    text = (home.path / "chatty.yaml").read_text()
    (home.path / "chatty.yaml").write_text(text.replace("max_trials: 6", "max_trials: 1"))
    os.mkfifo(home.path / "begun")
    os.mkfifo(home.path / "go-on")
    home.run_ok("submit", "chatty.yaml", "--id", "chatty-1")
    (home.path / "begun").read_text()
    with home.start("logs", "chatty-1.0", "-f") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "begun\n"
        (home.path / "go-on").write_text("")
        rest = following.stdout.read().splitlines()
    assert following.returncode == 0 and sorted(rest) == ["almost", "done"]
    lines = home.json_lines("logs", "chatty-1.0")
    assert sorted((line["source"], line["number"], line["text"]) for line in lines) == [
        ("stderr", 1, "almost"),
        ("stdout", 1, "begun"),
        ("stdout", 2, "done"),
    ]
    assert home.run_ok("logs", "chatty-1.0", "--source", "stderr") == "almost\n"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("submit", "unknown.yaml"), 2, "unknown_task_type"),
        (("submit", "parabola.yaml", "--id", "first"), 2, "already_exists"),
        (("stop", "nobody"), 2, "unknown_search"),
        (("submit", "nowhere.yaml"), 2, "nowhere.yaml"),
        (("submit", "parabola.yaml", "--id", "a b"), 2, "not an id"),
        (("watch", "no-such"), 1, "there is no no-such"),
        (("show", "no-such"), 1, "nothing with the id no-such"),
        (("events", "no-such"), 1, "there is no no-such"),
        (("logs", "first.99"), 1, "there is no task first.99"),
        (("logs", "first"), 1, "give one of its tasks, such as first.0"),
        (("submit",), 2, "SPEC.yaml"),
        (("sbmit",), 2, "submit"),
    ],
)
def test_what_cannot_be_done_is_said_and_counted(
    home: UserFolder, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    ended = home.run(*arguments)
    assert ended.returncode == code, ended.stderr
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_command_published_twice_counts_once(home: UserFolder) -> None:
    start = {
        "id": "command-1",
        "type": "trackside.start-search.v1",
        "stream": "published-1",
        "data": {
            "task_type": "parabola",
            "max_trials": 1,
            "space": {"x": {"type": "choice", "values": [0.5]}},
        },
    }
    (home.path / "start.json").write_text(json.dumps(start))
    home.run_ok("publish", "start.json", "--wait")
    home.run_ok("publish", "start.json", "--wait")
    types = [event["type"] for event in home.json_lines("events", "published-1")]
    assert types.count("trackside.search-started.v1") == 1
    assert types.count("trackside.command-accepted.v1") == 2


async def test_bytes_that_nobody_can_decode_are_in_the_dead_letters(home: UserFolder) -> None:
    bootstrap = home.json_output("status")["kafka"]
    place = await _publish(bootstrap, b"\xff not JSON")
    found: list[str] = []

    async def buried() -> bool:
        letters = home.json_output("dead-letters")
        found[:] = [
            row["code"] for row in letters if (row["topic"], row["partition"], row["offset"]) == place
        ]
        return found != []

    await poll_until(buried)
    assert found == ["not_utf8"]
    home.run_ok("submit", "parabola.yaml", "--wait")


async def _publish(bootstrap: str, octets: bytes) -> tuple[str, int, int]:
    topic = Topics().commands.name
    async with KafkaLog(bootstrap, client_id="test") as log:
        appended = await log.publish(topic, 0, Outgoing(b"x", octets, []))
    return topic, 0, appended.offset
