"""The pipeline of pipeline.yaml as ClearML's users write it: another import, and a table of task types."""

from trackside.compat.clearml import PipelineController

TASK_TYPES = {
    "examples/digits data": "digits-data",
    "examples/digits processing": "digits-processing",
    "examples/digits training": "digits-training",
}


def digits() -> PipelineController:
    """Adds the steps; nothing is sent."""
    pipe = PipelineController(name="digits", project="examples", version="1.0", task_types=TASK_TYPES)
    pipe.set_default_execution_queue("default")
    pipe.add_parameter("rows", default=1797, param_type="int")
    pipe.add_parameter("epochs", default=20, param_type="int")
    pipe.add_step(
        name="data",
        base_task_project="examples",
        base_task_name="digits data",
        parameter_override={"General/rows": "${pipeline.rows}"},
    )
    pipe.add_step(
        name="processing",
        parents=["data"],
        base_task_project="examples",
        base_task_name="digits processing",
        parameter_override={"General/held_out": 0.2, "General/seed": 1},
        step={"inputs": {"digits": "${data.artifacts.digits}"}},
    )
    pipe.add_step(
        name="training",
        parents=["processing"],
        base_task_project="examples",
        base_task_name="digits training",
        parameter_override={"General/epochs": "${pipeline.epochs}", "General/lr": 0.5},
        step={"inputs": {"split": "${processing.artifacts.split}"}},
    )
    return pipe


if __name__ == "__main__":
    pipe = digits()
    pipe.start_locally()
    print(pipe.id, "succeeded" if pipe.is_successful() else "failed")  # noqa: T201
