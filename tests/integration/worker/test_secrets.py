"""Secrets of a host: which task is given one, and that its value is in nothing that the task writes."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import error_of
from tests.integration.worker.saved import all_files, all_records
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskRefused

VALUE = 'canary-7f3a"9\\c1/é'
KEY = "-----BEGIN-" + "KEY\nline-one-of-it\nline-two-of-it\nEND"
WRITES = """
key = json.loads(open(os.environ["TRACKSIDE_PARAMETERS_FILE"]).read())["key"]
mode = os.stat(os.environ["TRACKSIDE_PARAMETERS_FILE"]).st_mode & 0o777
print("the key is", key)
print(json.dumps({"a": key}), repr(key))
print("x" * 65530 + key + "y" * 70000)
print(os.environ["PEM"])
print(os.environ["PEM"], file=sys.stderr)
say(metric=key, value=1.0, step=0)
say(report={"value": 0.5, key: 1.0}, step=0)
say(result={"key": key, "right": key == %r, "nested": [{key: os.environ["PEM"]}], "mode": mode})
"""
RAISES = """
from trackside.sdk import Task, trial

class Failing(Task):
    def train(self, device):
        import os, subprocess, sys
        key = trial.parameters()["options"][0]["key"]
        environ = open("/proc/self/environ").read() + open("/proc/self/cmdline").read()
        assert key not in environ and os.environ["PEM"] not in environ
        password = "2retnuh"[::-1]
        raise RuntimeError("x" * 4000 + key + " was refused, password=" + password)
"""


def secrets(folder: Path, **values: str) -> Path:
    """Makes a folder with files of secrets."""
    folder.mkdir()
    for name, value in values.items():
        path = folder / name.replace("_", "-")
        path.touch(0o600)
        path.write_text(value + "\n")
    return folder


async def test_a_program_gets_its_secrets_and_nothing_that_it_writes_has_them(tmp_path: Path) -> None:
    folder = secrets(tmp_path / "secrets", the_key=VALUE, pem=KEY)
    more = ", secrets: [the-key], environment: [{PEM: {secret: pem}}]"
    catalogue = task_of(tmp_path, WRITES % VALUE, more=more)
    async with started(tmp_path, catalogue, secrets_dir=folder, keep_workdirs=True) as harness:
        end = await harness.ended("t", {"key": {"secret": "the-key"}}, task_type="a")
        await harness.output("t", lambda text: "line 1" in text or text.count("[redacted]") > 8)
        written = await all_records(harness)
    files = all_files(tmp_path / "worker")
    assert end.result == {
        "key": "[redacted]",
        "right": True,
        "nested": [{"[redacted]": "[redacted]"}],
        "mode": 0o600,
    }
    for canary in ("canary-7f3a", "line-one-of-it", "line-two-of-it"):
        assert canary not in written
        assert canary not in files
    assert '{"secret": "the-key"}' not in files, "its folder is not kept"


async def test_an_exception_of_a_class_shows_no_secret_and_its_process_has_it_in_no_list(
    tmp_path: Path,
) -> None:
    folder = secrets(tmp_path / "secrets", the_key=VALUE, pem=KEY)
    (tmp_path / "failing.py").write_text(RAISES)
    more = ", runner: warm, secrets: [the-key], environment: [{PEM: {secret: pem}}]"
    catalogue = task_of(tmp_path, task="entry: 'failing:Failing'", more=more)
    async with started(tmp_path, catalogue, secrets_dir=folder) as harness:
        end = await harness.ended("t", {"options": [{"key": {"secret": "the-key"}}]}, task_type="a")
        written = await all_records(harness)
    assert end.error is not None and end.error.type == "RuntimeError", end.error
    assert "[redacted] was refused, password=[redacted]" in end.error.traceback
    assert [each for each in ("canary-7f3a", "hunter2") if each in written] == []


def broken(folder: Path) -> dict[str, str]:
    """Breaks the files of secrets, one way each; returns what their errors say."""
    (folder / "open").chmod(0o640)
    (folder / "link").symlink_to(folder / "nothing")
    (folder / "folder").mkdir()
    (folder / "binary").write_bytes(b"\xff")
    (folder / "binary").chmod(0o600)
    os.mkfifo(folder / "pipe", 0o600)
    found = {}
    if os.geteuid() == 0:  # only root may give a file to another user
        os.chown(folder / "foreign", 65_534, -1)
        others = "the file is of user 65534: expected one of user 0 or of root"
        found["foreign"] = f"foreign: {folder}/foreign: {others}"
    return found | {
        "open": f"open: {folder}/open: others than its owner may use the file (mode 0640): expected 0600",
        "link": f"link: expected {folder}/link with mode 0600, there is no such file",
        "none": f"none: expected {folder}/none with mode 0600, there is no such file",
        "folder": f"folder: {folder}/folder: not a file",
        "pipe": f"pipe: {folder}/pipe: not a file",
        "binary": "binary: the value is not UTF-8; have it in base64",
        "empty": "empty: the value is empty",
    }


async def test_a_secret_that_cannot_be_had_ends_the_attempt_with_what_was_expected(tmp_path: Path) -> None:
    folder = secrets(tmp_path / "secrets", open="s", empty="", foreign="hunter2")
    expected = broken(folder)
    catalogue = task_of(tmp_path, more=f", secrets: [{', '.join(expected)}]")
    async with started(tmp_path, catalogue, secrets_dir=folder) as harness:
        for name, message in expected.items():
            end = await harness.ended(name, {"key": {"secret": name}}, task_type="a")
            assert error_of(end, "START", "secret_missing").message.startswith(message)


COMMAND = """
import os, subprocess, sys, time
name = sys.argv[-1]
if name == "good":
    print("value-of-" + name)
elif name == "wrong":
    sys.exit("no such entry, password=hunter2")
else:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
"""


async def test_a_command_gives_secrets_within_its_time_and_without_a_shell(tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(COMMAND)
    catalogue = task_of(
        tmp_path,
        'say(result={"right": json.load(open("parameters.json"))["key"] == "value-of-good"})',
        more=", secrets: [good, wrong, slow]",
    )
    more = {"secret_command": f"{sys.executable} {tmp_path}/command.py '$(id)'", "secret_timeout_s": 2.0}
    async with started(tmp_path, catalogue, **more) as harness:
        good, wrong, slow = [
            await harness.ended(name, {"key": {"secret": name}}, task_type="a")
            for name in ("good", "wrong", "slow")
        ]
    assert good.result == {"right": True}
    assert wrong.error is not None and slow.error is not None
    assert wrong.error.message == (
        f"wrong: {sys.executable} ended with exit code 1: no such entry, password=[redacted]"
    )
    assert slow.error.message.startswith(f"slow: {sys.executable} did not end within 2 s and was killed")


async def test_a_task_can_be_stopped_while_its_secret_is_awaited(tmp_path: Path) -> None:
    pids = tmp_path / "pid"
    (tmp_path / "command.py").write_text(COMMAND.replace("if name", f"open({str(pids)!r}, 'w')\nif name", 1))
    os.mkfifo(pids)  # the command waits until it is opened here
    catalogue = task_of(tmp_path, more=", secrets: [slow]")
    more = {"secret_command": f"{sys.executable} {tmp_path}/command.py", "secret_timeout_s": 600.0}
    async with started(tmp_path, catalogue, **more) as harness:
        command = await harness.run("t", {"key": {"secret": "slow"}}, task_type="a")
        with await asyncio.to_thread(pids.open):  # the command runs
            await harness.stop(command)
            end = await harness.end("t")
    assert (end.end, end.error) == (AttemptEnd.CANCELLED, None)


async def test_a_host_without_secrets_says_so_and_runs_other_tasks(tmp_path: Path) -> None:
    catalogue = task_of(tmp_path, more=", secrets: [kaggle]")
    async with started(tmp_path, catalogue) as harness:
        end = await harness.ended("t", {"key": {"secret": "kaggle"}}, task_type="a")
        other = await harness.ended("u", {"key": "plain"}, task_type="a")
    assert end.error is not None and "set TRACKSIDE_WORKER_SECRETS_DIR" in end.error.message
    assert other.end is AttemptEnd.FINISHED


async def test_a_publisher_can_name_only_what_the_catalogue_allows_and_where_a_text_may_be(
    tmp_path: Path,
) -> None:
    folder = secrets(tmp_path / "secrets", kaggle="hunter2", root="hunter2")
    schema = "{properties: {key: {type: string, minLength: 99}, number: {type: number}}}"
    catalogue = task_of(tmp_path, more=f", secrets: [kaggle], parameters: {schema}")
    async with started(tmp_path, catalogue, secrets_dir=folder) as harness:
        await harness.run("a", {"key": {"secret": "root"}}, task_type="a")
        await harness.run("b", {"number": {"secret": "kaggle"}}, task_type="a")
        await harness.run("c", {"key": {"secret": "kaggle"}}, task_type="a")
        refused = [await harness.event(TaskRefused, name) for name in ("a", "b")]
        end = await harness.event(AttemptEnded, "c")
    assert [(each.code, each.message) for each in refused] == [
        (
            "secret_not_allowed",
            "$.key: the parameters of a may name kaggle, and name 'root': add it to `secrets` of the task "
            "type in the catalogue of the worker",
        ),
        ("bad_parameters", '$.number: "(a secret)" is not of type "number" (rule: type)'),
    ]
    assert end.end is AttemptEnd.FINISHED
    assert "hunter2" not in json.dumps([each.model_dump(mode="json") for each in (*refused, end)])
