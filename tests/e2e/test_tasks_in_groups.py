"""The examples of tasks in groups and of a service, as a user runs them; what is stopped or refused."""

import email
import email.policy
import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.e2e.shared_stack import StackFolder
from tests.e2e.shared_tasks import EXAMPLES
from tests.polling import poll_until_sync
from trackside.embedded.ports import free_ports
from trackside.worker.attempts.memory.cgroups import cgroups_of

pytestmark = pytest.mark.timeout(900)

BROKEN = """
kind: tasks
groups:
  - tasks: [{name: good, task_type: fit}, {name: bad, task_type: broken}]
"""
ENDLESS = """
kind: tasks
groups:
  - tasks: [{name: a, task_type: endless}, {name: b, task_type: endless}]
  - tasks: [{task_type: fit}]
"""
ALONE = """
kind: task
name: alone
task_type: fit
device: cpu-0
"""


def test_t20_t22_the_example_runs_group_after_group_and_is_reported_on(home: StackFolder) -> None:
    fits = home.id("fits")
    answer, end = home.json_lines("submit", str(EXAMPLES / "tasks/tasks.yaml"), "--id", fits, "--wait")
    assert answer["answer"] == "accepted"
    assert (end["status"], end["ends"], end["unfinished"]) == ("DONE", {"finished": 5}, [])
    assert home.json_lines("watch", fits) == [end]

    events = home.json_lines("events", fits)
    kinds = [event["type"].removeprefix("trackside.").removesuffix(".v1") for event in events]
    first_over = kinds.index("group-ended")
    told = [(kind, event["data"].get("task_id")) for kind, event in zip(kinds, events, strict=True)]
    # Sets: on a busy machine an attempt is asked for again, and accepted again.
    ended = {task_id for kind, task_id in told[:first_over] if kind == "attempt-ended"}
    begun = {task_id for kind, task_id in told[:first_over] if kind == "task-accepted"}
    assert ended == begun and len(ended) == 3
    assert kinds[-1] == "batch-ended"
    assert len({event["traceparent"].split("-")[1] for event in events}) == 1, "one trace from end to end"

    shown = home.json_output("show", fits)
    assert [group["status"] for group in shown["groups"]] == ["DONE", "DONE"]
    names = ["1.line", "1.cubic", "1.quintic", "2.cubic", "2.2"]
    assert [task["task_id"] for task in shown["tasks"]] == [f"{fits}.{name}" for name in names]
    report = home.json_output("report", fits)
    assert report["sections"][0]["columns"][0] == "value"
    losses = {row["name"]: row["cells"]["loss"] for row in report["sections"][0]["finished"]}
    assert losses["cubic"] < losses["line"]
    home.run_ok("report", fits, "--html", "fits.html")
    assert "quintic" in (home.path / "fits.html").read_text()
    [row] = [row for row in home.json_output("ls") if row["id"] == fits]
    assert (row["kind"], row["finished_tasks"]) == ("batch", 5)
    assert len(home.json_output("tasks", "--stream", fits, "--state", "ended")) == 5


def test_t21_t22_a_report_is_mailed_when_a_batch_is_over(home: StackFolder) -> None:
    """The one task runs on the device that it names."""
    with mail_server() as (port, mails):
        for number in count():
            batch = home.id(f"mailed-{number}")
            message = mailed(home, port, mails, batch)
            if f"batch {batch}" in message["Subject"]:  # else something of another test has ended first
                break
    body = message.get_body(("plain",))
    assert body is not None and "1 finished, 0 did not finish" in body.get_content()
    [page] = message.iter_attachments()
    assert page.get_filename() == f"{batch}.html" and "alone" in page.get_content()
    [task] = home.json_output("show", batch)["tasks"]
    assert (task["task_id"], task["device_ids"]) == (f"{batch}.1.alone", ["cpu-0"])


def mailed(home: StackFolder, port: int, mails: "queue.Queue[bytes]", batch: str) -> EmailMessage:
    """Lets one mail be sent, and returns it; a batch ends meanwhile."""
    (home.path / "alone.yaml").write_text(ALONE)
    mailing = home.start("mail", "--to", "me@example.org", "--smtp", f"127.0.0.1:{port}", "--max-mails", "1")
    try:
        assert mailing.stdout is not None
        assert "waiting for what ends" in mailing.stdout.readline()
        home.run_ok("submit", "alone.yaml", "--id", batch, "--wait")
        mail = mails.get(timeout=120)
        assert mailing.wait(120) == 0, "it ends when it has sent all that it may"
    finally:
        mailing.kill()
        mailing.communicate()
    message = email.message_from_bytes(mail, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


@contextmanager
def mail_server() -> Iterator[tuple[int, "queue.Queue[bytes]"]]:
    """Yields the port of a mail server, and the mails that it received."""
    mails: queue.Queue[bytes] = queue.Queue()

    class Taker:
        async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
            assert isinstance(envelope.content, bytes)
            mails.put(envelope.content)
            return "250 taken"

    [port] = free_ports(1)
    server = Controller(Taker(), hostname="127.0.0.1", port=port, ready_timeout=60)
    server.start()
    try:
        yield port, mails
    finally:
        server.stop()


@pytest.mark.long
def test_a_batch_of_which_a_task_fails_says_which_and_exits_1(home: StackFolder) -> None:
    (home.path / "broken.yaml").write_text(BROKEN)
    ended = home.run("submit", "broken.yaml", "--id", home.id("broken"), "--wait")
    assert ended.returncode == 1
    assert "1.bad failed in LOAD: FileNotFoundError: no such data" in ended.stdout
    assert "1 of its tasks did not finish" in ended.stderr
    assert home.run("watch", home.id("broken")).returncode == 1
    assert "FileNotFoundError" in home.run_ok("show", home.id("broken"))


@pytest.mark.long
def test_t17_a_task_that_is_killed_at_its_limit_ends_so_and_says_which(
    home: StackFolder, tmp_path: Path
) -> None:
    probe = cgroups_of("probe", tmp_path, 0)
    probe.close()
    if "memory" not in probe.folders:
        pytest.skip("this host has no memory cgroup that may be written to")
    (home.path / "hungry.yaml").write_text("{kind: task, task_type: hungry}")
    ended = home.run("submit", "hungry.yaml", "--id", home.id("hungry"), "--wait", "--json")
    end = json.loads(ended.stdout.splitlines()[-1])
    assert end["ends"] == {"oom_host": 1}
    assert "killed at max_memory of its task type, 143 MiB" in end["unfinished"][0]["message"]
    [task] = home.json_output("show", home.id("hungry"))["tasks"]
    [attempt] = home.json_output("show", task["task_id"])["attempts"]
    assert (attempt["worker_id"], attempt["ending"]) == ("worker", "oom_host")


@pytest.mark.long
def test_one_task_is_stopped_then_the_whole_batch(home: StackFolder) -> None:
    endless = home.submit("endless", ENDLESS)
    home.run_ok("stop", endless, "--task", "a")
    again = home.run("stop", endless, "--task", "nobody")
    assert (again.returncode, "unknown_task" in again.stderr) == (2, True)
    [end] = home.json_lines("stop", endless, "--reason", "seen enough", "--wait")[1:]
    assert (end["status"], end["ends"], end["left_out"]) == ("STOPPED", {"cancelled": 2}, 1)
    home.run_ok("watch", endless)
    groups = home.json_output("show", endless)["groups"]
    assert [group["status"] for group in groups] == ["STOPPED", "SKIPPED"]


@pytest.mark.long
def test_the_example_of_a_service_takes_another_version_of_its_model(home: StackFolder) -> None:
    trained, model = home.id("trained"), home.id("digits")
    home.run_ok("submit", str(EXAMPLES / "serve/train.yaml"), "--id", trained, "--wait")
    home.run_ok("models", "register", model)
    for task in ("weak", "strong"):
        home.run_ok("models", "add", model, "--from", f"{trained}/1.{task}/model.npz")
    poll_until_sync(lambda: len(digests(home, model)) == 2)
    first, second = digests(home, model)
    (home.path / "serve.yaml").write_text(
        (EXAMPLES / "serve/serve.yaml").read_text().replace("model:digits@", f"model:{model}@")
    )
    server = home.id("server")
    submitted = home.run_ok("submit", "serve.yaml", "--id", server)
    assert f"model:{model}@1: {trained}/{trained}.1.weak/model.npz@1, " in submitted
    events = told(home, server)
    url = events["trackside.task-ready.v1"]["detail"]["url"]
    [given] = events["trackside.task-submitted.v2"]["inputs"].values()
    assert given["source"] == f"{trained}/{trained}.1.weak/model.npz@1"
    assert asked(url) == {"sha256": first}

    instruct = ["instruct", server, "1.digits", "--wait", "--command-id", home.id("take-2")]
    said = [home.json_lines(*instruct, "--input", f"model=model:{model}@2") for _ in range(2)]
    assert said == [[{"number": 1, "ok": True, "detail": {"sha256": second}}]] * 2, "it counts once"
    assert asked(url) == {"sha256": second}
    lost: dict[str, Any] = {"uri": f"store:sha256/{1:064x}", "sha256": f"{1:064x}", "size_bytes": 9}
    refused = home.run("instruct", server, "1.digits", json.dumps({"model": lost}), "--wait")
    assert refused.returncode == 1 and "instruction 2 was not carried out" in refused.stdout
    assert lost["sha256"] in refused.stdout and asked(url) == {"sha256": second}
    assert "0/1, 1/1 ready" in home.run_ok("ls")
    home.run_ok("stop", server, "--wait")
    refused = home.run("instruct", server, "1.digits", "{}")
    assert refused.returncode == 2 and "task_over" in refused.stderr


def told(home: StackFolder, stream: str) -> dict[str, Any]:
    """Waits until a service is ready; returns the last body of each type of event in its stream."""
    found: dict[str, Any] = {}

    def is_ready() -> bool:
        found.update({each["type"]: each["data"] for each in home.json_lines("events", stream)})
        return "trackside.task-ready.v1" in found

    poll_until_sync(is_ready)
    return found


def digests(home: StackFolder, model: str) -> list[str]:
    """Returns the digests of the versions of a model."""
    return [row["sha256"] for row in home.json_output("models", "show", model)["model_versions"]]


def asked(url: str) -> Any:
    with urlopen(url, timeout=30) as answer:
        return json.load(answer)
