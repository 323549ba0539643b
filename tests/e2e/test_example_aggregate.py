"""An aggregate that only the test tree knows: one folder and two entries, and all of Trackside has it.

`sitecustomize` adds it and its listing in every process of the stack, as a line in `registry.py` and one in
`listings.py` would.
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import UserFolder
from tests.stack import Servers

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

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
def home(
    tmp_path_factory: pytest.TempPathFactory, stack: Servers, module_database: str, leash: Path
) -> Iterator[UserFolder]:
    path = tmp_path_factory.mktemp("home")
    (path / "python").mkdir()
    files = {"catalogue.yaml": CATALOGUE, "seeds.yaml": SEEDS, "long.yaml": LONG, "wrong.yaml": WRONG}
    for name, text in {**files, "python/sitecustomize.py": ENTRY}.items():
        (path / name).write_text(text)
    settings = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
        "TRACKSIDE_POSTGRES_DSN": module_database,
        "TRACKSIDE_TOPIC_PREFIX": f"t{secrets.token_hex(4)}.",
        "TRACKSIDE_WORKER_PRELOAD": "json",
        "PYTHONPATH": os.pathsep.join([str(path / "python"), str(ROOT)]),
    }
    folder = UserFolder(path, settings)
    folder.run_ok("up", "--leash", str(leash))
    yield folder
    folder.run_ok("down")
    assert folder.processes() == []


def test_its_tasks_run_in_order_and_every_command_knows_it(home: UserFolder) -> None:
    answer, end = home.json_lines("submit", "seeds.yaml", "--id", "seeds-1", "--wait")
    assert answer["answer"] == "accepted"
    assert (end["repeat_id"], end["status"], end["runs"]) == ("seeds-1", "DONE", 3)
    events = home.json_lines("events", "seeds-1")
    types = [event["type"].split(".")[1] for event in events]
    assert types.count("task-submitted") == 3 and types[-1] == "repeat-ended"
    third = [at for at, name in enumerate(types) if name == "task-submitted"][2]
    assert types.index("attempt-ended") < third, "no more at once than it asks for"
    assert events[third]["data"]["part"] == {"kind": "run", "number": 2, "name": ""}
    assert [(row["kind"], row["finished"]) for row in home.json_output("ls")] == [("repeat", 3)]
    assert len(home.json_output("show", "seeds-1")["tasks"]) == 3

    *_, last = [event["data"]["task_id"] for event in events if ".attempt-ended." in event["type"]]
    chain = home.run_ok("replay", "why", "seeds-1", last)  # the end of all rests on that of the last task
    assert all(name in chain for name in ("CommandReceived", "RepeatStarted", "RepeatEnded", "3 runs")), chain
    home.run_ok("replay", "rebuild")
    assert home.json_output("verify-log", "--postgres")["findings"] == []
    (home.path / "seeds.jsonl").write_text(home.run_ok("replay", "export", "seeds-1"))
    home.run_ok("replay", "import", "seeds.jsonl", "--as", "copied-1")
    assert home.json_output("replay", "show", "imported/copied-1")["state"]["ended"] == 3


def test_it_can_be_stopped(home: UserFolder) -> None:
    home.run_ok("submit", "long.yaml", "--id", "long-1")
    _, end = home.json_lines("stop", "long-1", "--wait")
    assert end["status"] == "STOPPED"


def test_a_spec_with_errors_is_refused_with_all_of_them_and_their_lines(home: UserFolder) -> None:
    refused = home.run("submit", "wrong.yaml")
    assert refused.returncode == 2
    assert "wrong.yaml:3: $.time: unknown field 'time'" in refused.stderr
    assert "wrong.yaml:4: $.at_once: " in refused.stderr and "$.times: missing" in refused.stderr
