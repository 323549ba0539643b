"""The pipeline of pipeline.yaml, in Python. Run it with `python pipeline.py`, within a folder of a stack."""

from trackside.sdk import Client, Pipeline
from trackside.sdk.definitions import discovery


def digits() -> Pipeline:
    """Defines the pipeline; nothing is sent."""
    pipeline = Pipeline(
        "digits",
        parameters={
            "rows": {"type": "integer", "minimum": 100, "default": 1797},
            "epochs": {"type": "integer", "minimum": 1, "default": 20},
        },
    )
    data = pipeline.task("data", "digits-data", parameters={"rows": pipeline.parameter("rows")})
    processing = pipeline.task(
        "processing",
        "digits-processing",
        parameters={"held_out": 0.2, "seed": 1},
        inputs={"digits": data.artifacts["digits"]},
    )
    training = pipeline.task(
        "training",
        "digits-training",
        parameters={"epochs": pipeline.parameter("epochs"), "lr": 0.5},
        inputs={"split": processing.artifacts["split"]},
    )
    pipeline.outputs(accuracy=training.result["accuracy"], model=training.models.output[-1].uri)
    return pipeline


if __name__ == "__main__":
    with Client.blocking(discovery.bootstrap(), discovery.prefix()) as client:
        run_id = client.start_run(digits(), {"epochs": 30})
        print(run_id, client.wait(run_id).root.status)  # noqa: T201 - what its user wants to see
