"""Planted keys of stores: no topic, table, log, trace or file of a stack has them, whatever stores answer."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest

from tests.e2e.harness import UserFolder
from tests.e2e.job_on_s3 import run_jobs, write_types
from tests.e2e.leaks import Answers, files, records, rows
from tests.integration.artifacts.conftest import ACCESS_KEY, SECRET_KEY, S3Server, s3_server
from tests.polling import poll_until_sync
from tests.stack import Servers
from trackside.embedded import stack as embedded

pytestmark = pytest.mark.timeout(600)

OTHER_KEY, OTHER_SECRET = "another-canary-of-the-host", "another+canary/of/the/host/0123456789"
SCRIPT = """
import json, os
from trackside.sdk import Task, trial

class Saving(Task):
    def train(self, device):
        print(json.dumps(dict(os.environ)))
        trial.last_checkpoint()
        trial.report(1.0, 0)
        trial.save("environment", json.dumps(dict(os.environ)).encode())
        trial.checkpoint(1, {"seen": 1})
        return {"given": trial.input("words").read_text()}
"""
SPEC = """
kind: search
task_type: saving
max_trials: 1
space: {{x: {{type: uniform, low: 0, high: 1}}}}
inputs:
  words: {reference}
"""
REFUSAL = "<Error><Code>InvalidAccessKeyId</Code><Message>there is no key {}, {}</Message></Error>"


def demand_key(server: S3Server) -> tuple[str, str]:
    """Has a server refuse all but a new key from now on, which the credential `moto` gets; returns that."""
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


def home_of(path: Path, environment: dict[str, str]) -> UserFolder:
    """Makes the folder of a user with its task types."""
    path.mkdir()
    (path / "script.py").write_text(SCRIPT)
    (path / "catalogue.yaml").write_text("tasks:\n  saving: {entry: 'script:Saving', path: .}\n")
    write_types(path)
    (path / "words").write_text("one two")
    return UserFolder(path, environment)


def run_all(home: UserFolder, said: list[str], s3: S3Server, refusal: Answers) -> None:
    """Runs searches and jobs whose store has what they need, refuses, and refuses searches later.

    Keeps what commands said.

    The last upload is still being tried when this returns, and what it uploads in the spool.
    """

    def run(*arguments: str) -> str:
        ended = home.run(*arguments)
        said.append(ended.stdout + ended.stderr)
        return ended.stdout

    def submit(name: str, reference: str, *more: str) -> None:
        (home.path / f"{name}.yaml").write_text(SPEC.format(reference=reference))
        said.append(home.run_ok("submit", f"{name}.yaml", "--id", name, *more))

    reference = run("artifacts", "put", "words").strip()
    outside = {**json.loads(reference), "uri": "s3://data/words", "sha256": "0" * 64, "credential": "other"}
    submit("refused", json.dumps(outside))
    submit("good", reference, "--wait")
    run("artifacts", "show", "good/0/environment")
    run_jobs(home, said, s3, "good/0/environment")
    with home.start("logs", "refused.0", "-f") as following:
        assert following.stdout is not None
        said.append(next(line for line in following.stdout if "trying again" in line))
        following.kill()
    s3.kill()
    with refusal.served(s3.port):
        submit("late", reference)
        log = home.path / ".trackside" / "logs" / "worker.log"
        poll_until_sync(lambda: "an upload is tried again" in log.read_text())
        run("artifacts", "verify")


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server that lets four requests pass with any key, and then none."""
    monkeypatch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "4")
    (tmp_path / "s3").mkdir()
    with s3_server(tmp_path / "s3") as server:
        yield server


def test_planted_keys_are_in_no_topic_table_log_trace_or_file_of_a_stack(
    tmp_path: Path, s3: S3Server, stack: Servers, topic_prefix: str, database: str, leash: Path
) -> None:
    key, secret = demand_key(s3)
    keys = [each.encode() for each in (key, secret, OTHER_KEY, OTHER_SECRET)]
    traces, refusal = Answers(200), Answers(403, REFUSAL.format(key, secret).encode())
    other = Answers(403, REFUSAL.format(OTHER_KEY, OTHER_SECRET).encode())
    with traces.served() as traces_port, other.served() as other_port:
        credentials = s3.folder / "credentials.toml"
        credentials.write_text(
            f'{credentials.read_text()}[other]\nendpoint_url = "http://127.0.0.1:{other_port}"\n'
            f'access_key_id = "{OTHER_KEY}"\nsecret_access_key = "{OTHER_SECRET}"\n'
        )
        home = home_of(
            tmp_path / "home",
            {
                "TRACKSIDE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
                "TRACKSIDE_POSTGRES_DSN": database,
                "TRACKSIDE_TOPIC_PREFIX": topic_prefix,
                "TRACKSIDE_STORE": "s3://models/run",
                "TRACKSIDE_STORE_CREDENTIAL": "moto",
                "TRACKSIDE_CREDENTIALS": str(credentials),
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{traces_port}",
                "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
                "OTEL_BSP_SCHEDULE_DELAY": "100",
                "TRACKSIDE_WORKER_PRELOAD": "",
            },
        )
        said: list[str] = []
        try:
            home.run_ok("up", "--leash", str(leash), "--slots", "2")
            run_all(home, said, s3, refusal)
            found = {
                "topics": asyncio.run(records(stack.kafka_bootstrap, topic_prefix)),
                "tables": asyncio.run(rows(database)),
                "files": files(home.path),
                "traces": traces.received,
                "output": [each.encode() for each in said],
            }
        finally:
            embedded.stop(home.path / ".trackside")
        found["files at the end"] = files(home.path)
    expected = {
        "topics": b"refuses access (PermissionError: there is no key [redacted], [redacted])",
        "tables": b"refuses access (PermissionError: there is no key [redacted], [redacted])",
        "files": b"there is no key [redacted], [redacted]",
        "traces": b"trackside.worker",
        "output": b"refuses access",
    }
    for place, contents in found.items():
        assert any(expected.get(place, b"") in each for each in contents), place
        leaks = [each[:200] for each in contents if any(one in each for one in keys)]
        assert not leaks, (place, leaks)
    assert other.received and refusal.received
