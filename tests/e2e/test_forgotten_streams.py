"""An encrypted stream, from its first command until it is forgotten: what of it can be read, and where."""

import asyncio

import pytest

from tests.e2e.leaks import records, rows
from tests.e2e.shared_stack import StackFolder
from tests.polling import poll_until_sync

pytestmark = pytest.mark.timeout(900)

PARAMETER, OUTPUT, RESULT, SUMMARY = "canary-given", "canary-printed", "canary-returned", "canary-shown"
CANARIES = [each.encode() for each in (PARAMETER, OUTPUT, RESULT, SUMMARY)]
SPEC = """
kind: tasks
groups:
  - tasks:
      - {name: treat, task_type: treating, parameters: {patient: canary-given}}
"""
READABLE = (b"trackside.commands'", b"trackside.device.")
"""What is in these topics is removed by their retention, of a day and of seven."""


def leaks_of_topics(home: StackFolder, stream: str) -> list[bytes]:
    """Returns the records about a stream that show what was planted, but for those that retention removes."""
    found = asyncio.run(records(home.stack.bootstrap_servers, "trackside."))
    assert len(found) > 10
    leaks = [each for each in found if stream.encode() in each and any(text in each for text in CANARIES)]
    return [each for each in leaks if not any(name in each for name in READABLE)]


def rows_of(home: StackFolder, stream: str) -> list[bytes]:
    """Returns the rows about a stream that show what was planted, or have its key."""
    found = [each for each in asyncio.run(rows(home.stack.postgres_dsn)) if stream.encode() in each]
    return [each for each in found if any(text in each for text in (*CANARIES, b"trackside_keys"))]


@pytest.fixture(scope="module")
def secret(home: StackFolder) -> str:
    return home.submit("secret", SPEC, "--encrypted", "--wait")


@pytest.fixture(scope="module")
def plain(home: StackFolder) -> str:
    return home.submit("plain", SPEC, "--wait")


@pytest.mark.long
def test_what_was_encrypted_is_shown_by_commands_only_and_once_forgotten_by_none(
    home: StackFolder, secret: str, plain: str
) -> None:
    run = home.run_ok
    assert leaks_of_topics(home, plain) != []
    assert leaks_of_topics(home, secret) == []
    treated = f"{secret}.1.treat"
    assert RESULT in run("show", treated) and OUTPUT in run("logs", treated)
    assert "nothing found" in run("verify-log", secret)
    assert PARAMETER in run("replay", "show", secret, "--json")

    assert rows_of(home, secret) != []
    assert "7 days" in run("forget", secret, "--reason", "the patient asks for it", "--yes")
    poll_until_sync(lambda: rows_of(home, secret) == [])
    [listed] = [line for line in run("ls").splitlines() if line.startswith(secret)]
    assert "FORGOTTEN" in listed and "1 task" in run("show", secret)
    for command in (("replay", "show"), ("replay", "export")):
        ended = home.run(*command, secret)
        assert ended.returncode != 0 and "forgotten" in ended.stderr, (command, ended)
    assert OUTPUT not in home.run("logs", treated).stdout
    refused = home.run("submit", "secret.yaml", "--id", secret)
    assert refused.returncode == 2 and "stream_forgotten" in refused.stderr
    assert leaks_of_topics(home, plain) != []
    assert PARAMETER in run("replay", "show", plain, "--json")
    # This reader never had the key.
    assert "nothing found" in run("verify-log")
    assert "equal" in run("replay", "rebuild")


def test_a_stream_that_is_not_encrypted_is_not_forgotten(home: StackFolder, plain: str) -> None:
    refused = home.run("forget", plain, "--reason", "a try", "--yes")
    assert refused.returncode == 2 and "not_encrypted" in refused.stderr
