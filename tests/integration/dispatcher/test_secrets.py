"""Secrets on each way into the log: a command is refused with their place, a step that is given one fails."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.dispatcher.harness import START as START_SEARCH
from tests.integration.dispatcher.harness import Publisher, valid_search
from tests.integration.dispatcher.twelve_steps import START, noop
from trackside.aggregates.run.messages import RunEnded
from trackside.aggregates.run.step_messages import StepEnded
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Json
from trackside.contracts.streams.commands import CommandAccepted
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.verify.log import verify_topics

WORD = "hunter2hunter2"
TEXT = {"type": "string"}
DEFAULT = {"db_password": {**TEXT, "default": WORD}}
TASKS = {"task_type": "noop", "parameters": {"environment": [{"name": "DB_PASSWORD", "value": WORD}]}}
CONSTANT = {"password": {"type": "constant", "value": WORD}}
GATE = {"name": "g", "gate": {"message": "?", "form": DEFAULT}}
WAYS: Mapping[str, tuple[str, Json, str]] = {
    "default": (START, {"pipeline": {"steps": [noop("a")], "parameters": DEFAULT}}, "db_password.default"),
    "form of a gate": (START, {"pipeline": {"steps": [GATE]}}, "form.db_password.default"),
    "default of a reference": (
        START,
        {"pipeline": {"steps": [noop("a", parameters={"password": f"${{pipeline.key:-{WORD}}}"})]}},
        "parameters.password",
    ),
    "parameter of a run": (
        START,
        {
            "pipeline": {"steps": [noop("a")], "parameters": {"db_password": TEXT}},
            "parameters": {"db_password": WORD},
        },
        "$.parameters.db_password",
    ),
    "pipeline": (
        "trackside.define-pipeline.v1",
        {"pipeline": {"steps": [noop("a")], "parameters": DEFAULT}},
        "db_password.default",
    ),
    "schedule": (
        "trackside.create-schedule.v1",
        {"schedule": {"name": "nightly", "cron": "0 3 * * *", "parameters": {"db_password": WORD}}},
        "schedule.parameters.db_password",
    ),
    "constant": (START_SEARCH, {**valid_search(), "space": CONSTANT}, "space.password.value"),
    "first trials": (
        START_SEARCH,
        {**valid_search(), "first": [{"x": 0, "password": WORD}]},
        "first[0].password",
    ),
    "past": (
        START_SEARCH,
        {**valid_search(), "past": [{"parameters": {"api_key": WORD}, "value": 1}]},
        "past[0].parameters.api_key",
    ),
    "space": ("trackside.update-search-space.v1", {"space": CONSTANT}, "space.password.value"),
    "task": ("trackside.start-tasks.v1", {"groups": [{"tasks": [TASKS]}]}, "environment[0].value"),
    "note": ("trackside.annotate-stream.v1", {"note": f"db_password={WORD}"}, "$.note"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_command_with_a_secret_is_refused_with_its_place(publisher: Publisher, way: str) -> None:
    kind, body, place = WAYS[way]
    stream = new_id("secret")
    answer = await publisher.refused(body, kind, stream)
    assert (answer.code, answer.path.endswith(place)) == ("secret_suspected", True), answer
    assert "NAME}" in answer.message.replace('"', "")
    assert WORD not in "".join(
        record.message.model_dump_json() for record in publisher.records if record.envelope.stream == stream
    )


async def test_steps_that_are_given_a_secret_by_reference_fail_and_the_log_is_clean(
    publisher: Publisher,
) -> None:
    stream = new_id("secret")
    child: dict[str, Any] = {
        "groups": [{"tasks": [{**TASKS, "parameters": {"password": "${pipeline.key}"}}]}]
    }
    steps = [
        noop("parameter", parameters={"password": "${pipeline.key}"}),
        noop("items", each=["${pipeline.key}"], parameters={"login": {"password": "${item}"}}),
        noop("text", parameters={"url": "postgresql://me:${pipeline.key}@host/db"}),
        {"name": "child", "kind": "batch", "spec": child},
        {"name": "search", "kind": "search", "spec": {**valid_search(), "name": "password=${pipeline.key}"}},
    ]
    pipeline = {
        "steps": [{**step, "on_end": "continue"} for step in steps],
        "parameters": {"key": TEXT},
        "outputs": {"db_password": "${pipeline.key}"},
    }
    answer = await publisher.say({"pipeline": pipeline, "parameters": {"key": WORD}}, START, stream)
    assert isinstance(answer, CommandAccepted)
    end = await publisher.event(stream, RunEnded)
    assert (end.status.value, end.outputs) == ("SUCCEEDED", {"db_password": "[redacted]"})
    messages = [record.message for record in publisher.of(stream, StepEnded)]
    ended = {each.step: each for each in messages if isinstance(each, StepEnded)}
    assert {each.kind for each in ended.values()} == {"secret_suspected"}
    assert {name: each.error and each.error.message.partition(" ")[0] for name, each in ended.items()} == {
        "parameter": "$.parameters.password",
        "items": "$.parameters.login.password",
        "text": "$.parameters.url",
        "child": "$.spec.groups[0].tasks[0].parameters.password",
        "search": "$.spec.name",
    }
    running = publisher.dispatcher
    async with KafkaLog(running.settings.kafka_bootstrap, "verify") as log:
        report = await verify_topics(log, running.topics, stream=stream)
    assert report.checked["INV-14"] > len(ended)
    assert [str(each) for each in report.findings if each.invariant == "INV-14"] == []
