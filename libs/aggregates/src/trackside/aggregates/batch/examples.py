"""One example of every message of batches, with every field in it: part of the published schemas."""

from trackside.aggregates.batch.messages import (
    BatchEnded,
    BatchSpec,
    BatchStarted,
    BatchStatus,
    BatchStopRequested,
    ChildSpec,
    GroupEnded,
    GroupSpec,
    StopTasks,
    SubmitTasks,
    TaskSpec,
)
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.resources import Resources, Retry, RetryPolicy
from trackside.contracts.wire.examples import INPUT

BATCH = BatchSpec(
    name="compare",
    groups=[
        GroupSpec(
            name="warm-up",
            tasks=[
                TaskSpec(
                    name="small",
                    task_type="digits",
                    parameters={"epochs": 1},
                    priority=9,
                    inputs={"digits": INPUT},
                ),
                TaskSpec(task_type="digits", resources=Resources(kind="gpu", devices=2)),
            ],
            children=[ChildSpec(name="lr", kind="search", spec={"task_type": "digits", "max_trials": 20})],
            estimate_memory=2_000_000_000,
        )
    ],
    retry=RetryPolicy(failed=Retry(times=2, backoff_s=5.0)),
    run_timeout_s=3_600.0,
    inputs={"digits": INPUT},
)
EXAMPLES: list[Message] = [
    SubmitTasks(**dict(BATCH)),
    StopTasks(task="small", reason="not needed"),
    BatchStarted(command_id="c-3", batch=BATCH),
    GroupEnded(group=0, ends={"finished": 1, "failed": 1}),
    BatchStopRequested(command_id="c-4", reason="not needed"),
    BatchEnded(status=BatchStatus.DONE),
]
