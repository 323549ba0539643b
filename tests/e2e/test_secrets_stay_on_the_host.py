"""Planted secrets: those that tasks are given, and those that are written by mistake, are nowhere."""

import asyncio
import json
from pathlib import Path

from aiokafka import AIOKafkaProducer

from tests.e2e.harness import UserFolder
from tests.e2e.leaks import Answers, files, process_lists, records, rows
from tests.polling import poll_until_sync
from tests.stack import Servers
from trackside.embedded import stack as embedded

GIVEN, VARIABLE = "canary-given-4f1c", "canary-variable-77e0"
PRINTED, RAISED = "canary-printed-9b2d", "canary-raised-0c5a"
REFUSED, BROKEN = "canary-refused-3a8e", "canary-broken-61d7"
SCRIPT = """
import os, resource, time
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
"""
SPEC = """
kind: tasks
groups:
  - tasks:
      - {name: using, task_type: using, parameters: {key: {secret: given}}}
      - {name: raising, task_type: raising, parameters: {key: {secret: given}}}
      - {name: aborting, task_type: aborting, parameters: {key: {secret: given}}}
"""


def home_of(path: Path, environment: dict[str, str]) -> UserFolder:
    """Makes the folder of a user with its task types; the secrets of the host are next to it."""
    path.mkdir()
    for name, text in (("script.py", SCRIPT), ("catalogue.yaml", CATALOGUE), ("spec.yaml", SPEC)):
        (path / name).write_text(text)
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


def run_all(home: UserFolder, said: list[str]) -> list[bytes]:
    """Runs the tasks; returns what lists of processes show while one of them has its secrets."""

    def run(*arguments: str) -> str:
        ended = home.run(*arguments)
        said.append(ended.stdout + ended.stderr)
        assert ended.returncode == 0, said[-1]
        return ended.stdout

    run("submit", "spec.yaml", "--id", "b")
    poll_until_sync(lambda: "waits at" in run("logs", "b.1.using"))
    gate = next(line for line in said[-1].splitlines() if "waits at" in line).split()[-1]
    lists = process_lists(home.processes())
    Path(gate).touch()
    run("show", "b.1.using")
    run("show", "b.1.raising")
    run("logs", "b.1.raising")
    poll_until_sync(lambda: "3 ended of 3" in run("show", "b"))
    assert "1 finished, 2 failed" in said[-1], said[-1]
    run("artifacts", "show", "b/1.using/note")
    wrong = home.path.parent / "wrong.yaml"
    wrong.write_text(SPEC.replace("{secret: given}", f"{{password: {REFUSED}}}"))
    ended = home.run("submit", str(wrong))
    assert ended.returncode != 0 and "secret_suspected" in ended.stderr, ended.stderr
    said.append(ended.stdout + ended.stderr)
    return lists


def test_planted_secrets_are_in_no_topic_table_log_trace_file_or_list_of_processes(
    tmp_path: Path, stack: Servers, topic_prefix: str, database: str, leash: Path
) -> None:
    canaries = [each.encode() for each in (GIVEN, VARIABLE, PRINTED, RAISED, REFUSED, BROKEN)]
    traces, said = Answers(200), list[str]()
    with traces.served() as traces_port:
        home = home_of(
            tmp_path / "home",
            {
                "TRACKSIDE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
                "TRACKSIDE_POSTGRES_DSN": database,
                "TRACKSIDE_TOPIC_PREFIX": topic_prefix,
                "TRACKSIDE_WORKER_PRELOAD": "",
                "TRACKSIDE_WORKER_KEEP_WORKDIRS": "true",
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{traces_port}",
                "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
                "OTEL_BSP_SCHEDULE_DELAY": "100",
            },
        )
        try:
            home.run_ok("up", "--leash", str(leash), "--slots", "2")
            lists = run_all(home, said)
            places = asyncio.run(publish_secrets(stack.kafka_bootstrap, f"{topic_prefix}trackside.commands"))
            poll_until_sync(lambda: "not_json" in home.run_ok("dead-letters"))
            verified = home.run("verify-log")
            found = {
                "topics": asyncio.run(records(stack.kafka_bootstrap, topic_prefix)),
                "tables": asyncio.run(rows(database)),
                "traces": traces.received,
                "output": [each.encode() for each in (*said, verified.stdout, verified.stderr)],
                "processes": lists,
            }
        finally:
            embedded.stop(home.path / ".trackside")
    found["files"] = files(home.path)
    assert verified.returncode == 1
    for place in places:
        assert f"INV-14 {place}" in verified.stdout, verified.stdout
    expected = {
        "topics": b"[redacted]",
        "tables": b"PASSWORD: [redacted]",
        "traces": b"trackside.worker",
        "output": b"key [redacted] and [redacted] with password=[redacted]",
        "processes": b"trackside.worker",
        "files": b"using",
    }
    for place, contents in found.items():
        assert any(expected[place] in each for each in contents), place
        leaks = [each for each in contents if any(canary in each for canary in canaries)]
        if place == "topics":  # the two records that `verify-log` has named
            planted = [each for each in leaks if f"'{topic_prefix}trackside.commands'".encode() in each]
            assert len(planted) == len(places)
            leaks = [each for each in leaks if each not in planted]
        assert not leaks, (place, [each[:300] for each in leaks])
