"""What becomes a secret only by where it is written: a parameter by reference, a default, a result."""

import pytest

from tests.e2e.shared_stack import StackFolder
from trackside.contracts.wire.secret_search import secrets_in

pytestmark = pytest.mark.timeout(900)
WORD = "hunter2" * 2
BY_REFERENCE = """
kind: pipeline
name: by-reference
parameters: { key: { type: string } }
steps:
  - { name: a, task_type: parabola, parameters: { x: 0.5, password: "${pipeline.key}" } }
"""
IN_DEFAULT = f"""
kind: pipeline
name: in-default
parameters: {{ db_password: {{ type: string, default: {WORD} }} }}
steps:
  - {{ name: a, task_type: parabola, parameters: {{ x: 1 }} }}
"""
RETURNED = """
kind: pipeline
name: returned
steps:
  - { name: leak, task_type: leaking }
  - { name: use, task_type: parabola, parameters: { x: "${leak.result.rows}" } }
outputs: { login: "${leak.result.login}" }
"""
TASKS = "kind: tasks\ngroups: [{tasks: [{name: leak, task_type: leaking}]}]\n"


def test_a_step_that_is_given_a_secret_by_reference_fails_before_its_worker_sees_it(
    home: StackFolder,
) -> None:
    (home.path / "run.yaml").write_text(BY_REFERENCE)
    stream = home.id("referred")
    ended = home.run("submit", "run.yaml", "--set", f"key={WORD}", "--id", stream, "--wait")
    assert ended.returncode == 1
    assert "a failed: $.parameters.password looks like a secret" in ended.stdout
    assert WORD not in ended.stdout + ended.stderr
    events = home.json_lines("events", stream)
    assert not [place for event in events for place in secrets_in(event["data"])]
    types = {event["type"] for event in events}
    assert not types & {"trackside.step-resolved.v1", "trackside.task-submitted.v1"}


def test_a_definition_with_a_secret_as_a_default_is_not_sent(home: StackFolder) -> None:
    (home.path / "default.yaml").write_text(IN_DEFAULT)
    ended = home.run("submit", "default.yaml", "--id", home.id("default"))
    assert ended.returncode == 2
    assert "secret_suspected at $.pipeline.parameters.db_password.default" in ended.stderr
    assert 'leave the default out, or name one of the worker\'s host: {"secret": "NAME"}' in ended.stderr


def test_a_result_with_a_secret_is_redacted_and_the_lines_of_its_step_and_task_say_so(
    home: StackFolder,
) -> None:
    run = home.submit("returned", RETURNED, "--wait")
    tasks = home.submit("leaks", TASKS, "--wait")
    note = "its result is [redacted] at $.login.password"
    for stream in (run, tasks):
        shown = home.run_ok("show", stream)
        assert note in " ".join(shown.split()) and WORD not in shown
        assert not [each for event in home.json_lines("events", stream) for each in secrets_in(event["data"])]
    assert "nothing found" in home.run_ok("verify-log", run)
    assert "[redacted]" in home.run_ok("show", f"{run}.leak") and "redacted" in home.run_ok(
        "show", f"{tasks}.1.leak"
    )
    assert home.json_output("show", run)["outputs"] == {"login": {"password": "[redacted]"}}
