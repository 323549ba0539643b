"""The example of a pipeline runs as YAML, from the builder, and from ClearML's controller; real processes."""

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.integration.sdk.conftest import EXAMPLE
from trackside.aggregates.run.aggregate import RUN
from trackside.aggregates.run.messages import RunStatus
from trackside.aggregates.run.state import run_of
from trackside.aggregates.run.step_messages import GateOpened, StepState
from trackside.cli.app import call
from trackside.compat.clearml import PipelineController
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.streams.stream import Stream
from trackside.sdk import NamedPipeline, Pipeline, PipelineRun
from trackside.sdk.blocking import BlockingClient
from trackside.sdk.errors import ClientError, RefusedError, UnsendableError
from trackside.sdk.pipelines import PipelineStep

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("settings")]

TYPES = {"sums": "sums"}


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a module of the example."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield importlib.import_module
    for name in ("pipeline", "controller"):
        sys.modules.pop(name, None)


def step_rows(stream: Stream) -> list[dict[str, Any]]:
    """Returns the rows of the steps of a run, without its id and times."""
    found = []
    for projection in RUN.rows:
        if projection.table.name == "steps":
            for key in projection.keys(stream):
                row = dict(zip(projection.table.columns, projection.row(stream, key), strict=True))
                kept = {name: value for name, value in row.items() if not name.endswith("_ms")}
                del kept["run_id"]
                kept["resolved"] = str(kept["resolved"]).replace(stream.stream_id, "RUN")
                found.append(kept)
    return found


def test_the_three_forms_of_the_example_run_with_the_same_rows(
    client: BlockingClient, example: Callable[[str], Any]
) -> None:
    assert call(["submit", str(EXAMPLE / "pipeline.yaml"), "--id", "in-yaml"]) == 0
    assert client.start_run(example("pipeline").digits(), run_id="in-python") == "in-python"
    pipe = example("controller").digits()
    pipe.start_locally()
    streams = [client.wait(run_id, 120) for run_id in ("in-yaml", "in-python", pipe.id)]
    rows = [step_rows(stream) for stream in streams]
    assert [row["state"] for row in rows[0]] == ["succeeded"] * 3
    assert rows[0] == rows[1] == rows[2]
    runs = [run_of(stream) for stream in streams[:2]]
    outputs = [run.outputs for run in runs if run is not None]
    assert outputs[0] == outputs[1] and outputs[0]["accuracy"] > 0.9
    assert outputs[0]["model"].startswith("store:sha256/")
    assert pipe.is_successful() and not pipe.is_running()


def test_the_accessors_of_the_controller_follow_the_log(client: BlockingClient) -> None:
    """P14, P18, P19, P23, P24, P29: failed steps are shown, aborted ones are no successes, units are minutes.

    It is started without a current task.
    """
    pipe = PipelineController("sums", "lab", default_execution_queue="default", task_types=TYPES)
    pipe.add_parameter("of", [1, 2], param_type="list")
    pipe.add_step("first", "sums", parameter_override={"General/of": "${pipeline.of}"})
    pipe.add_step("wrong", "sums", parameter_override={"General/fails": True})
    pipe.add_step("after", "sums", parents=["wrong"])
    pipe.add_step("endless", "sums", parents=["first"], parameter_override={"General/waits": True})
    assert pipe.start(wait=False, parameters={"of": [3, 4]}) is True
    run_id = pipe.id
    assert pipe.start(wait=False) is True and pipe.id == run_id, "P14: a second start starts nothing"
    with closing(client.events(run_id, follow=True)) as records:
        next(record for record in records if _submits(record.message, f"{run_id}.endless"))
    began_s = time.monotonic()
    assert pipe.wait(timeout=0.01) is False and pipe.is_running()
    assert time.monotonic() - began_s >= 0.5 and 0.01 <= pipe.elapsed() < 0.5
    assert pipe.get_processed_nodes()["first"].executed == f"{run_id}.first"
    assert "endless" in pipe.get_running_nodes()
    pipe.stop(timeout=2)
    assert not pipe.is_running() and not pipe.is_successful()
    nodes = pipe.get_processed_nodes()
    statuses = {name: node.status for name, node in nodes.items()}
    assert statuses["first"] == "completed" and statuses["endless"] == "aborted"
    assert statuses["wrong"] in ("failed", "aborted") and statuses["after"] == "skipped"
    assert nodes["endless"].executed is False
    assert pipe.get_parameters() == {"of": [3, 4]} and pipe.elapsed() > 0
    assert pipe.is_successful(fail_condition="failed", fail_on_step_fail=False)
    again = PipelineController.get(run_id)
    assert {name: node.status for name, node in again.get_pipeline_dag().items()} == statuses
    assert again.get_pipeline_dag()["endless"].parents == ["first"]
    with pytest.raises(ValueError, match="expected the id of a run that has begun, got 'none'"):
        PipelineController.get("none")


def test_a_run_is_followed_and_changed_from_python(client: BlockingClient) -> None:
    """P15: the same run goes on, with a patch, and keeps what has succeeded."""
    pipeline = Pipeline("gated", parameters={"of": {"type": "array"}})
    first = pipeline.task("first", "sums", parameters={"of": pipeline.parameter("of")})
    look = pipeline.gate("look", form={"fails": {"type": "boolean"}}, needs=[first])
    pipeline.task("last", "sums", parameters={"of": [first.result["sum"]], "fails": look.result["fails"]})
    pipeline.task("extra", "sums", needs=[look])
    pipeline.outputs(sum=PipelineStep("last").result["sum"])
    run = PipelineRun.start(pipeline, {"of": [1, 2]})
    run.skip_step("extra", reason="not now")
    with closing(client.events(run.id, follow=True)) as records:
        next(record for record in records if isinstance(record.message, GateOpened))
    assert run.status() is RunStatus.RUNNING
    with pytest.raises(RefusedError):
        run.approve("look", fails="perhaps")
    run.approve("look", fails=True, actor="me")
    assert run.wait(60) is RunStatus.FAILED
    assert run.step("last").state is StepState.FAILED
    assert run.step("extra").state is StepState.SKIPPED and run.step("extra").reason == "not now"
    began_ms = run.step("first").ready_ms
    run.retry_failed("last", patch={"last": {"parameters": {"fails": False}}})
    assert run.wait(60) is RunStatus.SUCCEEDED
    assert (run.outputs(), run.step("first").ready_ms) == ({"sum": 3}, began_ms)
    assert run.step("first").results == {0: {"sum": 3}} and run.step("look").kind == "gate"
    run.restart_from("first")
    with closing(client.events(run.id, follow=True)) as records:
        next(each for each in records if isinstance(each.message, GateOpened) and each.message.generation > 1)
    run.pause()
    assert run.status() is RunStatus.PAUSED
    run.resume()
    run.update(timeout_s="1h")
    run.reject("look", reason="no")
    assert run.wait(60) is RunStatus.FAILED
    with pytest.raises(ClientError, match="has no step 'lats'; did you mean 'last'"):
        run.step("lats")
    with pytest.raises(UnsendableError, match="wrong_type"):
        run.abort_step("last", index="first")  # type: ignore[arg-type]
    run.archive()
    with pytest.raises(RefusedError):
        run.retry_failed()
    with pytest.raises(ClientError, match="there is no run nothing"):
        PipelineRun("nothing").status()


def test_a_pipeline_is_defined_under_a_name_and_has_versions_and_numbered_runs() -> None:
    """P39: versions by content, and run numbers."""
    pipeline = Pipeline("named", parameters={"of": {"type": "array", "default": [1]}})
    pipeline.task("first", "sums", parameters={"of": pipeline.parameter("of")})
    pipeline.outputs(sum=PipelineStep("first").result["sum"])
    named = NamedPipeline("named")
    with pytest.raises(ClientError, match="there is no pipeline named; define it first"):
        named.state()
    assert [named.define(pipeline), named.define(pipeline)] == [1, 1]
    pipeline.task("second", "sums")
    assert named.define(pipeline) == 2
    old, new = named.run({"of": [2, 3]}, version=1), named.run()
    assert (old.id, new.id) == ("named.1", "named.2")
    assert (old.wait(60), new.wait(60)) == (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED)
    assert (old.outputs(), new.outputs()) == ({"sum": 5}, {"sum": 1})
    assert [list(run.steps()) for run in (old, new)] == [["first"], ["first", "second"]]
    named.create_schedule("weekly", cron="0 0 * * 0")
    named.pause_schedule("weekly")
    named.fire_schedule("weekly")
    assert PipelineRun("named.3").wait(60) is RunStatus.SUCCEEDED
    named.delete_schedule("weekly")
    named.retire()
    with pytest.raises(RefusedError):
        named.run()


@pytest.mark.long
def test_a_draft_of_a_controller_is_defined_and_run_later() -> None:
    pipe = PipelineController("a draft", "lab", default_execution_queue="default", task_types=TYPES)
    pipe.add_step("first", "sums")
    assert pipe.start(queue=None) is True and pipe.id == ""
    run = PipelineController.enqueue("a.draft", queue_name="services")
    assert run.id == "a.draft.1" and run.wait(1) and run.is_successful()
    assert run.get_pipeline_dag()["first"].status == "completed"
    for by_name in ({}, {"pipeline_version": "1"}):
        assert PipelineController.get(pipeline_project="lab", pipeline_name="a draft", **by_name).id == run.id
    with pytest.raises(ValueError, match="there is no run of version 2 of a pipeline"):
        PipelineController.get(pipeline_name="a draft", pipeline_version="2")
    with pytest.raises(ValueError, match="unknown_pipeline"):
        PipelineController.enqueue("no-draft")
    assert PipelineController.enqueue(pipe) is pipe and pipe.wait(1) and pipe.is_successful()


def _submits(message: object, task_id: str) -> bool:
    return isinstance(message, TaskSubmitted) and message.task_id == task_id
