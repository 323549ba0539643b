"""One example of every message, with every field in it: part of the published schemas."""

from typing import Any

from trackside.contracts import (
    advice,
    batches,
    commands,
    fleet,
    imports,
    resources,
    searches,
    summaries,
    tasks,
)
from trackside.contracts.message import Message
from trackside.contracts.refusals import Problem
from trackside.contracts.search_space import Choice, LogUniform, QUniform, RandInt, Space, Uniform

SOURCE = commands.Source(topic="trackside.commands", partition=1, offset=42)
PARAMETERS: dict[str, Any] = {"lr": 0.01, "hidden": 64, "optimizer": "adam", "bias": True, "seed": None}
SPACE: Space = {
    "lr": LogUniform(type="loguniform", low=1e-4, high=0.1),
    "dropout": Uniform(type="uniform", low=0.0, high=0.5),
    "width": QUniform(type="quniform", low=16.0, high=256.0, step=16.0),
    "hidden": RandInt(type="randint", low=8, high=129),
    "optimizer": Choice(type="choice", values=["sgd", "adam", 1, 0.5, True, None]),
}
SPEC = searches.SearchSpec(
    name="digits",
    task_type="digits",
    space=SPACE,
    tuner=searches.Tuner(name="tpe", options={"n_startup_trials": 5}),
    assessor=searches.Assessor(name="median", options={"n_warmup_steps": 2}),
    max_trials=20,
    concurrency=2,
    seed=7,
    retry=resources.RetryPolicy(lost=resources.Retry(times=3), failed=resources.Retry(times=1)),
)
BATCH = batches.BatchSpec(
    name="compare",
    groups=[
        batches.GroupSpec(
            name="warm-up",
            tasks=[
                batches.TaskSpec(name="small", task_type="digits", parameters={"epochs": 1}, priority=9),
                batches.TaskSpec(task_type="digits", resources=resources.Resources(kind="gpu", devices=2)),
            ],
            estimate_memory=2_000_000_000,
        )
    ],
    retry=resources.RetryPolicy(failed=resources.Retry(times=2, backoff_s=5.0)),
    run_timeout_s=3_600.0,
)
RESERVED = tasks.Reservation(memory_bytes=2_000_000_000, cuda_memory_bytes=8_589_934_592, estimated_by="task")
BODY = searches.StartSearch(**dict(SPEC)).model_dump(mode="json")
TOKEN: dict[str, Any] = {"task_id": "digits-1.7", "attempt": 2, "placement": 1, "incarnation": "w1-0a"}
COUNTED: dict[str, Any] = {"task_id": "digits-1.7", "attempt": 2, "placement": 1}
DIGEST = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
GPU = fleet.Device(device_id="gpu-0", kind="gpu", name="Example GPU", memory_bytes=25_769_803_776)
RUNNING = fleet.RunningPlacement(
    stream="digits-1", task_id="digits-1.7", attempt=2, placement=1, device_ids=["gpu-0"]
)
ERROR = tasks.TaskError(stage="TRAIN", type="ValueError", message="no such layer", traceback="Traceback ...")

COMMANDS: list[Message] = [
    searches.StartSearch(**dict(SPEC)),
    searches.StopSearch(reason="good enough"),
    searches.RequestTrials(count=3),
    searches.UpdateSearchSpace(space=SPACE),
    searches.ImportTrials(trials=[searches.PastTrial(parameters=PARAMETERS, value=0.93)]),
    searches.AddTrial(parameters=PARAMETERS, tell_tuner=True),
    searches.UpdateSearch(
        concurrency=4,
        max_trials=50,
        max_duration_s=7_200.0,
        max_trial_duration_s=600.0,
        remove=["goal"],
    ),
    searches.PauseSearch(running="return", reason="the machine is needed"),
    searches.ResumeSearch(),
    searches.StopTrial(trial=7),
    searches.Ping(),
    batches.SubmitTasks(**dict(BATCH)),
    batches.StopTasks(task="small", reason="not needed"),
    tasks.RunTask(
        stream="digits-1",
        **TOKEN,
        task_type="digits",
        parameters=PARAMETERS,
        device_ids=["gpu-0"],
        reserved=RESERVED,
        interrupts=2,
        wait=True,
        lease_s=15.0,
    ),
    tasks.RecallTask(stream="digits-1", **TOKEN),
    tasks.StopTask(stream="digits-1", **TOKEN, reason="assessor"),
    tasks.NextParameters(stream="digits-1", **TOKEN, request=2, parameters=PARAMETERS),
]
REFUSED = {
    "code": "concurrency_range",
    "path": "$.concurrency",
    "message": "Input should be greater than or equal to 1, got 0",
}
SEARCH_EVENTS: list[Message] = [
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
    searches.SearchStarted(command_id="c-1", search=SPEC, seed=7),
    searches.TrialSuggested(trial=7, parameters=PARAMETERS, seen=118),
    searches.TrialEnded(trial=7, status=searches.TrialStatus.SUCCEEDED, value=0.97),
    searches.SearchExhausted(trials=12, seen=118),
    advice.SuggestionFailed(
        trial=7,
        failure=1,
        code="tuner_failed",
        message="RuntimeError: no license",
        traceback='Traceback (most recent call last):\n  File "mine/tuners.py", line 7, in suggest\n',
        seen=118,
    ),
    advice.SuggestionDeferred(trial=7, seen=118),
    advice.AssessmentFailed(
        rows=31, failure=1, trial=7, code="assessor_failed", message="ValueError: no curve", seen=118
    ),
    searches.TrialsRequested(command_id="c-5", change=1, count=3),
    searches.SearchSpaceUpdated(command_id="c-6", change=2, space_version=2, space=SPACE),
    searches.TrialsImported(
        command_id="c-7", change=3, trials=[searches.PastTrial(parameters=PARAMETERS, value=0.93)]
    ),
    searches.TrialAdded(command_id="c-8", change=4, parameters=PARAMETERS, tell_tuner=True),
    searches.SearchUpdated(
        command_id="c-9",
        change=5,
        concurrency=4,
        max_trials=50,
        max_duration_s=7_200.0,
        max_trial_duration_s=600.0,
        goal=0.99,
    ),
    searches.SearchPaused(command_id="c-10", change=6, running="return", reason="the machine is needed"),
    searches.SearchResumed(command_id="c-11", change=7),
    searches.SearchTimeLimitReached(due_ms=1_767_225_600_000),
    searches.SearchStopRequested(command_id="c-2", reason="good enough"),
    searches.SearchFailed(code="tuner_failed", message="trial 7: the tuner raised"),
    searches.SearchEnded(status=searches.SearchStatus.DONE, trials=20),
]
REMOTE: list[Message] = [
    advice.SuggestionRequested(
        request_id="digits-1/7/1/118/1",
        search_id="digits-1",
        tuner="halving",
        options={"share": 0.5},
        trial=7,
        seed=2_203_318_222,
        search_seed=7,
        direction="maximize",
        space=SPACE,
        space_version=1,
        seen=118,
        time_limit_s=30.0,
        past=[{"number": 0, "parameters": PARAMETERS, "state": "complete", "value": 0.97}],
        omitted=1,
    ),
    advice.AnswerSuggestion(request_id="digits-1/7/1/118/1", parameters=PARAMETERS),
    advice.AssessmentRequested(
        request_id="digits-1/31/1",
        search_id="digits-1",
        assessor="floor",
        options={"share": 0.5},
        direction="maximize",
        search_seed=7,
        rows=31,
        time_limit_s=30.0,
        running=[{"number": 7, "steps": [0, 1], "values": [0.31, "nan"], "omitted": 0}],
        ended=[
            {
                "number": 0,
                "steps": [0],
                "values": [0.9],
                "omitted": 0,
                "status": "SUCCEEDED",
                "value": 0.97,
            }
        ],
        omitted=1,
    ),
    advice.AnswerAssessment(request_id="digits-1/31/1", hopeless=[7]),
]
BATCH_EVENTS: list[Message] = [
    batches.BatchStarted(command_id="c-3", batch=BATCH),
    batches.GroupEnded(group=0, ends={"finished": 1, "failed": 1}),
    batches.BatchStopRequested(command_id="c-4", reason="not needed"),
    batches.BatchEnded(status=batches.BatchStatus.DONE),
]
TASK_EVENTS: list[Message] = [
    tasks.TaskSubmitted(task_id="digits-1.7", task_type="digits", parameters=PARAMETERS, trial=7),
    tasks.TaskStopRequested(task_id="digits-1.7", reason="assessor", seen=130),
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
    tasks.ParametersWithheld(
        task_id="digits-1.7", attempt=2, placement=1, request=2, reason="tuner_no_more_trial"
    ),
    tasks.ParametersTaken(**TOKEN, request=2),
    tasks.TaskAccepted(**TOKEN),
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
    ),
]
OTHERS: list[Message] = [
    fleet.DeviceUnhealthy(worker_id="w1", incarnation="w1-0a", device_id="gpu-0", reason="GPU is lost"),
    advice.LaneBacklogged(instance="1", incarnation="1-0a", lane="tuner", waiting=20, limit=20),
    advice.LaneCleared(instance="1", incarnation="1-0a", lane="tuner", waiting=10),
    fleet.WorkerJoined(
        worker_id="w1",
        incarnation="w1-0a",
        host="node-3",
        devices=[GPU],
        task_types=["digits"],
        queues=["default"],
        after={"5": 131},
    ),
    fleet.WorkerLeft(worker_id="w1", incarnation="w1-0a"),
    fleet.WorkerLost(worker_id="w1", incarnation="w1-0a", silent_ms=10_250),
    fleet.WorkerHeartbeat(worker_id="w1", incarnation="w1-0a", running=[RUNNING]),
    fleet.SchedulerHeartbeat(instance="1"),
    summaries.MetricPointsReported(
        stream="digits-1",
        task_id="digits-1.7",
        attempt=2,
        series=[summaries.Series(tag="loss", steps=[1, 2], times_ms=[1_000, 2_000], values=[0.5, None])],
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
EXAMPLES: dict[str, Message] = {
    message.wire_type(): message
    for message in (*COMMANDS, *SEARCH_EVENTS, *BATCH_EVENTS, *TASK_EVENTS, *OTHERS, *REMOTE)
}
