"""Steps that are copies of recorded tasks: found in the log, and put into the file (P1, P4, P5, P9)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from trackside.aggregates.batch.messages import BatchSpec, BatchStarted
from trackside.aggregates.run.messages import StartPipelineRun
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.resources import (
    KeepCheckpoints,
    Needs,
    Resources,
    Retry,
    RetryPolicy,
    ServicePolicy,
)
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.pipelines.compiling import CompiledPipeline, compile_pipeline
from trackside.domain.pipelines.definition import StepSpec, needs_of
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.memory import MemoryLog
from trackside.sdk import Client
from trackside.sdk.definitions.recorded_steps import TaskReference, resolve_steps, task_reference
from trackside.sdk.definitions.specs import parse_spec, read_spec_file
from trackside.sdk.errors import SpecError, UnsendableError
from trackside.sdk.pipelines import start_command

TOPICS = Topics()
DATA = ArtifactReference(uri="store:sha256/" + "a" * 64, sha256="a" * 64, size_bytes=7)
OTHER = ArtifactReference(uri="store:sha256/" + "b" * 64, sha256="b" * 64, size_bytes=9, source="s/t/n@2")
WHERE = {"queue": "night", "priority": 7, "preempt": True, "exclusive": True, "preemptible": False}
HOW = {
    "retry": RetryPolicy(failed=Retry(times=2, backoff_s=5)),
    "keep_checkpoints": KeepCheckpoints(newest=3),
}
TIMES = {"queue_timeout_s": 60.0, "run_timeout_s": 90.0, "resume": False}
NEEDS = Needs.model_validate({"resources": Resources(kind="gpu", devices=2), **WHERE, **HOW, **TIMES})
FIT = {"lr": 0.1, "deep": {"x": 1}}


def submitted(task_id: str, task_type: str, parameters: Json | None = None, **more: Any) -> TaskSubmitted:
    return TaskSubmitted(task_id=task_id, task_type=task_type, parameters=parameters or {}, **more)


TASKS = {
    "line": [
        submitted("line.1.fit", "fit", FIT, needs=NEEDS, inputs={"data": DATA}),
        submitted("line.1.plain", "plain"),
        submitted("line.1.server", "serve", needs=Needs(service=ServicePolicy())),
        submitted("line.1.dollar", "plain", {"a": 1, "home": "${HOME}/x"}),
    ],
    "other": [submitted("other.0", "fit", {"lr": 0.2})],
}


@pytest.fixture
async def client() -> Client:
    log = MemoryLog()
    await log.ensure(TOPICS.shared)
    spec = BatchSpec.model_validate({"groups": [{"tasks": [{"task_type": "fit"}]}]})
    for stream, tasks in TASKS.items():
        begun = BatchStarted(command_id="c", batch=spec)
        events = RecordWriter("dispatcher", "1").decision(stream, [begun, *tasks])
        await log.append(TOPICS.events.name, partition_of(stream, TOPICS.events.partitions), events)
    return Client("", log=log)


async def test_a_step_has_the_type_parameters_inputs_and_needs_of_its_task(client: Client) -> None:
    """P1, P4: frozen, with the offset at which the log has it."""
    found = await client.recorded_step("line/1.fit")
    assert found["recorded"] == {"stream": "line", "task": "line.1.fit", "offset": 1}
    assert await client.recorded_step("line/line.1.fit") == found
    step = StepSpec.model_validate({"name": "again", **found})
    compiled = compile_pipeline(_pipeline(found))
    assert isinstance(compiled, CompiledPipeline)
    assert (step.task_type, step.parameters) == ("fit", FIT)
    assert ArtifactReference.model_validate(step.inputs["data"]) == DATA
    assert needs_of(compiled.pipeline, compiled.pipeline.steps[0], "night") == NEEDS


async def test_needs_that_are_the_defaults_are_left_to_the_pipeline(client: Client) -> None:
    assert (await client.recorded_step("line/1.plain")).keys() == {"task_type", "recorded"}
    assert task_reference("line/1.fit") == ("line", "1.fit")
    assert all(task_reference(text).is_of("line.1.fit") for text in ("line/1.fit", "line/line.1.fit"))
    assert not task_reference("line/fit").is_of("line.1.fit")


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("line/1.fitt", "unknown_task", "stream line has no task '1.fitt'; did you mean '1.fit'?"),
        ("lines/1.fit", "unknown_task", "there is no stream lines in the log"),
        ("line/1.server", "bad_service", "line.1.server is a service, and a step has to end"),
        ("line", "bad_reference", "expected STREAM/TASK"),
        ("line/1/fit", "bad_reference", "expected STREAM/TASK"),
        ("/fit", "bad_reference", "expected STREAM/TASK"),
    ],
)
async def test_a_task_that_is_no_copy_is_named(client: Client, text: str, code: str, expected: str) -> None:
    """P4, P9: a base task that is not found is an error."""
    with pytest.raises(UnsendableError, match=code) as raised:
        await client.recorded_step(text)
    assert expected in str(raised.value)


def _pipeline(step: Json) -> Any:
    command = parse_spec(yaml.safe_dump({"kind": "pipeline", "steps": [{"name": "a", **step}]}).encode(), "x")
    assert isinstance(command, StartPipelineRun)
    return command.pipeline


SPEC = """
kind: pipeline
steps:
  - name: first
    from: line/1.fit
    parameters: {lr: 0.5}
    inputs: {more: other/0/model}
    priority: 3
  - name: second
    from: other/0
    parameters: {rows: "${first.result.rows}"}
  - name: third
    task_type: fit
    inputs: {one: "${first.artifacts.model}", two: ./digits.csv}
    run_timeout_s: 30m
"""


async def test_a_file_has_the_tasks_that_its_steps_are_copies_of(client: Client, tmp_path: Path) -> None:
    """P4, P5: what a step has itself replaces what the task had."""
    asked: dict[str, object] = {}
    steps = [await client.recorded_step(text) for text in ("line/1.fit", "other/0")]

    def find(wanted: Mapping[str, TaskReference]) -> dict[str, Json | Problem]:
        asked.update(wanted)
        return dict(zip(wanted, steps, strict=True))

    def resolve(given: Mapping[str, str | ArtifactReference]) -> dict[str, ArtifactReference | Problem]:
        asked.update(given)
        return dict.fromkeys(given, OTHER)

    command, _ = read_spec_file(_written(tmp_path, SPEC), resolve, find)
    assert isinstance(command, StartPipelineRun)
    first, second, third = command.pipeline.steps
    assert first.parameters == {"lr": 0.5, "deep": {"x": 1}}
    assert first.inputs == {"data": DATA.model_dump(mode="json"), "more": OTHER.model_dump(mode="json")}
    assert (first.task_type, first.queue, first.priority, first.run_timeout_s) == ("fit", "night", 3, 90.0)
    assert (second.task_type, second.parameters) == ("fit", {"lr": 0.2, "rows": "${first.result.rows}"})
    assert first.recorded is not None and second.recorded is not None
    assert (first.recorded.offset, second.recorded.task) == (1, "other.0")
    assert third.inputs == {"one": "${first.artifacts.model}", "two": OTHER.model_dump(mode="json")}
    assert third.run_timeout_s == 1_800.0
    tasks = {"[0].from": TaskReference("line", "1.fit"), "[1].from": TaskReference("other", "0")}
    inputs = {"[0].inputs.more": "other/0/model", "[2].inputs.two": "./digits.csv"}
    assert asked == {f"$.steps{path}": each for path, each in (tasks | inputs).items()}


async def test_all_that_is_missing_is_named_with_its_lines(client: Client, tmp_path: Path) -> None:
    dollar = await client.recorded_step("line/1.dollar")
    problem = Problem(code="unknown_task", path="$", message="there is no stream line in the log")
    with pytest.raises(SpecError) as raised:
        read_spec_file(
            _written(tmp_path, SPEC),
            lambda given: {
                path: OTHER if "two" in path else Problem(code="unknown_artifact", path=path, message="none")
                for path in given
            },
            lambda wanted: dict(zip(wanted, (problem, dollar), strict=True)),
        )
    error = raised.value
    found = [(each.code, each.path.removeprefix("$.steps")) for each in error.problems]
    assert found[0] == ("unknown_artifact", "[0].inputs.more")
    assert found[1:] == [("unknown_task", "[0].from"), ("bad_reference", "[1].from")]
    assert list(error.lines) == [7, 5, 10]
    assert "'home' of the task has ${...} in it" in str(error)


async def test_a_mapping_has_the_tasks_that_its_steps_are_copies_of(client: Client) -> None:
    """P4, P5: as a file."""
    first = {"name": "first", "from": "line/1.fit", "parameters": {"lr": 0.5}}
    second = {"name": "second", "task_type": "fit", "inputs": {"m": "${first.artifacts.m}"}}
    given = {"kind": "pipeline", "steps": [first, second]}
    found = await resolve_steps(client, given)
    command = start_command(found)
    assert command.pipeline.steps[0].parameters == {"lr": 0.5, "deep": {"x": 1}}
    assert command.pipeline.steps[1].inputs == {"m": "${first.artifacts.m}"}
    assert "from" in first, "what was given is not changed"
    assert await resolve_steps(client, command.pipeline) is command.pipeline


async def test_all_that_is_not_there_is_named_for_a_mapping_too(client: Client) -> None:
    """P8."""
    own = {"name": "c", "task_type": "fit", "inputs": {"m": "line/1.fit/model"}}
    steps = [{"name": "a", "from": "lines/1.fit"}, {"name": "b", "from": "line"}, own]
    with pytest.raises(UnsendableError) as raised:
        await client.start_run({"steps": steps})
    found = [(each.code, each.path.removeprefix("$.steps")) for each in raised.value.problems]
    codes = ("unknown_artifact", "bad_reference", "unknown_task")
    assert found == list(zip(codes, ("[2].inputs.m", "[1].from", "[0].from"), strict=True))


def test_nothing_is_looked_for_in_a_file_that_is_wrong_elsewhere_or_without_log(tmp_path: Path) -> None:
    text = SPEC.replace("from: line/1.fit", "from: [line]").replace("priority: 3", "priority: 30")
    text = text.replace("from: other/0", "from: other/0\n    task_type: fit\n    gat: {}")
    with pytest.raises(SpecError) as raised:
        read_spec_file(_written(tmp_path, text), lambda _: {}, lambda _: pytest.fail("it was looked for"))
    found = {(each.code, each.path.removeprefix("$.steps")) for each in raised.value.problems}
    wrong = {("bad_reference", "[0].from"), ("priority_range", "[0].priority"), ("bad_step", "[1].from")}
    assert found == wrong | {("unknown_field", "[1].gat")}
    with pytest.raises(SpecError, match=r"\$\.steps\[0\]\.from: a copy of a recorded task needs the log"):
        read_spec_file(_written(tmp_path, SPEC))


def test_a_whole_reference_that_is_none_is_left_to_the_checks_of_the_definition(tmp_path: Path) -> None:
    text = SPEC.replace("./digits.csv", "{uri: x}").replace("from: line/1.fit", "task_type: fit")
    file = _written(tmp_path, text.replace("from: other/0", "task_type: fit"))
    command, _ = read_spec_file(file, lambda given: dict.fromkeys(given, OTHER))
    assert isinstance(command, StartPipelineRun)
    found = compile_pipeline(command.pipeline)
    assert not isinstance(found, CompiledPipeline)
    at = "$.steps[2].inputs.two"
    assert {each.path for each in found} == {f"{at}.sha256", f"{at}.size_bytes"}


def _written(folder: Path, text: str) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(text)
    return file
