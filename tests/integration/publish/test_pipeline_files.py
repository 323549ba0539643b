"""`trackside submit` of files with pipelines, on a real broker: steps that are copies of recorded tasks."""

import json
from pathlib import Path

from tests.integration.dispatcher.harness import RunningDispatcher
from tests.integration.publish.test_command_line import trackside
from trackside.aggregates.pipeline.messages import PipelineDefined
from trackside.aggregates.run.messages import RunStarted
from trackside.contracts.ids import new_id
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain.pipelines.compiling import digest
from trackside.sdk import Client

TASK = {"name": "fit", "task_type": "noop", "parameters": {"lr": 0.1, "epochs": 3}, "priority": 7}
PIPELINE = """
kind: pipeline
steps:
  - name: again
    from: %s/1.fit
    parameters: {lr: 0.5}
  - name: other
    from: %s
    parameters: {seen: "${again.result.rows}"}
"""


async def test_a_step_that_is_a_copy_runs_what_the_log_has(
    dispatcher: RunningDispatcher, tmp_path: Path
) -> None:
    """P1, P4, P5, P9: type, parameters and needs of the task, with its place in the log."""
    stream, run, settings = new_id("line"), new_id("run"), dispatcher.settings
    file = tmp_path / "spec.yaml"
    async with Client(settings.kafka_bootstrap, settings.topic_prefix) as client:
        await client.submit_tasks({"groups": [{"tasks": [TASK]}]}, stream)
        file.write_text(PIPELINE % (f"{stream}x", f"{stream}/1.fitt"))
        code, output, errors = await trackside(dispatcher, "submit", str(file))
        assert (code, output) == (2, "")
        assert f"{file}:5: unknown_task at $.steps[0].from: there is no stream {stream}x in the log" in errors
        assert f"{file}:8: unknown_task at $.steps[1].from: stream {stream} has no task '1.fitt'" in errors
        assert "did you mean '1.fit'?" in errors
        file.write_text(PIPELINE % (stream, f"{stream}/{stream}.1.fit"))
        code, output, errors = await trackside(dispatcher, "submit", str(file), "--id", run)
        assert (code, errors) == (0, "")
        name = new_id("nightly")
        code, _, errors = await trackside(dispatcher, "pipelines", "define", name, str(file))
        assert (code, errors) == (0, "")
        [defined] = [
            record.message
            async for record in client.events(name)
            if isinstance(record.message, PipelineDefined)
        ]
        assert defined.sha256 == digest(defined.pipeline)
        records = [record async for record in client.events(stream)]
        [submitted] = [record for record in records if isinstance(record.message, TaskSubmitted)]
        [started] = [
            record.message async for record in client.events(run) if isinstance(record.message, RunStarted)
        ]
    assert started.sha256 == defined.sha256
    again, other = started.pipeline.steps
    assert again.recorded is not None and other.recorded is not None
    place = {"stream": stream, "task": f"{stream}.1.fit", "offset": submitted.offset}
    assert again.recorded.model_dump() == other.recorded.model_dump() == place
    assert (again.task_type, again.priority, again.parameters) == ("noop", 7, {"lr": 0.5, "epochs": 3})
    assert other.parameters == {"lr": 0.1, "epochs": 3, "seen": {"$ref": ["again", "result", "rows"]}}
    assert f"{stream}/1.fit: noop, as submitted at offset {submitted.offset}" in output


async def test_a_definition_that_the_dispatcher_refuses_has_the_lines_of_its_problems(
    dispatcher: RunningDispatcher, tmp_path: Path
) -> None:
    """P8: all at once."""
    file = tmp_path / "spec.yaml"
    file.write_text(
        "kind: pipeline\n"
        "steps:\n"
        "  - {name: a, task_type: noop, needs: [b]}\n"
        "  - {name: b, task_type: noop, needs: [a]}\n"
        "  - name: c\n"
        "    task_type: nooop\n"
        '    parameters: {x: "${d.id}"}\n'
        "    when: 1 +\n"
    )
    code, output, errors = await trackside(dispatcher, "submit", str(file), "--json")
    assert (code, errors) == (2, "")
    found = json.loads(output)
    assert {(each["code"], each["path"], each["line"]) for each in found["problems"][1:]} == {
        ("unknown_step", "$.pipeline.steps[2].parameters.x", 7),
        ("bad_expression", "$.pipeline.steps[2].when", 8),
        ("unknown_task_type", "$.pipeline.steps[2].task_type", 6),
    }
    assert (found["code"], found["problems"][0]["line"] in (3, 4)) == ("pipeline_cycle", True)
