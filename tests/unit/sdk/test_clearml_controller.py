"""ClearML's controller: its arguments become steps of a pipeline, or are refused with what to use."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from trackside.compat.clearml import NotSupportedError, PipelineController
from trackside.compat.clearml.arguments import METHODS, REFUSED_METHODS, ArgumentSupport
from trackside.contracts.envelope.message import Json
from trackside.domain.pipelines.compiling import CompiledPipeline, compile_pipeline

NAMES = json.loads((Path(__file__).parent / "clearml_names.json").read_text("utf-8"))
TASKS = {"4f2a": "prepare", "lab/train": {"task_type": "fit", "parameters": {"lr": 0.1, "deep": False}}}


def controller(**given: Any) -> PipelineController:
    pipe = PipelineController("digits", "lab", **{"task_types": TASKS, **given})
    pipe.set_default_execution_queue("default")
    return pipe


def with_data(**given: Any) -> PipelineController:
    pipe = controller(**given)
    pipe.add_step("data", "4f2a")
    return pipe


def spec_of(**step: Any) -> Json:
    """Returns the step that one of the original becomes, after a step `data`."""
    pipe = with_data()
    pipe.add_step("train", base_task_project="lab", base_task_name="train", **step)
    found: Json = pipe.get_pipeline().spec()["steps"][1]
    return found


def test_each_method_and_argument_of_the_original_is_taken_by_its_name_and_in_its_order() -> None:
    for name, arguments in NAMES["controller"]["methods"].items():
        own = getattr(PipelineController, name)
        if name in REFUSED_METHODS:
            continue
        parameters = inspect.signature(own).parameters.values()
        positional = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        assert [each for each in positional if each not in ("self", "cls")] == arguments, name
    for name in NAMES["controller"]["properties"]:
        assert isinstance(getattr(PipelineController, name), property)
    fields = set(PipelineController.Node.__dataclass_fields__)
    assert set(NAMES["first_release"]["controller"]["Node"]) <= fields


def test_each_method_and_argument_of_the_first_release_is_taken_by_its_name() -> None:
    for name, arguments in NAMES["first_release"]["controller"]["methods"].items():
        assert set(arguments) <= set(inspect.signature(getattr(PipelineController, name)).parameters), name
    pipe = PipelineController(
        default_execution_queue="gpu", pipeline_time_limit=90, always_create_task=True, task_types=TASKS
    )
    pipe.add_step(name="data", base_task_id="4f2a", time_limit=30)
    spec = pipe.get_pipeline().spec()
    assert spec["timeout_s"] == 5_400, "P24: minutes"
    assert spec["steps"][0]["run_timeout_s"] == 30, "P24: seconds"
    assert spec["steps"][0]["queue"] == "gpu"


REFUSED = [
    (method, name)
    for method, (arguments, *_) in METHODS.items()
    for name, argument in arguments.items()
    if argument.support is ArgumentSupport.REFUSED
]


@pytest.mark.parametrize(("method", "name"), REFUSED)
def test_an_argument_that_is_refused_says_what_to_use(method: str, name: str) -> None:
    """P25, P35: also the callbacks."""
    argument = METHODS[method][0][name]
    given = not argument.default if isinstance(argument.default, bool) else "something"
    pipe = controller()
    call = PipelineController if method == "__init__" else getattr(pipe, method)
    first = ("train",) if method == "add_step" else ()
    with pytest.raises(NotSupportedError) as caught:
        call(*first, **{name: given})
    assert name in str(caught.value) and argument.note in str(caught.value)


@pytest.mark.parametrize("method", sorted(set(REFUSED_METHODS) - {"task"}))
def test_a_method_that_is_refused_says_what_to_use(method: str) -> None:
    with pytest.raises(NotSupportedError, match=rf"^{method} is not supported: .*\w"):
        getattr(PipelineController, method)("any", thing=1)
    with pytest.raises(NotSupportedError, match="a run has no task"):
        _ = controller().task


def test_p30_a_step_that_is_a_function_is_refused_and_a_gate_or_a_search_needs_no_base_task() -> None:
    pipe = controller()
    with pytest.raises(NotSupportedError, match="nothing is pickled: make the function a task class"):
        pipe.add_function_step("data", lambda: 1, function_return=["rows"])
    assert pipe.get_pipeline_dag() == {}
    pipe = with_data()
    gate, search = {"gate": {"message": "good enough?"}}, {"kind": "search", "spec": {"of": "${data.id}"}}
    pipe.add_step("look", parents=["data"], step=gate)
    pipe.add_step("search", parents=["look"], step=search)
    steps: list[Json] = [{"name": "look", **gate, "needs": {"all": ["data"]}}]
    steps.append(search | {"name": "search", "needs": {"all": ["look"]}})
    assert pipe.get_pipeline().spec()["steps"][1:] == steps


def test_p3_what_was_polled_has_no_effect_and_get_needs_an_id_or_a_name() -> None:
    """P3, P5, P26: nothing polls, no process runs the pipeline, and no tags tell its tasks."""
    pipe = controller(pool_frequency=5, add_pipeline_tags=True, docker="image", auto_connect_task=False)
    plain = controller()
    for each in (pipe, plain):
        each.add_step("data", "4f2a")
    assert pipe.get_pipeline().spec() == plain.get_pipeline().spec()
    with pytest.raises(ValueError, match="expected pipeline_id, the id of a run, or pipeline_name"):
        PipelineController.get(pipeline_project="lab")
    with pytest.raises(ValueError, match="pipeline_version: expected a version of the pipeline, such as 2"):
        PipelineController.get(pipeline_name="digits", pipeline_version="1.0.2")


def test_p4_errors_of_add_step_are_value_errors() -> None:
    pipe = controller()
    assert pipe.add_step("data", "4f2a") is True
    with pytest.raises(ValueError, match="there is a step 'data' already"):
        pipe.add_step("data", "4f2a")
    with pytest.raises(ValueError, match="expected base_task_id, or base_task_project and base_task_name"):
        pipe.add_step("train", base_task_project="lab")
    with pytest.raises(ValueError, match=r"no task type for .*'lab/trian'; did you mean 'lab/train'"):
        pipe.add_step("train", base_task_project="lab", base_task_name="trian")
    with pytest.raises(ValueError, match=r"add it to task_types: \{'77ee': TASK_TYPE\}"):
        pipe.add_step("train", "77ee")
    with pytest.raises(ValueError, match="'pipeline' can't be the name of a step"):
        pipe.add_step("pipeline", "4f2a")
    assert list(pipe.get_pipeline_dag()) == ["data"]


def test_p2_nothing_is_shared_between_nodes_controllers_and_what_was_given() -> None:
    parents: list[str] = []
    parameters = {"General/rows": [1]}
    pipe = controller()
    pipe.add_step("data", "4f2a", parents, parameters)
    pipe.add_step("more", "4f2a")
    parents.append("more")
    parameters["General/rows"].append(2)
    dag = pipe.get_pipeline_dag()
    assert (dag["data"].parents, dag["data"].parameters) == ([], {"General/rows": [1]})
    dag["more"].parents.append("data")
    dag["more"].parameters["x"] = 1
    PipelineController.Node("a").parents.append("data")
    assert PipelineController.Node("b").parents == []
    data, more = pipe.get_pipeline().spec()["steps"]
    assert more == {"name": "more", "task_type": "prepare", "queue": "default"}
    assert data == more | {"name": "data", "parameters": {"rows": [1]}}


def test_parameters_lose_their_section_and_keep_those_of_the_base_task() -> None:
    pipe = controller()
    pipe.add_parameter("mode", "full")
    pipe.add_step("data", "4f2a")
    override = {
        "Args/lr": 0.5,
        "General/rows": "${data.parameters.Args/rows}",
        "General/from": ("${data.artifacts.digits.url}", "${data.models.output.-1.url}"),
        "General/task": "of ${data.id} in ${pipeline.mode:-full}",
    }
    more = {"parameter_override": override, "execution_queue": "${data.parameters.Args/queue}"}
    pipe.add_step("train", base_task_project="lab", base_task_name="train", **more)
    spec = pipe.get_pipeline().spec()
    step = spec["steps"][1]
    assert step["parameters"] == {
        "lr": 0.5,
        "deep": False,
        "rows": "${data.parameters.rows}",
        "from": ["${data.artifacts.digits.uri}", "${data.models.output.-1.uri}"],
        "task": "of ${data.id} in ${pipeline.mode:-full}",
    }
    assert (step["task_type"], step["queue"]) == ("fit", "${data.parameters.queue}")
    compiled = compile_pipeline(pipe.get_pipeline().definition())
    assert isinstance(compiled, CompiledPipeline)
    assert compiled.pipeline.steps[1].needs.all == ["data"], "P11: a reference is a dependency"
    with pytest.raises(ValueError, match="two parameters 'lr'"):
        pipe.add_step("last", "4f2a", parameter_override={"Args/lr": 1, "General/lr": 2})


def test_limits_retries_monitors_cache_and_stage_become_fields_of_the_step() -> None:
    """P33, P38, P39: retries, what a run mirrors, and stages."""
    own = {"inputs": {"digits": "${data.artifacts.digits}"}, "when": "data.result.rows > 9"}
    step = spec_of(
        time_limit=30,
        retry_on_failure=2,
        cache_executed_step=True,
        stage="training",
        monitor_metrics=[("loss", "train"), (("acc", "acc"), ("best", "accuracy"))],
        monitor_artifacts=["plots", ("digits", "data set")],
        monitor_models=[("weights_*", "weights")],
        step=own,
    )
    metrics = {"loss/train": "loss.train", "acc": "best.accuracy"}
    artifacts = {"plots": "plots", "digits": "data.set"}
    assert step == {
        **spec_of(),
        "run_timeout_s": 30,
        "retry": {**step["retry"], "failed": 2},
        "cache": {},
        "stage": "training",
        "mirror": {"metrics": metrics, "artifacts": artifacts, "models": {"weights_*": "weights"}},
        **own,
    }
    pipe = with_data(retry_on_failure=1)
    pipe.add_step("more", "4f2a", retry_on_failure=0)
    retries = [step["retry"]["failed"] for step in pipe.get_pipeline().spec()["steps"]]
    assert retries == [1, 0]
    with pytest.raises(NotSupportedError, match=r"step 'train': retry_on_failure takes a number.*backoff_s"):
        spec_of(retry_on_failure=lambda pipeline, node, retries: True)
    with pytest.raises(NotSupportedError, match="PipelineController: retry_on_failure takes a number"):
        controller(retry_on_failure=lambda pipeline, node, retries: True)
    with pytest.raises(ValueError, match="monitor_artifacts: expected names or pairs of names, got 7"):
        spec_of(monitor_artifacts=[7])


NO_CHILDREN_SKIPPED = {"skip_children_on_fail": False, "continue_on_abort": False}
ENDS = ("failed", "timed_out", "lost", "aborted")


@pytest.mark.parametrize(
    ("abort_on_failure", "flags", "failed", "aborted", "guards"),
    [
        (False, {}, "skip", "skip", ""),
        (True, {}, "fail", "skip", ""),
        (False, {"continue_on_fail": True}, "continue", "skip", "failed lost timed_out"),
        (True, {"continue_on_fail": True}, "continue", "skip", "failed lost timed_out"),
        (False, {"continue_behaviour": {}}, "continue", "continue", "aborted failed lost timed_out"),
        (False, {"continue_behaviour": NO_CHILDREN_SKIPPED}, "continue", "skip", ""),
    ],
)
def test_p36_what_follows_the_end_of_a_step_becomes_on_end_and_when(
    abort_on_failure: bool, flags: Json, failed: str, aborted: str, guards: str
) -> None:
    pipe = controller(abort_on_failure=abort_on_failure)
    pipe.add_step("data", "4f2a", **flags)
    pipe.add_step("train", "4f2a", parameter_override={"General/x": "${data.id}"}, step={"when": "1 < 2"})
    data, train = pipe.get_pipeline().spec()["steps"]
    states = (failed, failed, failed, aborted)
    assert data.get("on_end", dict.fromkeys(ENDS, "skip")) == dict(zip(ENDS, states, strict=True))
    condition = f"(1 < 2) and steps['data'].status not in '{guards}'"
    assert train["when"] == (condition if guards else "1 < 2")
    with pytest.raises(ValueError, match="continue_behaviour has"):
        pipe.add_step("last", "4f2a", continue_behaviour={"continue_on_failure": True})


def test_p31_a_parameter_of_the_pipeline_has_its_type_and_keeps_it() -> None:
    pipe = controller()
    pipe.add_parameter("epochs", 3, "how often", "int")
    pipe.add_parameter("rate", param_type=float)
    pipe.add_parameter("note")
    pipe.add_step("data", "4f2a")
    assert pipe.get_pipeline().spec()["parameters"] == {
        "epochs": {"type": "integer", "description": "how often", "default": 3},
        "rate": {"type": "number"},
        "note": {"default": None},
    }
    assert pipe.get_parameters() == {"epochs": 3, "rate": None, "note": None}
    with pytest.raises(ValueError, match="param_type 'date' is unknown; expected one of: str"):
        pipe.add_parameter("day", param_type="date")


def test_the_table_of_task_types_may_be_a_file_and_names_describe_the_pipeline(tmp_path: Path) -> None:
    table = tmp_path / "types.yaml"
    table.write_text("4f2a: prepare\nlab/train: {task_type: fit, queue: gpu}\n")
    pipe = PipelineController("p", "lab", task_types=table)
    pipe.add_step("train", base_task_project="lab", base_task_name="train")
    assert pipe.get_pipeline().spec()["steps"] == [{"name": "train", "task_type": "fit", "queue": "gpu"}]
    table.write_text("4f2a: [1]\n")
    with pytest.raises(ValueError, match=r"types\.yaml: 4f2a: expected a task type"):
        PipelineController("p", "lab", task_types=str(table))
    with pytest.raises(ValueError, match="can't be read as a table of task types"):
        PipelineController("p", "lab", task_types=tmp_path / "none.yaml")
    pipe = controller(version="1.2")
    pipe.add_tags("nightly")
    pipe.add_tags(["gpu"])
    pipe.add_step("data", "4f2a")
    spec = pipe.get_pipeline().spec()
    assert spec["name"] == "digits"
    assert spec["description"] == "project: lab; version: 1.2; tags: nightly, gpu"
    assert (pipe.tags, pipe.version, pipe.id) == (["nightly", "gpu"], "1.2", "")
    assert pipe.connect_configuration({"a": 1}) == {"a": 1}


def test_before_it_is_started_nothing_runs_and_nothing_is_successful() -> None:
    """P29: -1 before the start; P23: what is not started does not run."""
    pipe = with_data()
    assert pipe.elapsed() == -1
    assert not pipe.is_running() and not pipe.is_successful()
    assert pipe.wait(1) is True
    assert (pipe.get_processed_nodes(), pipe.get_running_nodes()) == ({}, {})
    assert pipe.get_pipeline_dag()["data"].executed is None
    pipe.stop()
    pipe.update_execution_plot()
    with pytest.raises(ValueError, match="fail_condition: expected one of all, failed, aborted"):
        pipe.is_successful(fail_condition="any")


def test_p8_problems_of_the_definition_are_one_value_error_with_all_of_them() -> None:
    pipe = controller()
    pipe.add_step("a", "4f2a", parameter_override={"x": "${b.reslut}", "y": "${nobody.id}"})
    pipe.add_step("b", "4f2a", parents=["b"])
    with pytest.raises(ValueError, match=r"(?s)unknown kind 'reslut'.*'nobody'.*needs itself"):
        pipe.start()
    with pytest.raises(ValueError, match=r"bad_length at \$\.steps"):  # an empty pipeline does not "succeed"
        controller().start()
    pipe = PipelineController("p", "lab", task_types=TASKS)
    pipe.add_step("data", "4f2a")
    with pytest.raises(ValueError, match="'data' has no queue"):
        pipe.get_pipeline()
