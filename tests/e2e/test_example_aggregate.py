"""An aggregate that only the test tree knows: one folder and two entries, and all of Trackside has it.

`sitecustomize` adds it and its listing in every process of the stack, as a line in `registry.py` and one in
`listings.py` would.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import UserFolder

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[2]
ENTRY = """
from tests.aggregates.repeat.aggregate import REPEAT
from tests.aggregates.repeat.listing import RepeatListing
from trackside.aggregates.listings import LISTINGS
from trackside.aggregates.registry import AGGREGATES

AGGREGATES.add(REPEAT)
LISTINGS[REPEAT.kind] = RepeatListing()
"""
CATALOGUE = f"tasks: {{noop: {{entry: 'noop:Noop', path: '{ROOT / 'deploy/examples/noop'}'}}}}\n"
SEEDS = "kind: repeat\nname: seeds\ntask_type: noop\ntimes: 3\nat_once: 2\n"
LONG = "kind: repeat\ntask_type: noop\ntimes: 100\nparameters: {wait_for_stop: true}\n"
WRONG = "kind: repeat\ntask_type: nope\ntime: 3\nat_once: 0\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[UserFolder]:
    path = tmp_path_factory.mktemp("home")
    (path / "python").mkdir()
    files = {"catalogue.yaml": CATALOGUE, "seeds.yaml": SEEDS, "long.yaml": LONG, "wrong.yaml": WRONG}
    for name, text in {**files, "python/sitecustomize.py": ENTRY}.items():
        (path / name).write_text(text)
    known = {"PYTHONPATH": os.pathsep.join([str(path / "python"), str(ROOT)])}
    folder = UserFolder(path, {"TRACKSIDE_WORKER_PRELOAD": "json", **known})
    folder.run_ok("up", "--leash", str(leash))
    yield folder
    folder.run_ok("down")
    assert folder.processes() == []


@pytest.fixture(scope="module")
def seeds(home: UserFolder) -> str:
    """Runs a repeat to its end, and gives the id of its stream."""
    answer, end = home.json_lines("submit", "seeds.yaml", "--id", "seeds-1", "--wait")
    assert answer["answer"] == "accepted"
    assert end["status"] == "DONE"
    return "seeds-1"


def test_its_tasks_run_in_order_and_no_more_at_once_than_it_asks_for(home: UserFolder, seeds: str) -> None:
    events = home.json_lines("events", seeds)
    types = [event["type"].split(".")[1] for event in events]
    assert types.count("task-submitted") == 3 and types[-1] == "repeat-ended"
    submitted = [event["data"] for event in events if event["type"].startswith("trackside.task-submitted")]
    assert [task["part"] for task in submitted] == [
        {"kind": "run", "number": number, "name": ""} for number in range(3)
    ]
    assert types.index("attempt-ended") < [at for at, name in enumerate(types) if name == "task-submitted"][2]


def test_it_is_listed_and_shown_with_its_rows(home: UserFolder, seeds: str) -> None:
    [line] = [line for line in home.run_ok("ls").splitlines() if line.startswith(seeds)]
    assert line.split()[1:4] == ["repeat", "DONE", "3/3"]
    [row] = [row for row in home.json_output("ls") if row["id"] == seeds]
    assert (row["kind"], row["finished"]) == ("repeat", 3)
    shown = home.run_ok("show", seeds)
    assert "DONE" in shown and all(f"\n{number} " in shown for number in range(3))
    listed = home.json_output("show", seeds)
    assert (listed["status"], listed["times"], len(listed["tasks"])) == ("DONE", 3, 3)
    [end] = home.json_lines("watch", seeds)
    assert (end["repeat_id"], end["status"], end["runs"], end["unfinished"]) == (seeds, "DONE", 3, [])
    [section] = home.json_output("report", seeds)["sections"]
    assert [task["task_id"] for task in section["finished"]] == [f"{seeds}.{number}" for number in range(3)]


def test_why_and_replay_know_it(home: UserFolder, seeds: str) -> None:
    events = home.json_lines("events", seeds)
    *_, last = [event["data"]["task_id"] for event in events if ".attempt-ended." in event["type"]]
    chain = home.run_ok("replay", "why", seeds, last)  # the end of the repeat rests on that of its last task
    assert all(name in chain for name in ("CommandReceived", "RepeatStarted", "RepeatEnded")), chain
    assert "3 runs" in chain
    state = home.json_output("replay", "show", seeds)
    assert (state["kind"], state["state"]["status"]) == ("repeat", "DONE")


def test_its_log_is_rebuilt_verified_and_copied(home: UserFolder, seeds: str) -> None:
    home.run_ok("replay", "rebuild")
    assert home.json_output("verify-log", "--postgres")["findings"] == []
    (home.path / "seeds.jsonl").write_text(home.run_ok("replay", "export", seeds))
    home.run_ok("replay", "import", "seeds.jsonl", "--as", "copied-1")
    assert home.json_output("replay", "show", "imported/copied-1")["state"]["ended"] == 3


def test_a_spec_with_errors_is_refused_with_all_of_them_and_their_lines(home: UserFolder) -> None:
    refused = home.run("submit", "wrong.yaml")
    assert refused.returncode == 2
    assert "wrong.yaml:3: $.time: unknown field 'time'" in refused.stderr
    assert "wrong.yaml:4: $.at_once: " in refused.stderr and "$.times: missing" in refused.stderr


def test_it_can_be_stopped(home: UserFolder) -> None:
    home.run_ok("submit", "long.yaml", "--id", "long-1")
    _, end = home.json_lines("stop", "long-1", "--wait")
    assert end["status"] == "STOPPED"
