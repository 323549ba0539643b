"""One example of every message of no aggregate, with every field in it: part of the published schemas."""

from typing import Any

from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.fleet import draining, fleet
from trackside.contracts.streams import (
    children,
    commands,
    forgetting,
    imports,
    keys,
    labels,
    parking,
    watches,
)
from trackside.contracts.tasks import artifacts, device_commands, instructions, summaries, tasks

SOURCE = commands.Source(topic="trackside.commands", partition=1, offset=42)
ASKED = forgetting.ForgettingCommand(command_id="c-2", digest="4f8b42c2", source=SOURCE, offset=212)
WAS: dict[str, Any] = {"kind": "search", "status": "DONE", "unit": "trials", "ends": {"SUCCEEDED": 20}}
PLACE = WAS | {"rules": 1, "first_offset": 17, "follows": 212, "ended": 20, "total": 20}
PARAMETERS: dict[str, Any] = {"lr": 0.01, "hidden": 64, "optimizer": "adam", "bias": True, "seed": None}
RESERVED = tasks.Reservation(memory_bytes=2_000_000_000, cuda_memory_bytes=8_589_934_592, estimated_by="task")
BODY: dict[str, Any] = {
    "queue": "default",
    "priority": 5,
    "preempt": False,
    "exclusive": False,
    "resources": {
        "kind": "any",
        "devices": 1,
        "device": "",
        "whole_device": False,
        "estimate_memory": None,
        "estimate_cuda_memory": None,
    },
    "retry": {"lost": 3, "failed": 1, "oom_host": 2, "oom_device": 2, "timed_out_run": 0},
    "queue_timeout_s": None,
    "run_timeout_s": None,
    "name": "digits",
    "task_type": "digits",
    "space": {
        "lr": {"low": 0.0001, "high": 0.1, "type": "loguniform"},
        "dropout": {"low": 0.0, "high": 0.5, "type": "uniform"},
        "width": {"low": 16.0, "high": 256.0, "type": "quniform", "step": 16.0},
        "hidden": {"type": "randint", "low": 8, "high": 129},
        "optimizer": {"type": "choice", "values": ["sgd", "adam", 1, 0.5, True, None]},
    },
    "tuner": {
        "name": "tpe",
        "remote": False,
        "time_limit_s": None,
        "options": {"n_startup_trials": 5},
        "on_failure": {"retries": 2, "then": "stop"},
    },
    "assessor": {
        "name": "median",
        "remote": False,
        "time_limit_s": None,
        "options": {"n_warmup_steps": 2},
        "count_last_value": False,
        "on_failure": {"retries": 2, "then": "keep"},
    },
    "direction": "maximize",
    "objectives": [],
    "max_trials": 20,
    "concurrency": 2,
    "max_duration_s": None,
    "max_trial_duration_s": None,
    "goal": None,
    "seed": 7,
    "origin": None,
    "past": [],
    "first": [],
}
TOKEN: dict[str, Any] = {"task_id": "digits-1.7", "attempt": 2, "placement": 1, "incarnation": "w1-0a"}
PLACEMENT: dict[str, Any] = {
    "stream": "digits-1",
    **TOKEN,
    "public_key": "WtBjYXUwuMlyfrnxUE5vKZlXLLmcNEMbHQLTCAuBSms=",
}
COUNTED: dict[str, Any] = {"task_id": "digits-1.7", "attempt": 2, "placement": 1}
DIGEST = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
PART = Part(kind="trial", number=7)
INPUT = artifacts.ArtifactReference(
    uri="s3://datasets/digits.npz",
    sha256=DIGEST,
    size_bytes=1_048_576,
    media_type="application/x-npz",
    source="prepare-1/prepare-1.1.1/digits@1",
    credential="datasets",
)
SAVED = artifacts.CheckpointReference(
    uri=f"store:sha256/{DIGEST}",
    sha256=DIGEST,
    size_bytes=2_048,
    source="digits-1/digits-1.3/checkpoint@2",
    step=10,
)
INSTRUCTION = instructions.Instruction(number=2, body={"model": "digits@4"})
GPU = fleet.Device(device_id="gpu-0", kind="gpu", name="Example GPU", memory_bytes=25_769_803_776)
RUNNING = fleet.RunningPlacement(
    stream="digits-1", task_id="digits-1.7", attempt=2, placement=1, device_ids=["gpu-0"]
)
ERROR = tasks.TaskError(stage="TRAIN", type="ValueError", message="no such layer", traceback="Traceback ...")

COMMANDS: list[Message] = [
    commands.Ping(),
    instructions.InstructTask(task="serve.1.digits", body={"model": "digits@4"}),
    artifacts.ForgetArtifacts(artifacts=[DIGEST], reason="not needed"),
    draining.DrainDevice(device="gpu-0", reason="new fan"),
    draining.ResumeDevice(device="gpu-0"),
    forgetting.ForgetStream(reason="a person has asked for it"),
    parking.SkipRecord(partition=3, offset=17, reason="written by a test of ours"),
    labels.AnnotateStream(add_tags=["baseline"], remove_tags=["draft"], note="for the paper", archived=True),
    device_commands.GiveInstruction(**PLACEMENT, instruction=INSTRUCTION),
    device_commands.RunTask(
        **PLACEMENT,
        task_type="digits",
        parameters=PARAMETERS,
        device_ids=["gpu-0"],
        reserved=RESERVED,
        interrupts=2,
        wait=True,
        lease_s=15.0,
        inputs={"digits": INPUT},
        checkpoints=[SAVED],
        saved={"model": 1},
        service=True,
        unresponsive_s=60.0,
        instruction=INSTRUCTION,
        step_limit=27,
        part=Part(kind="trial", number=3),
    ),
    device_commands.RecallTask(**PLACEMENT),
    device_commands.StopTask(**PLACEMENT, reason="assessor", checkpoint_s=30.0),
    device_commands.NextParameters(**PLACEMENT, request=2, parameters=PARAMETERS),
]
REFUSED = {
    "code": "concurrency_range",
    "path": "$.concurrency",
    "message": "Input should be greater than or equal to 1, got 0",
}
COMMAND_EVENTS: list[Message] = [
    commands.CommandReceived(
        command_id="c-1",
        command_type="trackside.start-search.v1",
        body=BODY,
        digest=DIGEST,
        source=SOURCE,
        publisher="https://example.org/notebook",
        rules=commands.RULES,
        problem=Problem(code="too_deep", path="$.space", message="33 > 32 levels"),
        key_id="ci-1",
        problems=[Problem(code="too_deep", path="$.space", message="33 > 32 levels")],
    ),
    commands.CommandAccepted(command_id="c-1", source=SOURCE),
    commands.CommandRefused(
        command_id="c-1",
        source=SOURCE,
        **REFUSED,
        problems=[
            Problem(**REFUSED),
            Problem(code="missing_field", path="$.space", message="missing field 'space'"),
        ],
    ),
]
TASK_EVENTS: list[Message] = [
    tasks.TaskSubmitted(
        task_id="digits-1.7",
        task_type="digits",
        parameters=PARAMETERS,
        part=PART,
        inputs={"digits": INPUT},
        checkpoint=SAVED,
        step_limit=27,
    ),
    tasks.TaskStopRequested(task_id="digits-1.7", reason="assessor", seen=130, attempt=1),
    tasks.TaskHeld(task_id="digits-1.7", hold=1),
    tasks.TaskReleased(task_id="digits-1.7", hold=1),
    tasks.TaskAssigned(**TOKEN, worker_id="w1", device_ids=["gpu-0"], seen=4),
    tasks.TaskUnschedulable(
        task_id="digits-1.7",
        attempt=2,
        number=1,
        message="needs 80 GiB on one device, the largest has 24 GiB",
    ),
    tasks.TaskPreemptionRequested(task_id="digits-1.7", attempt=2, placement=1, by="urgent-1.1.a"),
    tasks.TaskRecallRequested(task_id="digits-1.7", attempt=2, placement=1, reason="another device is free"),
    tasks.TimeLimitReached(task_id="digits-1.7", attempt=2, limit="run", due_ms=1_767_225_600_000),
    tasks.ParametersRequested(**TOKEN, request=2),
    tasks.TaskContinued(**COUNTED, request=2, part=PART, parameters=PARAMETERS),
    tasks.ParametersWithheld(**COUNTED, request=2, reason="tuner_no_more_trial"),
    tasks.ParametersTaken(**TOKEN, request=2),
    tasks.TaskAccepted(**TOKEN),
    tasks.AttemptAdopted(**TOKEN, worker_id="w1", earlier=("w1-1", "w1-2")),
    tasks.TaskReturned(**TOKEN),
    tasks.TaskInterrupted(**TOKEN, interrupt=1, resource="device", reserved=RESERVED, error=ERROR),
    tasks.TaskRefused(**TOKEN, code="busy", message="the device runs digits-1.6"),
    tasks.TaskStatusChanged(**TOKEN, status=tasks.TaskStatus.TRAINING),
    tasks.MetricReported(
        **COUNTED, kind="PERIODICAL", step=3, value=None, non_finite="nan", others={"f1": 0.5, "loss": "inf"}
    ),
    tasks.AttemptEnded(
        **TOKEN,
        end=tasks.AttemptEnd.FAILED,
        result={"epochs": 3},
        error=ERROR,
        load_time_ms=120,
        train_time_ms=4_500,
        exit_code=1,
        recovered=True,
        peak_memory_bytes=2**30,
        memory_measure="own",
        reports=12,
    ),
]
ARTIFACT_EVENTS: list[Message] = [
    artifacts.ArtifactSaved(
        **TOKEN,
        number=3,
        name="checkpoint",
        version=2,
        kind="checkpoint",
        uri=f"store:sha256/{DIGEST}",
        sha256=DIGEST,
        size_bytes=2_048,
        step=10,
        metadata={"accuracy": 0.97},
    ),
    artifacts.TaskResumed(**TOKEN, step=10, checkpoint=SAVED),
    artifacts.ArtifactsForgotten(command_id="c-1", artifacts=[DIGEST], reason="not needed"),
]
INSTRUCTION_EVENTS: list[Message] = [
    instructions.TaskReady(**TOKEN, number=1, detail={"url": "http://127.0.0.1:8080"}),
    instructions.InstructionGiven(
        command_id="c-1", task_id="digits-1.7", number=2, body={"model": "digits@4"}
    ),
    instructions.InstructionAcknowledged(**TOKEN, number=2, ok=True, detail={"sha256": DIGEST}),
]
CHILD_EVENTS: list[Message] = [
    children.ChildRequested(child_id="compare.1.lr", kind="search", body=BODY),
    children.ChildStopRequested(child_id="compare.1.lr", reason="user"),
    children.ChildEnded(
        child_id="compare.1.lr",
        status="DONE",
        result={"trials": 20, "best": [{"trial": 7, "parameters": PARAMETERS, "value": 0.97}]},
    ),
    watches.TasksWatched(watch=watches.TaskWatch(event="artifact", of="weights", kind="model")),
    watches.TasksWatched(
        watch=watches.TaskWatch(event="metric", task="digits-1.7", of="accuracy", above=0.9, below=1.0)
    ),
]
KEYS: dict[str, Any] = {"topic": "trackside.events", "partition": 3}
KEY = keys.key_id_of(bytes.fromhex(DIGEST))
KERNEL_EVENTS: list[Message] = [
    keys.KeyTrusted(**KEYS, key_id=KEY, public_key=DIGEST, role="worker", worker_id="w1"),
    keys.KeyRevoked(**KEYS, key_id=KEY, reason="its host was sold"),
    keys.SignatureModeChanged(**KEYS, number=1, mode="require"),
    forgetting.StreamForgotten(**PLACE, commands=[ASKED], reason="her data", started_ms=1, ended_ms=9),
    parking.RecordSkipped(command_id="c-1", partition=3, offset=17, reason="written by a test of ours"),
    draining.DeviceDrained(command_id="c-1", device_id="gpu-0", reason="new fan"),
    draining.DeviceResumed(command_id="c-2", device_id="gpu-0"),
    labels.StreamAnnotated(
        command_id="c-1",
        added_tags=["baseline"],
        removed_tags=["draft"],
        note="for the paper",
        archived=True,
    ),
]
OTHERS: list[Message] = [
    fleet.CatalogueChanged(
        worker_id="w1",
        incarnation="w1-0a",
        task_types=["digits", "resnet"],
        max_memory_bytes={"digits": 8 * 2**30},
        max_cuda_memory_bytes={"resnet": 4 * 2**30},
        services=["resnet"],
        digests={"digits": "5f3a", "resnet": "8b1c"},
    ),
    fleet.DeviceUnhealthy(worker_id="w1", incarnation="w1-0a", device_id="gpu-0", reason="GPU is lost"),
    fleet.LogBegun(log_id="4fe1b03c8d3746c3a2b0a1bd7a0d9c55", restored_from="MkU3OEVBNTcwNTJENDM2Qg/a."),
    fleet.LaneBacklogged(instance="1", incarnation="1-0a", lane="tuner", waiting=20, limit=20),
    fleet.LaneCleared(instance="1", incarnation="1-0a", lane="tuner", waiting=10),
    fleet.WorkerJoined(
        worker_id="w1",
        incarnation="w1-0a",
        host="node-3",
        devices=[GPU],
        task_types=["digits"],
        queues=["default"],
        after={"5": 131},
        memory_pool="8f14e45f-1",
        memory_bytes=64 * 2**30,
        max_tasks=8,
        max_memory_bytes={"digits": 8 * 2**30},
        max_cuda_memory_bytes={"digits": 4 * 2**30},
        credentials=["datasets"],
        services=["digits"],
        keep_ms=45_000,
        digests={"digits": "5f3a"},
        built_in=[fleet.CHECK_ARTIFACTS],
    ),
    fleet.WorkerLeft(worker_id="w1", incarnation="w1-0a"),
    fleet.WorkerLost(worker_id="w1", incarnation="w1-0a", silent_ms=10_250),
    fleet.WorkerHeartbeat(
        worker_id="w1",
        incarnation="w1-0a",
        running=[RUNNING],
        neighbours=(
            fleet.NeighbourUse(incarnation="w2-0b", memory_bytes=1_000_000, device_bytes={"gpu-0": 2_000}),
        ),
    ),
    fleet.WorkerHeartbeatDigest(
        incarnation="w1-0a", sequence=12, whole=10, cpu_percent=37.5, utilisation=[91.0, None]
    ),
    fleet.SchedulerHeartbeat(instance="1"),
    summaries.MetricPointsReported(
        stream="digits-1",
        task_id="digits-1.7",
        attempt=2,
        series=[
            summaries.Series(
                tag="loss", steps=[1, 2], times_ms=[1_000, 2_000], values=[0.5, None], non_finite={1: "nan"}
            )
        ],
    ),
    summaries.SummaryItemsReported(
        stream="digits-1",
        task_id="digits-1.7",
        attempt=2,
        items=[
            summaries.ReportedItem(
                kind="image",
                tag="predictions",
                step=2,
                time_ms=2_000,
                index=1,
                body={"width": 28, "height": 28, "media_type": "image/png"},
                artifact=summaries.ItemArtifact(sha256="5c" * 32, size_bytes=311, media_type="image/png"),
            )
        ],
    ),
    summaries.SummariesPurged(stream="digits-1", task_id="digits-1.7"),
    summaries.SummaryUpdaterFailed(
        name="leaderboard", error="ZeroDivisionError: division by zero", failures=4, time_ms=1_700_000_000_000
    ),
    summaries.OutputWritten(
        stream="digits-1",
        task_id="digits-1.7",
        attempt=2,
        source="stderr",
        first_line=1,
        lines=["epoch 1", "naïve 😀"],
        placement=1,
        left_out=0,
    ),
    commands.RecordDeadLettered(
        source=SOURCE,
        code="not_json",
        message="line 1 column 1: Expecting value",
        reader="dispatcher",
        sha256=DIGEST,
        head_base64="bm9wZQ==",
    ),
    imports.StreamImported(
        import_id="0a1b2c",
        stream="digits-1",
        original_stream="digits",
        rules=commands.RULES,
        partition=5,
        first_offset=42,
        last_offset=131,
        records=88,
        begin=7,
        sha256=DIGEST,
        fold="0123456789abcdef",
        state_sha256=DIGEST,
    ),
]
_GROUPS = (COMMANDS, COMMAND_EVENTS, TASK_EVENTS, ARTIFACT_EVENTS, INSTRUCTION_EVENTS, CHILD_EVENTS)
EXAMPLES: dict[str, Message] = {
    message.wire_type(): message for group in (*_GROUPS, KERNEL_EVENTS, OTHERS) for message in group
}
