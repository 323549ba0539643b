"""Planted secrets and keys of stores: those that tasks are given, those that are written by mistake, and
those that stores answer with, are in no topic, table, log, trace, file or list of processes of a stack.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import botocore.session
import pytest
from aiokafka import AIOKafkaProducer

from tests.e2e.harness import UserFolder
from tests.e2e.job_on_s3 import run_jobs, write_types
from tests.e2e.leaks import Answers, Told, files, process_lists, records, rows
from tests.integration.artifacts.conftest import ACCESS_KEY, SECRET_KEY, S3Server, s3_server
from tests.polling import poll_until_sync
from tests.stack import Servers
from trackside.embedded import stack as embedded

pytestmark = pytest.mark.timeout(900)

OTHER_KEY, OTHER_SECRET = "another-canary-of-the-host", "another+canary/of/the/host/0123456789"
GIVEN, VARIABLE = "canary-given-4f1c", "canary-variable-77e0"
PRINTED, RAISED = "canary-printed-9b2d", "canary-raised-0c5a"
REFUSED, BROKEN = "canary-refused-3a8e", "canary-broken-61d7"
SCRIPT = """
import json, os, resource, time
from pathlib import Path
from trackside.sdk import Task, trial

PRINTED, RAISED = "d2b9-detnirp-yranac"[::-1], "a5c0-desiar-yranac"[::-1]

class Using(Task):
    def train(self, device):
        key, variable = trial.parameters()["key"], os.environ["API_KEY"]
        assert (len(key), len(variable)) == (17, 20)
        print("key", key, "and", variable, "with password=" + PRINTED)
        trial.log(**{key: 1.0})
        trial.report(1.0)
        assert max(resource.getrlimit(resource.RLIMIT_CORE)) <= 1
        trial.save("note", b"-", metadata={"note": variable})
        gate = Path(os.environ["TMPDIR"]).resolve() / "go"
        print("waits at", gate)
        while not gate.exists():
            time.sleep(0.01)
        return {"key": key, "nested": [{variable: key}], "password": PRINTED}

class Raising(Task):
    def train(self, device):
        key = trial.parameters()["key"]
        raise RuntimeError(f"{key}: login failed with PASSWORD: {RAISED}")

class Aborting(Task):
    def train(self, device):
        trial.parameters()["key"]
        os.abort()

class Saving(Task):
    def train(self, device):
        print(json.dumps(dict(os.environ)))
        trial.last_checkpoint()
        trial.report(1.0, 0)
        trial.save("environment", json.dumps(dict(os.environ)).encode())
        trial.checkpoint(1, {"seen": 1})
        return {"given": trial.input("words").read_text()}
"""
CATALOGUE = """
tasks:
  using:
    entry: script:Using
    path: .
    environment: [{API_KEY: {secret: variable}}]
    secrets: [given]
  raising: {entry: 'script:Raising', path: ., secrets: [given]}
  aborting: {entry: 'script:Aborting', path: ., secrets: [given]}
  saving: {entry: 'script:Saving', path: .}
"""
TASKS = """
kind: tasks
groups:
  - tasks:
      - {name: using, task_type: using, parameters: {key: {secret: given}}}
      - {name: raising, task_type: raising, parameters: {key: {secret: given}}}
      - {name: aborting, task_type: aborting, parameters: {key: {secret: given}}}
"""
SEARCH = """
kind: search
task_type: saving
max_trials: 1
space: {{x: {{type: uniform, low: 0, high: 1}}}}
inputs:
  words: {reference}
"""
REFUSAL = "<Error><Code>InvalidAccessKeyId</Code><Message>there is no key {}, {}</Message></Error>"
REFUSED_ACCESS = b"refuses access (PermissionError: there is no key [redacted], [redacted])"
SEEN = {
    "tables": [b"PASSWORD: [redacted]"],
    "traces": [b"trackside.worker"],
    "output": [b"key [redacted] and [redacted] with password=[redacted]"],
    "processes": [b"trackside.worker"],
    "files": [b"using"],
}
SEEN_OF_STORES = {
    "topics": [REFUSED_ACCESS],
    "tables": [REFUSED_ACCESS],
    "output": [b"refuses access"],
    "files": [b"there is no key [redacted], [redacted]"],
}


def demand_key(server: S3Server) -> tuple[str, str]:
    """Makes a server refuse all but a new key from now on, which the credential `moto` gets; returns that."""
    iam = botocore.session.get_session().create_client(
        "iam",
        endpoint_url=f"http://127.0.0.1:{server.port}",
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )
    iam.create_user(UserName="worker")
    made = iam.create_access_key(UserName="worker")["AccessKey"]
    all_of_it = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    iam.put_user_policy(UserName="worker", PolicyName="all", PolicyDocument=json.dumps(all_of_it))
    credentials = server.folder / "credentials.toml"
    text = credentials.read_text().replace(ACCESS_KEY, made["AccessKeyId"])
    credentials.write_text(text.replace(SECRET_KEY, made["SecretAccessKey"]))
    return made["AccessKeyId"], made["SecretAccessKey"]


def home_of(path: Path, environment: Mapping[str, str]) -> UserFolder:
    """Makes the folder of a user with its task types; the secrets of the host are next to it."""
    path.mkdir()
    texts = {"script.py": SCRIPT, "catalogue.yaml": CATALOGUE, "tasks.yaml": TASKS, "words": "one two"}
    for name, text in texts.items():
        (path / name).write_text(text)
    write_types(path)
    folder = path.parent / "secrets"
    folder.mkdir(0o700)
    for name, value in (("given", GIVEN), ("variable", VARIABLE)):
        (folder / name).touch(0o600)
        (folder / name).write_text(value + "\n")
    return UserFolder(path, {**environment, "TRACKSIDE_WORKER_SECRETS_DIR": str(folder)})


async def publish_secrets(bootstrap: str, topic: str) -> list[str]:
    """Publishes two commands with a secret as a foreign client does; returns where they are."""
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"refused"),
        ("ce_source", b"foreign"),
        ("ce_type", b"trackside.start-tasks.v1"),
    ]
    refused = json.dumps({"groups": [], "tags": {"db_password": REFUSED}}).encode()
    broken = f'{{"password": "{BROKEN}", nope}}'.encode()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        sent = [
            await producer.send_and_wait(topic, value, key=b"refused", headers=headers)
            for value in (refused, broken)
        ]
    finally:
        await producer.stop()
    return [f"{topic}-{each.partition}@{each.offset}" for each in sent]


def run_tasks(told: Told) -> list[bytes]:
    """Runs tasks with secrets; returns what lists of processes show while one of them has its secrets."""
    told.run("submit", "tasks.yaml", "--id", "b")
    poll_until_sync(lambda: "waits at" in told.run("logs", "b.1.using"))
    gate = next(line for line in told.said[-1].splitlines() if "waits at" in line).split()[-1]
    lists = process_lists(told.home.processes())
    Path(gate).touch()
    for arguments in (("show", "b.1.using"), ("show", "b.1.raising"), ("logs", "b.1.raising")):
        told.run(*arguments)
    poll_until_sync(lambda: "3 ended of 3" in told.run("show", "b"))
    assert "1 finished, 2 failed" in told.said[-1], told.said[-1]
    told.run("artifacts", "show", "b/1.using/note")
    wrong = told.home.path.parent / "wrong.yaml"
    wrong.write_text(TASKS.replace("{secret: given}", f"{{password: {REFUSED}}}"))
    told.ended(2, "submit", str(wrong))
    assert "secret_suspected" in told.said[-1]
    return lists


def run_on_stores(told: Told, s3: S3Server, refusal: Answers) -> None:
    """Runs searches and jobs whose store has what they need, refuses, and refuses searches later.

    The last upload is still being tried when this returns, and what it uploads in the spool.
    """
    reference = told.run("artifacts", "put", "words").strip()
    outside = {**json.loads(reference), "uri": "s3://data/words", "sha256": "0" * 64, "credential": "other"}
    told.submit("refused", SEARCH.format(reference=json.dumps(outside)))
    told.submit("good", SEARCH.format(reference=reference), "--wait")
    told.run("artifacts", "show", "good/0/environment")
    run_jobs(told, s3, "good/0/environment")
    with told.home.start("logs", "refused.0", "-f") as following:
        assert following.stdout is not None
        told.said.append(next(line for line in following.stdout if "trying again" in line))
        following.kill()
    s3.kill()
    with refusal.served(s3.port):
        told.submit("late", SEARCH.format(reference=reference))
        log = told.home.path / ".trackside" / "logs" / "worker.log"
        poll_until_sync(lambda: "an upload is tried again" in log.read_text())
        ended = told.home.run("artifacts", "verify")
        told.said.append(ended.stdout + ended.stderr)


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server that lets four requests pass with any key, and then none."""
    monkeypatch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "4")
    (tmp_path / "s3").mkdir()
    with s3_server(tmp_path / "s3") as server:
        yield server


def check(
    found: Mapping[str, list[bytes]],
    canaries: list[bytes],
    expected: Mapping[str, list[bytes]],
    commands: bytes,
    planted: int,
) -> None:
    """Looks for canaries: only so many records of the topic of commands have some."""
    for place, contents in found.items():
        for text in expected.get(place, []):
            assert any(text in each for each in contents), (place, text)
        leaks = [each for each in contents if any(canary in each for canary in canaries)]
        if place == "topics":  # the two records that `verify-log` has named
            known = [each for each in leaks if commands in each]
            assert len(known) == planted
            leaks = [each for each in leaks if each not in known]
        assert not leaks, (place, [each[:300] for each in leaks])


@pytest.mark.parametrize(
    "stores", [False, pytest.param(True, marks=pytest.mark.long)], ids=["tasks", "tasks and stores"]
)
def test_planted_secrets_and_keys_are_in_no_topic_table_log_trace_file_or_list_of_processes(
    tmp_path: Path, s3: S3Server, stack: Servers, topic_prefix: str, database: str, leash: Path, stores: bool
) -> None:
    key, secret = demand_key(s3)
    written = (GIVEN, VARIABLE, PRINTED, RAISED, REFUSED, BROKEN, key, secret, OTHER_KEY, OTHER_SECRET)
    canaries = [each.encode() for each in written]
    traces, refusal = Answers(200), Answers(403, REFUSAL.format(key, secret).encode())
    other = Answers(403, REFUSAL.format(OTHER_KEY, OTHER_SECRET).encode())
    with traces.served() as traces_port, other.served() as other_port:
        credentials = s3.folder / "credentials.toml"
        credentials.write_text(
            f'{credentials.read_text()}[other]\nendpoint_url = "http://127.0.0.1:{other_port}"\n'
            f'access_key_id = "{OTHER_KEY}"\nsecret_access_key = "{OTHER_SECRET}"\n'
        )
        settings = {
            "TRACKSIDE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
            "TRACKSIDE_POSTGRES_DSN": database,
            "TRACKSIDE_TOPIC_PREFIX": topic_prefix,
            "TRACKSIDE_STORE": "s3://models/run",
            "TRACKSIDE_STORE_CREDENTIAL": "moto",
            "TRACKSIDE_CREDENTIALS": str(credentials),
            "TRACKSIDE_WORKER_PRELOAD": "",
            "TRACKSIDE_WORKER_KEEP_WORKDIRS": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{traces_port}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        home = home_of(tmp_path / "home", settings)
        told = Told(home)
        try:
            home.run_ok("up", "--leash", str(leash), "--slots", "2")
            lists = run_tasks(told)
            places = asyncio.run(publish_secrets(stack.kafka_bootstrap, f"{topic_prefix}trackside.commands"))
            poll_until_sync(lambda: "not_json" in told.run("dead-letters"))
            verified = told.ended(1, "verify-log")
            if stores:
                run_on_stores(told, s3, refusal)
            found = {
                "topics": asyncio.run(records(stack.kafka_bootstrap, topic_prefix)),
                "tables": asyncio.run(rows(database)),
                "traces": traces.received,
                "output": [each.encode() for each in told.said],
                "processes": lists,
                "files": files(home.path),
            }
        finally:
            embedded.stop(home.path / ".trackside")
    found["files at the end"] = files(home.path)
    for place in places:
        assert f"INV-14 {place}" in verified, verified
    commands = f"'{topic_prefix}trackside.commands'".encode()
    check(found, canaries, SEEN, commands, len(places))
    if stores:
        assert other.received and refusal.received
        check(found, canaries, SEEN_OF_STORES, commands, len(places))
