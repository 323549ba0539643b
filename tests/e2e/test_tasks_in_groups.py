"""The example of tasks in groups, from `trackside submit` to `trackside report`; what is stopped or fails."""

import email
import email.policy
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.e2e.harness import UserFolder
from trackside.embedded.ports import free_ports

pytestmark = pytest.mark.timeout(900)

EXAMPLE = Path(__file__).parents[2] / "deploy/examples/tasks"
CATALOGUE = f"""
tasks:
  fit: {{entry: "fit:Fit", path: "{EXAMPLE}"}}
  endless: {{entry: "mine:Endless", path: .}}
  broken: {{entry: "mine:Broken", path: .}}
"""
MINE = """
import threading

from trackside.sdk import Task


class Endless(Task):
    def train(self, device):
        threading.Event().wait()


class Broken(Task):
    def load(self):
        raise FileNotFoundError("no such data")
"""
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


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[UserFolder]:
    path = tmp_path_factory.mktemp("home")
    folder = UserFolder(path, {"TRACKSIDE_WORKER_PRELOAD": "json"})
    (path / "mine.py").write_text(MINE)
    (path / "catalogue.yaml").write_text(CATALOGUE)
    for name, text in (("broken", BROKEN), ("endless", ENDLESS), ("alone", ALONE)):
        (path / f"{name}.yaml").write_text(text)
    folder.run_ok("up", "--leash", str(leash))
    yield folder
    folder.run_ok("down")
    assert folder.processes() == []


def test_t20_t22_the_example_runs_group_after_group_and_is_reported_on(home: UserFolder) -> None:
    answer, end = home.json_lines("submit", str(EXAMPLE / "tasks.yaml"), "--id", "fits-1", "--wait")
    assert answer["answer"] == "accepted"
    assert (end["status"], end["ends"], end["unfinished"]) == ("DONE", {"finished": 5}, [])
    assert home.json_lines("watch", "fits-1") == [end]

    events = home.json_lines("events", "fits-1")
    kinds = [event["type"].removeprefix("trackside.").removesuffix(".v1") for event in events]
    first_over = kinds.index("group-ended")
    told = [(kind, event["data"].get("task_id")) for kind, event in zip(kinds, events, strict=True)]
    # Sets: on a busy machine an attempt is asked for again, and accepted again.
    ended = {task_id for kind, task_id in told[:first_over] if kind == "attempt-ended"}
    begun = {task_id for kind, task_id in told[:first_over] if kind == "task-accepted"}
    assert ended == begun and len(ended) == 3
    assert kinds[-1] == "batch-ended"
    assert len({event["traceparent"].split("-")[1] for event in events}) == 1, "one trace from end to end"

    shown = home.json_output("show", "fits-1")
    assert [group["status"] for group in shown["groups"]] == ["DONE", "DONE"]
    assert [task["task_id"] for task in shown["tasks"]] == [
        "fits-1.1.line",
        "fits-1.1.cubic",
        "fits-1.1.quintic",
        "fits-1.2.cubic",
        "fits-1.2.2",
    ]
    report = home.json_output("report", "fits-1")
    assert report["sections"][0]["columns"][0] == "value"
    losses = {row["name"]: row["cells"]["loss"] for row in report["sections"][0]["finished"]}
    assert losses["cubic"] < losses["line"]
    home.run_ok("report", "fits-1", "--html", "fits.html")
    assert "quintic" in (home.path / "fits.html").read_text()
    [row] = [row for row in home.json_output("ls") if row["id"] == "fits-1"]
    assert (row["kind"], row["finished_tasks"]) == ("batch", 5)
    assert len(home.json_output("tasks", "--stream", "fits-1", "--state", "ended")) == 5
    assert {row["device_id"] for row in home.json_output("devices")} == {"cpu-0", "cpu-1"}
    assert home.json_output("replay", "rebuild")["equal"] is True
    for text in (home.run_ok("show", "fits-1"), home.run_ok("report", "fits-1"), home.run_ok("tasks")):
        assert max(len(line) for line in text.splitlines()) <= 100


def test_t21_t22_a_report_is_mailed_when_a_batch_is_over(home: UserFolder) -> None:
    with mail_server() as (port, mails):
        mailing = home.start(
            "mail", "--to", "me@example.org", "--smtp", f"127.0.0.1:{port}", "--max-mails", "1"
        )
        try:
            assert mailing.stdout is not None
            assert "waiting for what ends" in mailing.stdout.readline()
            home.run_ok("submit", "alone.yaml", "--id", "mailed-1", "--wait")
            mail = mails.get(timeout=120)
            assert mailing.wait(120) == 0, "it ends when it has sent all that it may"
        finally:
            mailing.kill()
            mailing.communicate()
    message = email.message_from_bytes(mail, policy=email.policy.default)
    assert "batch mailed-1" in message["Subject"]
    assert "1 finished, 0 did not finish" in message.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    [page] = message.iter_attachments()
    assert page.get_filename() == "mailed-1.html" and "alone" in page.get_content()


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


def test_one_task_alone_runs_on_the_device_it_names(home: UserFolder) -> None:
    home.run_ok("submit", "alone.yaml", "--id", "alone-1", "--wait")
    [task] = home.json_output("show", "alone-1")["tasks"]
    assert (task["task_id"], task["device_ids"]) == ("alone-1.1.alone", ["cpu-0"])


def test_a_batch_of_which_a_task_fails_says_which_and_exits_1(home: UserFolder) -> None:
    ended = home.run("submit", "broken.yaml", "--id", "broken-1", "--wait")
    assert ended.returncode == 1
    assert "1.bad failed in LOAD: FileNotFoundError: no such data" in ended.stdout
    assert "1 of its tasks did not finish" in ended.stderr
    assert home.run("watch", "broken-1").returncode == 1
    assert "FileNotFoundError" in home.run_ok("show", "broken-1")


def test_one_task_is_stopped_then_the_whole_batch(home: UserFolder) -> None:
    home.run_ok("submit", "endless.yaml", "--id", "endless-1")
    home.run_ok("stop", "endless-1", "--task", "a")
    again = home.run("stop", "endless-1", "--task", "nobody")
    assert (again.returncode, "unknown_task" in again.stderr) == (2, True)
    [end] = home.json_lines("stop", "endless-1", "--reason", "seen enough", "--wait")[1:]
    assert (end["status"], end["ends"], end["left_out"]) == ("STOPPED", {"cancelled": 2}, 1)
    home.run_ok("watch", "endless-1")
    assert [group["status"] for group in home.json_output("show", "endless-1")["groups"]] == [
        "STOPPED",
        "SKIPPED",
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (ALONE.replace("cpu-0", "gpu-9"), "unknown_device"),
        (ALONE.replace("fit", "fitt"), "unknown_task_type"),
    ],
)
def test_what_nobody_has_is_refused_with_what_there_is(home: UserFolder, text: str, code: str) -> None:
    (home.path / "refused.yaml").write_text(text)
    ended = home.run("submit", "refused.yaml")
    assert (ended.returncode, code in ended.stderr) == (2, True)
    assert "worker/cpu-0" in ended.stderr or "did you mean 'fit'" in ended.stderr
