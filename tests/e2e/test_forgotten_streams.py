"""An encrypted stream, from its first command until it is forgotten: what of it can be read, and where."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.harness import UserFolder
from tests.e2e.leaks import records, rows
from tests.polling import poll_until_sync
from tests.stack import Servers
from trackside.embedded import stack as embedded

pytestmark = pytest.mark.timeout(900)

PARAMETER, OUTPUT, RESULT, SUMMARY = "canary-given", "canary-printed", "canary-returned", "canary-shown"
CANARIES = [each.encode() for each in (PARAMETER, OUTPUT, RESULT, SUMMARY)]
SCRIPT = """
from trackside.sdk import Task, trial

class Treating(Task):
    def train(self, device):
        assert trial.parameters()["patient"] == "canary-given"
        print("canary-" + "printed")
        trial.log(heart_rate=71.0)
        trial.metric("canary-" + "shown", 1.0)
        trial.report(1.0)
        trial.save("scan", b"canary-" + b"returned")
        return {"diagnosis": "canary-" + "returned"}
"""
CATALOGUE = "tasks:\n  treating: {entry: 'script:Treating', path: .}\n"
SPEC = """
kind: tasks
groups:
  - tasks:
      - {name: treat, task_type: treating, parameters: {patient: canary-given}}
"""
READABLE = ("trackside.commands'", "trackside.device.")
"""What is in these topics is removed by their retention, of a day and of seven."""


@dataclass(frozen=True)
class Installation:
    """A running stack, and where its records and rows are."""

    home: UserFolder
    bootstrap: str
    prefix: str
    dsn: str

    def run(self, *arguments: str) -> str:
        """Runs a command that must end with 0."""
        return self.home.run_ok(*arguments)

    def leaks_of_topics(self) -> list[bytes]:
        """Returns the records that show what was planted, but for those that retention removes."""
        found = asyncio.run(records(self.bootstrap, self.prefix))
        assert len(found) > 10
        leaks = [each for each in found if any(canary in each for canary in CANARIES)]
        return [each for each in leaks if not any(name.encode() in each for name in READABLE)]

    def leaks_of_tables(self) -> list[bytes]:
        """Returns the rows that show what was planted."""
        found = asyncio.run(rows(self.dsn))
        return [each for each in found if any(canary in each for canary in CANARIES)]


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory, stack: Servers, module_database: str, leash: Path
) -> Iterator[Installation]:
    path = tmp_path_factory.mktemp("forgotten")
    for name, text in (("script.py", SCRIPT), ("catalogue.yaml", CATALOGUE), ("spec.yaml", SPEC)):
        (path / name).write_text(text)
    prefix = f"{path.name}."
    home = UserFolder(
        path,
        {
            "TRACKSIDE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
            "TRACKSIDE_POSTGRES_DSN": module_database,
            "TRACKSIDE_TOPIC_PREFIX": prefix,
            "TRACKSIDE_WORKER_PRELOAD": "",
        },
    )
    try:
        home.run_ok("up", "--leash", str(leash), "--slots", "2")
        yield Installation(home, stack.kafka_bootstrap, prefix, module_database)
    finally:
        embedded.stop(path / ".trackside")


def test_the_log_of_an_encrypted_stream_shows_nothing_and_all_commands_do(installation: Installation) -> None:
    run = installation.run
    run("submit", "spec.yaml", "--id", "secret", "--encrypted", "--wait")
    run("submit", "spec.yaml", "--id", "plain", "--wait")
    leaks = installation.leaks_of_topics()
    assert any(b"plain" in each for each in leaks)
    assert not [each for each in leaks if b"'secret" in each or b"secret" in each]
    assert RESULT in run("show", "secret.1.treat") and OUTPUT in run("logs", "secret.1.treat")
    assert "nothing found" in run("verify-log")
    assert "equal" in run("replay", "rebuild")
    assert PARAMETER in run("replay", "show", "secret", "--json")


def test_what_is_forgotten_is_in_no_table_and_no_command_shows_it(
    installation: Installation,
) -> None:
    run = installation.run
    assert any(b"secret" in each for each in installation.leaks_of_tables())
    said = run("forget", "secret", "--reason", "the patient asks for it", "--yes")
    assert "7 days" in said
    poll_until_sync(lambda: not [each for each in installation.leaks_of_tables() if b"secret" in each])
    keyless = asyncio.run(rows(installation.dsn))
    assert not [each for each in keyless if b"trackside_keys" in each]
    assert "FORGOTTEN" in run("ls") and "1 task" in run("show", "secret")
    for command in (("replay", "show"), ("replay", "export")):
        ended = installation.home.run(*command, "secret")
        assert ended.returncode != 0 and "forgotten" in ended.stderr, (command, ended)
    assert OUTPUT not in installation.home.run("logs", "secret.1.treat").stdout
    refused = installation.home.run("submit", "spec.yaml", "--id", "secret")
    assert refused.returncode == 2 and "stream_forgotten" in refused.stderr
    assert installation.leaks_of_topics() != []  # those of the other batch
    assert PARAMETER in run("replay", "show", "plain", "--json")


def test_readers_that_never_had_the_key_have_the_same_rows(installation: Installation) -> None:
    run = installation.run
    assert "nothing found" in run("verify-log")
    assert "equal" in run("replay", "rebuild")
    run("down")
    run("up", "--slots", "2")
    assert "FORGOTTEN" in run("ls")
    assert "equal" in run("replay", "rebuild")
    assert "answered" in run("ping")


def test_a_stream_that_is_not_encrypted_is_not_forgotten(installation: Installation) -> None:
    refused = installation.home.run("forget", "plain", "--reason", "a try", "--yes")
    assert refused.returncode == 2 and "not_encrypted" in refused.stderr
