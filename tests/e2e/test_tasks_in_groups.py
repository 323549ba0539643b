"""The examples of tasks in groups and of a service, as a user runs them; what is stopped or fails."""

import email
import email.policy
import json
import os
import queue
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.e2e.harness import UserFolder
from tests.polling import poll_until_sync
from trackside.embedded.ports import free_ports
from trackside.worker.attempts.cgroups import cgroups_of

pytestmark = pytest.mark.timeout(900)

EXAMPLE = Path(__file__).parents[2] / "deploy/examples/tasks"
SERVE = EXAMPLE.with_name("serve")
CATALOGUE = f"""
tasks:
  fit: {{entry: "fit:Fit", path: "{EXAMPLE}"}}
  train: {{entry: "train:Train", path: "{SERVE}"}}
  serve: {{entry: "serve:Digits", path: "{SERVE}", runner: service}}
  save: {{entry: "mine:Saving", path: .}}
  factor: {{entry: "mine:Factor", path: ., runner: service}}
  endless: {{entry: "mine:Endless", path: .}}
  broken: {{entry: "mine:Broken", path: .}}
  modest: {{entry: "mine:Hungry", path: ., max_memory: 500MB, max_cuda_memory: 500MB}}
  hungry: {{entry: "mine:Hungry", path: ., max_memory: 150MB}}
"""
LARGER_CATALOGUE = 'tasks: {hungry: {entry: "mine:Hungry", path: ., max_memory: 800MB}}'
MINE = """
import os
import threading

from trackside.incremental import InferenceService
from trackside.sdk import Task, trial


class Saving(Task):
    def train(self, device):
        for factor in (b"2", b"3"):
            trial.save("factor.json", factor)


class Factor(InferenceService):
    def predict(self, model, inputs):
        return {"product": model * inputs, "pid": os.getpid()}


class Endless(Task):
    def train(self, device):
        threading.Event().wait()


class Broken(Task):
    def load(self):
        raise FileNotFoundError("no such data")


class Hungry(Task):
    def train(self, device):
        bytearray(300_000_000)
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
MEMORY = """
kind: task
task_type: {task_type}
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


def run_to_end(home: UserFolder, task_type: str, batch: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Runs one task without an estimate; returns the end of its batch, and the attempts of the task."""
    (home.path / "memory.yaml").write_text(MEMORY.format(task_type=task_type))
    end = json.loads(
        home.run("submit", "memory.yaml", "--id", batch, "--wait", "--json").stdout.splitlines()[-1]
    )
    [task] = home.json_output("show", batch)["tasks"]
    return end, home.json_output("show", task["task_id"])["attempts"]


def test_t17_a_type_that_may_have_less_than_the_default_runs_without_an_estimate(home: UserFolder) -> None:
    end, [attempt] = run_to_end(home, "modest", "modest-1")
    assert end["ends"] == {"finished": 1}
    assert (attempt["reserved_memory_bytes"], attempt["estimated_by"]) == (500_000_000, "default")


@pytest.fixture
def memory_cgroup(tmp_path: Path) -> None:
    """Skips a test where the kernel enforces no memory limit of a task type."""
    probe = cgroups_of("probe", tmp_path, 0)
    probe.close()
    if "memory" not in probe.folders:
        pytest.skip("this host has no memory cgroup that may be written to")


@pytest.mark.usefixtures("memory_cgroup")
def test_t17_a_task_that_is_killed_at_its_limit_ends_so_and_says_which(home: UserFolder) -> None:
    end, [attempt] = run_to_end(home, "hungry", "hungry-1")
    assert end["ends"] == {"oom_host": 1}
    assert (attempt["worker_id"], attempt["ending"]) == ("worker", "oom_host")
    assert "killed at max_memory of its task type, 143 MiB" in end["unfinished"][0]["message"]


@pytest.mark.usefixtures("memory_cgroup")
def test_t17_a_task_that_is_killed_at_its_limit_is_tried_again_on_a_worker_that_allows_more(
    home: UserFolder,
) -> None:
    (home.path / "larger.yaml").write_text(LARGER_CATALOGUE)
    settings = {"ID": "larger", "CATALOGUE": "larger.yaml", "DATA_DIR": "larger", "PRELOAD": "json"}
    variables = {f"TRACKSIDE_WORKER_{name}": value for name, value in settings.items()}
    broker = json.loads((home.path / ".trackside/stack.json").read_text())["bootstrap_servers"]
    larger = UserFolder(home.path, {**variables, "TRACKSIDE_KAFKA_BOOTSTRAP": broker}).start("worker")
    try:
        poll_until_sync(lambda: "larger" in {row["worker_id"] for row in home.json_output("devices")})
        end, attempts = run_to_end(home, "hungry", "hungry-2")
        assert end["ends"] == {"finished": 1}
        assert [(each["worker_id"], each["ending"]) for each in attempts] == [
            ("worker", "oom_host"),
            ("larger", "finished"),
        ]
    finally:
        larger.terminate()
        larger.communicate()


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


def test_the_example_of_a_service_takes_another_version_of_its_model(home: UserFolder) -> None:
    home.run_ok("submit", str(SERVE / "train.yaml"), "--id", "digits-1", "--wait")
    home.run_ok("models", "register", "digits")
    for task in ("weak", "strong"):
        home.run_ok("models", "add", "digits", "--from", f"digits-1/1.{task}/model.npz")
    poll_until_sync(lambda: len(_digests(home)) == 2)
    first, second = _digests(home)
    submitted = home.run_ok("submit", str(SERVE / "serve.yaml"), "--id", "server")
    assert "model:digits@1: digits-1/digits-1.1.weak/model.npz@1, " in submitted
    told: dict[str, Any] = {}

    def is_ready() -> bool:
        told.update({each["type"]: each["data"] for each in home.json_lines("events", "server")})
        return "trackside.task-ready.v1" in told

    poll_until_sync(is_ready)
    [given] = told["trackside.task-submitted.v2"]["inputs"].values()
    assert given["source"] == "digits-1/digits-1.1.weak/model.npz@1"
    url = told["trackside.task-ready.v1"]["detail"]["url"]
    assert _asked(url) == {"sha256": first}

    instruct = ["instruct", "server", "1.digits", "--wait", "--command-id", "take-2"]
    said = [home.json_lines(*instruct, "--input", "model=model:digits@2") for _ in range(2)]
    assert said == [[{"number": 1, "ok": True, "detail": {"sha256": second}}]] * 2, "it counts once"
    assert _asked(url) == {"sha256": second}
    lost: dict[str, Any] = {"uri": f"store:sha256/{1:064x}", "sha256": f"{1:064x}", "size_bytes": 9}
    refused = home.run("instruct", "server", "1.digits", json.dumps({"model": lost}), "--wait")
    assert refused.returncode == 1 and "instruction 2 was not carried out" in refused.stdout
    assert lost["sha256"] in refused.stdout and _asked(url) == {"sha256": second}
    assert "0/1, 1/1 ready" in home.run_ok("ls")
    home.run_ok("stop", "server", "--wait")
    refused = home.run("instruct", "server", "1.digits", "{}")
    assert refused.returncode == 2 and "task_over" in refused.stderr


def test_an_inference_service_takes_models_and_has_the_newest_after_a_kill(home: UserFolder) -> None:
    """I28: an instruction names a model; the attempt after a kill -9 begins with it."""
    (home.path / "save.yaml").write_text("{kind: task, name: save, task_type: save}")
    home.run_ok("submit", "save.yaml", "--id", "factors-1", "--wait")
    fields = ("uri", "sha256", "size_bytes", "media_type", "source")
    saved: list[dict[str, Any]] = [
        {key: each["data"][key] for key in fields if key in each["data"]}
        for each in home.json_lines("events", "factors-1")
        if each["type"] == "trackside.artifact-saved.v1" and each["data"]["name"] == "factor.json"
    ]
    versions: list[dict[str, Any]] = [
        {"model": "factors", "version": number, "format": "json", "artifact": each}
        for number, each in enumerate(saved, 1)
    ]
    two, three = versions
    spec: dict[str, Any] = {"kind": "task", "name": "factor", "task_type": "factor", "service": True}
    spec |= {"inputs": {"model": two["artifact"]}, "resources": {"devices": 0}}
    spec |= {"parameters": {"service": {"job": "j", "name": "n", "replica": 1, "update": 1, "model": two}}}
    (home.path / "factor.yaml").write_text(json.dumps(spec))
    home.run_ok("submit", "factor.yaml", "--id", "factor")
    assert _predicted(_address(home, 1))["outputs"]["product"] == 10

    body = json.dumps({"update": 2, "model": three})
    said = home.json_lines("instruct", "factor", "1.factor", body, "--wait")
    assert said[-1]["detail"] == {"update": 2, "version": 2, "sha256": three["artifact"]["sha256"]}
    answer = _predicted(_address(home, 1))
    assert (answer["outputs"]["product"], answer["version"], answer["update"]) == (15, 2, 2)
    os.kill(answer["outputs"]["pid"], signal.SIGKILL)
    again = _predicted(_address(home, 2))
    assert (again["outputs"]["product"], again["sha256"]) == (15, three["artifact"]["sha256"])
    home.run_ok("stop", "factor", "--wait")


def _address(home: UserFolder, attempt: int) -> str:
    """Waits until an attempt of the service is ready; returns where it answers."""
    found: list[str] = []

    def is_ready() -> bool:
        found.extend(
            each["data"]["detail"]["address"]
            for each in home.json_lines("events", "factor")
            if each["type"] == "trackside.task-ready.v1" and each["data"]["attempt"] == attempt
        )
        return bool(found)

    poll_until_sync(is_ready)
    return found[-1]


def _predicted(address: str) -> Any:
    request = Request(f"{address}/predict", b'{"inputs": 5}', {"Content-Type": "application/json"})
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


def _digests(home: UserFolder) -> list[str]:
    """Returns the digests of the versions of the model."""
    return [row["sha256"] for row in home.json_output("models", "show", "digits")["model_versions"]]


def _asked(url: str) -> Any:
    with urlopen(url, timeout=30) as answer:
        return json.load(answer)
