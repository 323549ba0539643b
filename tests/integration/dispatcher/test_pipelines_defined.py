"""Pipelines that are defined by name, over Kafka and Postgres: versions, numbered runs, and schedules."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dispatcher.harness import (
    Publisher,
    RunningDispatcher,
    begun,
    token_of,
    valid_search,
)
from tests.integration.installed import variables_of
from tests.polling import poll_until
from trackside.aggregates.pipeline.messages import DefinePipeline, RunNumbered, RunPipeline, run_id
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    CreateSchedule,
    ScheduleArmed,
    ScheduleCreated,
    ScheduleFired,
    ScheduleSpec,
    ScheduleWatched,
)
from trackside.aggregates.run.messages import RunEnded, RunStarted
from trackside.aggregates.search.messages import SearchEnded
from trackside.cli.app import call
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.streams.children import ChildEnded, ChildRequested
from trackside.contracts.streams.commands import Ping
from trackside.contracts.streams.watches import TasksWatched
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.tasks import AttemptEnded, MetricReported, TaskSubmitted

STEP = {"name": "train", "task_type": "noop", "parameters": {"rows": "${pipeline.rows}"}}
PIPELINE = {"parameters": {"rows": {"type": "integer", "default": 10}}, "steps": [STEP]}
SPEC = """
kind: pipeline
parameters:
  rows: {type: integer, default: 10}
steps:
  - {name: train, task_type: noop, parameters: {rows: "${pipeline.rows}"}}
"""


async def finish_run(publisher: Publisher, run: str) -> TaskSubmitted:
    """Lets the only task of a run finish, and returns it."""
    submitted = await publisher.event(run, TaskSubmitted)
    await publisher.finish(run, submitted.task_id)
    await publisher.event(run, RunEnded)
    return submitted


async def test_runs_of_a_pipeline_are_numbered_and_begin_when_there_is_room(publisher: Publisher) -> None:
    """P39: the run is a stream of its own, with the definition and the place that it comes from."""
    name = new_id("p")
    await publisher.accepted({"pipeline": PIPELINE, "max_runs": 1}, DefinePipeline, name)
    await publisher.accepted({"parameters": {"rows": 20}}, RunPipeline, name)
    await publisher.accepted({}, RunPipeline, name)
    first, second = run_id(name, 1), run_id(name, 2)
    started = await publisher.event(first, RunStarted)
    assert started.origin is not None
    assert started.origin.model_dump() == {"pipeline": name, "version": 1, "number": 1}
    assert started.parameters == {"rows": 20}
    task = await finish_run(publisher, first)
    assert task.parameters == {"rows": 20}
    over, ended = await publisher.event(name, ChildEnded), await publisher.record(name, ChildEnded)
    assert (over.child_id, over.status) == (first, "SUCCEEDED")
    asked = await publisher.record(name, ChildRequested, 2)
    assert asked.offset > ended.offset
    assert (await finish_run(publisher, second)).parameters == {"rows": 10}


async def test_what_its_run_would_refuse_ends_the_run_as_refused(publisher: Publisher) -> None:
    name = new_id("p")
    unknown = {"steps": [{"name": "train", "task_type": "nothing"}]}
    await publisher.accepted({"pipeline": unknown}, DefinePipeline, name)
    answer = await publisher.refused({"parameters": {"rows": 1}}, RunPipeline.wire_type(), name)
    assert (answer.code, answer.path) == ("unknown_parameter", "$.parameters.rows")
    await publisher.accepted({}, RunPipeline, name)
    ended = await publisher.event(name, ChildEnded)
    assert ended.status == "REFUSED"
    assert [problem["code"] for problem in ended.result["problems"]] == ["unknown_task_type"]


@pytest.mark.timeout(120)
async def test_a_time_that_passed_while_no_dispatcher_ran_has_its_run_once_one_does(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    """P41: the dispatcher is killed before the time of a schedule, and started after it."""
    name = new_id("p")
    await publisher.accepted({"pipeline": PIPELINE}, DefinePipeline, name)
    dispatcher.service.kill()
    yearly = ScheduleSpec(cron="0 0 1 1 *", parameters={"rows": 30})
    created = ScheduleCreated(command_id="c-1", change=2, name="yearly", schedule=yearly)
    await publisher.append(name, ("dispatcher", created))
    created_ms = (await publisher.record(name, ScheduleCreated)).append_time_ms
    armed = ScheduleArmed(name="yearly", after_ms=created_ms, due_ms=created_ms + 1)
    await publisher.append(name, ("dispatcher", armed))
    dispatcher.service.start()
    fired = await publisher.record(name, ScheduleFired)
    assert fired.message == ScheduleFired(name="yearly", fire=1, due_ms=created_ms + 1, run=run_id(name, 1))
    started = await publisher.event(run_id(name, 1), RunStarted)
    assert started.origin is not None
    assert (started.origin.schedules, started.parameters) == ([f"{name}/yearly"], {"rows": 30})
    following = await publisher.event(name, ScheduleArmed, 2)
    assert following.after_ms == created_ms + 1
    numbered = await publisher.event(name, RunNumbered)
    assert numbered.schedule == "yearly"


async def wait_for_runs(publisher: Publisher, name: str, other: str) -> None:
    """Lets a pipeline have a run after each run of another one."""
    await publisher.accepted({"pipeline": PIPELINE}, DefinePipeline, name)
    schedule = {"on": {"stream": other, "event": "run_ended", "of": "SUCCEEDED"}}
    parameters = {"rows": "${trigger.number}"}
    body = {"name": "after", "schedule": schedule | {"parameters": parameters}}
    await publisher.accepted(body, CreateSchedule, name)
    await publisher.record(name, ScheduleWatched)


@pytest.mark.timeout(120)
async def test_pipelines_that_wait_for_each_other_end_and_a_killed_dispatcher_loses_no_run(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    """P41: a run never triggers the schedule that started it, however long the chain."""
    one, two = new_id("p"), new_id("p")
    await wait_for_runs(publisher, one, two)
    await wait_for_runs(publisher, two, one)
    await publisher.accepted({}, RunPipeline, one)
    submitted = await publisher.event(run_id(one, 1), TaskSubmitted)
    dispatcher.service.kill()
    await publisher.finish(run_id(one, 1), submitted.task_id)
    dispatcher.service.start()
    task = await finish_run(publisher, run_id(two, 1))
    assert task.parameters == {"rows": 1}
    await finish_run(publisher, run_id(one, 2))
    fired = await publisher.event(two, ScheduleFired, 2)
    assert (fired.skipped, fired.run, fired.key) == ("schedule_loop", "", "2")
    chains = [
        record.message.schedules
        for record in publisher.records
        if isinstance(record.message, RunNumbered) and record.envelope.stream in (one, two)
    ]
    assert chains == [[], [f"{two}/after"], [f"{one}/after", f"{two}/after"]]


@pytest.mark.timeout(120)
async def test_what_a_task_does_while_the_dispatcher_is_killed_fires_schedules_once(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    """P41: its artifact, a value of its metric and its end, in a search that begins later."""
    name, search = new_id("p"), new_id("s")
    await publisher.accepted({"pipeline": PIPELINE}, DefinePipeline, name)
    waited: list[Json] = [
        {"event": "artifact", "of": "weights", "kind": "model"},
        {"event": "metric", "of": "accuracy", "above": 0.9},
        {"event": "task_ended", "of": "finished"},
    ]
    for number, on in enumerate(waited, 1):
        schedule = {"on": on | {"stream": search}, "overlap": "allow"}
        await publisher.accepted({"name": str(on["event"]), "schedule": schedule}, CreateSchedule, name)
        await publisher.record(name, ScheduleWatched, number)
    await publisher.say(valid_search(), stream=search)
    first = await publisher.record(search, TaskSubmitted)
    assert (await publisher.record(search, TasksWatched, 3)).offset < first.offset
    assert isinstance(first.message, TaskSubmitted)
    dispatcher.service.kill()

    task_id = first.message.task_id
    place = {"uri": f"store:sha256/{'0' * 64}", "sha256": "0" * 64, "size_bytes": 1}
    weights = {"number": 1, "name": "weights", "version": 1, "kind": "model"}
    saved = ArtifactSaved.model_validate(token_of(task_id) | place | weights)

    def value(step: int, accuracy: float) -> tuple[str, Event]:
        token: Json = {"task_id": task_id, "attempt": 1, "placement": 1}
        more: Json = {"kind": "PERIODICAL", "step": step, "value": 0.1, "others": {"accuracy": accuracy}}
        return "worker", MetricReported.model_validate(token | more)

    await publisher.append(search, *begun(task_id), ("worker", saved), value(0, 0.5))
    dispatcher.service.start()
    await publisher.event(name, ScheduleFired)
    await publisher.append(search, value(1, 0.95), value(2, 0.96))
    await publisher.event(name, ScheduleFired, 2)
    dispatcher.service.kill()
    ended = AttemptEnded.model_validate(token_of(task_id) | {"end": "finished"})
    await publisher.append(search, ("worker", ended))
    dispatcher.service.start()
    await publisher.record(search, SearchEnded)
    await publisher.record(run_id(name, 3), RunStarted)
    await publisher.accepted({}, Ping, name)
    causes = [
        (f"{search}@{(await publisher.record(search, kind, number)).offset}", event)
        for kind, number, event in (
            (ArtifactSaved, 1, "artifact"),
            (MetricReported, 2, "metric"),
            (AttemptEnded, 1, "task_ended"),
        )
    ]
    fired = [each.message for each in publisher.of(name, ScheduleFired)]
    told = [(each.cause, each.name, each.run) for each in fired if isinstance(each, ScheduleFired)]
    assert told == [(*cause, run_id(name, number)) for number, cause in enumerate(causes, 1)]


@dataclass(frozen=True)
class CommandLine:
    """The command `trackside`, for one dispatcher and its database."""

    output: pytest.CaptureFixture[str]

    async def __call__(self, *arguments: str, code: int = 0) -> str:
        """Runs a command, whose exit code must be this, and returns what it prints."""
        assert await asyncio.to_thread(call, arguments) == code
        return "".join(self.output.readouterr())

    async def rows(self, *arguments: str) -> Any:
        """Runs a command and returns what it prints as JSON."""
        return json.loads(await self(*arguments, "--json"))


@pytest.fixture
def trackside(
    dispatcher: RunningDispatcher, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    for variable, value in variables_of(dispatcher.settings).items():
        monkeypatch.setenv(variable, value)
    return CommandLine(capsys)


async def test_pipelines_and_schedules_from_the_command_line(
    trackside: CommandLine, publisher: Publisher, tmp_path: Path
) -> None:
    name, file, rows = new_id("p"), tmp_path / "pipeline.yaml", trackside.rows
    file.write_text(SPEC, "utf-8")

    def found(listed: Sequence[Json]) -> list[Json]:
        return [row for row in listed if row["pipeline_id"] == name]

    assert f"{name} accepted" in await trackside("pipelines", "define", name, str(file), "--max-runs", "1")
    file.write_text(SPEC.replace("pipeline.rows", "pipeline.row"), "utf-8")
    refused = await trackside("pipelines", "define", name, str(file), code=2)
    assert f"{file}:6: unknown_parameter at $.steps[0].parameters.rows" in refused
    refused = await trackside("pipelines", "run", name, "--set", "rows=many", code=2)
    assert "bad_parameters at $.parameters.rows" in refused
    await trackside("pipelines", "run", name, "--set", "rows=20")
    await trackside("pipelines", "run", name, "--no-cache")
    nightly = ("--cron", "30 2 * * *", "--timezone", "Europe/Berlin")
    assert "bad_cron" in await trackside("schedules", "set", name, "nightly", "--cron", "0 0 31 2 *", code=2)
    await trackside("schedules", "set", name, "nightly", *nightly, "--set", "rows=5")
    await trackside("schedules", "pause", name, "nightly", "--reason", "holidays")
    await trackside("pipelines", "cancel", name, "2")

    async def is_listed() -> bool:
        listed = found(await rows("schedules", "ls"))
        page = await rows("pipelines", "show", name)
        cancelled = [run["status"] for run in page["pipeline_runs"]] == ["CANCELLED", "RUNNING"]
        return bool(listed) and listed[0]["status"] == "PAUSED" and cancelled

    await poll_until(is_listed)
    (schedule,) = await rows("schedules", "ls", name)
    assert (schedule["cron"], schedule["timezone"], schedule["next_at"]) == (nightly[1], nightly[3], None)
    (listed,) = found(await rows("pipelines", "ls"))
    assert (listed["version"], listed["runs"], listed["max_runs"], listed["open_runs"]) == (1, 2, 1, 1)
    assert (await rows("pipelines", "show", f"{name}@1"))["definition"]["steps"][0]["name"] == "train"
    shown = await trackside("pipelines", "show", name)
    assert "Europe/Berlin" in shown and f"{name}.2" in shown
    assert "no version 2" in await trackside("pipelines", "show", f"{name}@2", code=1)
    assert "there is no pipeline" in await trackside("pipelines", "show", f"{name}x", code=1)
    await trackside("schedules", "resume", name, "nightly")
    await trackside("schedules", "fire", name, "nightly")
    await publisher.record(name, ScheduleFired)
    on = ("--on", "stage", "--of", "production", "--stream", "faces")
    await trackside("schedules", "set", name, "deployed", *on, "--set", "rows=${trigger.version}")
    metric = ("--on", "metric", "--task", f"{name}.1.train", "--of", "accuracy", "--stream", f"{name}.1")
    refused = await trackside("schedules", "set", name, "good", *metric, code=2)
    assert "missing_field at $.schedule.on.above" in refused
    await trackside("schedules", "set", name, "good", *metric, "--above", "0.9")
    await trackside("schedules", "delete", name, "good")
    await trackside("schedules", "delete", name, "nightly")
    await trackside("pipelines", "retire", name, "--reason", "old")
    assert "already_terminal" in await trackside("pipelines", "run", name, code=2)

    async def is_gone() -> bool:
        (listed,) = found(await rows("pipelines", "ls"))
        return await rows("schedules", "ls", name) == [] and bool(listed["status"] == "RETIRED")

    await poll_until(is_gone)
