import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT
from trackside.eventlog.settings.variables import KNOWN, SETTINGS, unknown_variables

RUN_COMMAND = "from trackside.cli.app import main; main()"
_NAME = re.compile(r"\bTRACKSIDE_[A-Z][A-Z_]*[A-Z]\b")


def test_a_misspelt_variable_is_named_with_the_nearest_and_no_other_is() -> None:
    [said] = unknown_variables({"TRACKSIDE_KAFKA_BOOTSRAP": "x", "HOME": "/root", "_TRACKSIDE_COMPLETE": "1"})
    assert said == (
        "TRACKSIDE_KAFKA_BOOTSRAP has no effect: this release has no such variable; "
        "did you mean 'TRACKSIDE_KAFKA_BOOTSTRAP'?"
    )
    ours = {"TRACKSIDE_WORKER_QUEUES": "gpu", "TRACKSIDE_TASK_ID": "digits-1.7", "TRACKSIDE_TEST_RUN": "1"}
    address = "10.0.0.1"  # as Kubernetes makes them
    made = {"TRACKSIDE_KAFKA_SERVICE_HOST": address, "TRACKSIDE_KAFKA_PORT_9092_TCP_ADDR": address}
    assert unknown_variables({**ours, **made, "TRACKSIDE_KAFKA_PORT": "tcp://10.0.0.1:9092"}) == []


def test_the_settings_are_those_of_all_services() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `(TRACKSIDE_\w+)`", page, re.MULTILINE))
    assert documented == SETTINGS, (
        "eventlog/settings/variables.py lists the fields of all classes of settings"
    )


def test_every_variable_in_the_code_is_known() -> None:
    sources = (path for folder in ("libs", "services") for path in (ROOT / folder).rglob("src/**/*.py"))
    texts = [path.read_text("utf-8") for path in sources]
    named = {name for text in texts for name in _NAME.findall(text)}
    assert unknown_variables(dict.fromkeys(named - {"TRACKSIDE_COMPLETE"}, "")) == []
    assert len(named & KNOWN) > 20


@pytest.mark.thorough
@pytest.mark.parametrize(
    "argv",
    [
        ["schemas", "schemas"],
        *(
            pytest.param(["trackside." + service], marks=pytest.mark.thorough)
            for service in ("dispatcher", "scheduler", "summary_indexer", "worker")
        ),
    ],
    ids=lambda argv: argv[0],
)
def test_commands_and_services_name_it_once_and_go_on(argv: list[str], tmp_path: Path) -> None:
    """A service goes on to its first setting, which is a bad one here, so that it ends."""
    (tmp_path / "catalogue.yaml").write_text("tasks: {}\n")
    variables = {"TRACKSIDE_SCHEDULER_LEASE": "10", "TRACKSIDE_TOPIC_PREFIX": "no prefix"}
    variables["TRACKSIDE_WORKER_HOST_DIR"] = str(tmp_path / "host")
    start = ["-c", RUN_COMMAND] if argv[0] == "schemas" else ["-m"]
    command, env = [sys.executable, *start, *argv], {**os.environ, **variables}
    ended = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    sentence = "TRACKSIDE_SCHEDULER_LEASE has no effect"
    assert ended.stderr.count(sentence) == 1 and "did you mean 'TRACKSIDE_SCHEDULER_LEASE_S'?" in ended.stderr
    assert ended.returncode == (0 if argv[0] == "schemas" else 2)
    assert argv[0] == "schemas" or "TRACKSIDE_TOPIC_PREFIX: " in ended.stderr
