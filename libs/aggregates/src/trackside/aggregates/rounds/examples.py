"""One example of every message of incremental jobs, with every field in it: part of the published schemas."""

from trackside.aggregates.rounds.job.deploy_messages import (
    ConditionResult,
    ConfigRemovalEnded,
    DatasetPlace,
    DeployApproved,
    DeployDecided,
    DeployRejected,
    HardExamplesReported,
    ModelCopied,
    ModelDeployed,
    ModelRolledBack,
    ModelUpdateConfirmed,
    ModelUpdateFailed,
    ModelUpdatePublished,
    ModelUpdateTimedOut,
    RoundModel,
)
from trackside.aggregates.rounds.job.job_spec import (
    ConfigFile,
    DeploySpec,
    EvalSpec,
    GateRule,
    HardExampleMining,
    InferenceSpec,
    JobDataset,
    JobOutput,
    JobSpec,
    ModelVersionName,
    StageSpec,
)
from trackside.aggregates.rounds.job.trigger_messages import AllTriggers, DailyWindow, MetricCondition
from trackside.aggregates.rounds.messages import (
    ApproveDeploy,
    CreateIncrementalJob,
    DeleteIncrementalJob,
    FireDeploy,
    FireEval,
    FireTrain,
    IncrementalJobCreated,
    IncrementalJobDeleted,
    IncrementalJobPaused,
    IncrementalJobResumed,
    IncrementalJobUpdated,
    ModelTrained,
    ModelVersionSummary,
    PauseIncrementalJob,
    RejectDeploy,
    ReportHardExamples,
    ResumeIncrementalJob,
    RollbackModel,
    RoundEnded,
    RoundStarted,
    SampleManifestWritten,
    SamplesAssigned,
    SeenMetric,
    StageBlocked,
    StageEnded,
    StageState,
    TriggerEvaluated,
    UpdateIncrementalJob,
)
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.artifacts import ArtifactReference

WEIGHTS = ArtifactReference(
    uri=f"store:sha256/{'7d' * 32}",
    sha256="7d" * 32,
    size_bytes=104_857,
    source="digits-rounds/digits-rounds.r4.train.1/model@1",
)
INITIAL = RoundModel(model="digits", version=1, artifact=WEIGHTS, format="safetensors")
TRAINED = RoundModel(model="digits", version=5, artifact=WEIGHTS, format="safetensors")
PLACE = DatasetPlace(url="s3://digits/samples.csv", format="csv", credential="datasets")
JOB = JobSpec(
    name="digits as they are written",
    dataset=JobDataset(name="digits-feed", train_prob=0.8, eval_versions=5),
    model="digits",
    initial_model=ModelVersionName(model="digits", version=1),
    devices=["cpu"],
    start_from="deployed",
    train=StageSpec(
        task_type="train-digits",
        parameters={"epochs": 3},
        trigger=AllTriggers(
            type="all_of",
            triggers=[
                MetricCondition(type="condition", metric="num_of_samples", operator=">=", threshold=500),
                DailyWindow(type="daily", start="22:00", end="06:00", timezone="Europe/Berlin"),
            ],
        ),
        check_period_s=60.0,
    ),
    eval=EvalSpec(task_type="evaluate-digits", initial_model=ModelVersionName(model="digits", version=1)),
    deploy=DeploySpec(
        trigger=MetricCondition(type="condition", metric="accuracy_delta", operator=">", threshold=0.01),
        gate=GateRule(timeout_s=86_400.0, message="look at the pictures first"),
        copy_to=JobOutput(url="/srv/models/digits.safetensors"),
        config=ConfigFile(url="/srv/model-hot-update"),
        services=[
            InferenceSpec(
                name="api",
                task_type="serve-digits",
                replicas=2,
                hard_examples=HardExampleMining(
                    miner="CrossEntropy", parameters={"threshold_cross_entropy": 0.5}, append_to="digits-hard"
                ),
            )
        ],
        confirm_s=60.0,
        tries=3,
    ),
    output=JobOutput(url="s3://digits/rounds", credential="datasets"),
    seed=7,
)
SUMMARY = ModelVersionSummary(
    artifact=WEIGHTS,
    format="safetensors",
    devices=["cpu"],
    stream="digits-rounds",
    task="digits-rounds.r4.train.1",
    attempt=1,
    metrics={"loss": 0.21},
)
TRAINED_METRICS = {"accuracy": 0.93, "recall": [0.91, 0.95]}
DEPLOYED_METRICS = {"accuracy": 0.9, "recall": [0.9, 0.9]}
EXAMPLES: list[Message] = [
    CreateIncrementalJob(**dict(JOB)),
    UpdateIncrementalJob(job=JOB),
    PauseIncrementalJob(reason="the labels are checked"),
    ResumeIncrementalJob(),
    DeleteIncrementalJob(reason="replaced by faces"),
    FireTrain(),
    FireEval(),
    FireDeploy(force=True),
    ApproveDeploy(actor="ada"),
    RejectDeploy(reason="worse with sevens", actor="ada"),
    RollbackModel(version=4, model="digits", reason="worse with sevens"),
    ReportHardExamples(service="edge-7", inferences=1_000, hard=31, artifact=WEIGHTS),
    IncrementalJobCreated(command_id="c-1", job=JOB, dataset=PLACE, initial=INITIAL, initial_eval=INITIAL),
    IncrementalJobUpdated(command_id="c-2", change=1, job=JOB, dataset=PLACE),
    IncrementalJobPaused(command_id="c-3", change=2, reason="the labels are checked"),
    IncrementalJobResumed(command_id="c-4", change=3),
    IncrementalJobDeleted(command_id="c-5", change=4, reason="replaced by faces"),
    SamplesAssigned(
        begin=1_000,
        end=1_125,
        share="4/5",
        carry="0",
        train=100,
        evaluation=25,
        size_bytes=5_125,
        sha256="5c" * 32,
        metrics={"drift": 0.12},
    ),
    TriggerEvaluated(
        stage="train",
        evaluation=9,
        round=4,
        result=True,
        fired=True,
        values={
            "num_of_samples": SeenMetric(value=512.0),
            "drift": SeenMetric(reason="there is no metric 'drift'"),
        },
        evaluated_ms=1_770_000_000_000,
        due_ms=1_770_000_000_000,
        command_id="c-6",
    ),
    SampleManifestWritten(
        stage="train",
        round=4,
        url="s3://digits/rounds/data/train/4/data.csv",
        sha256="3b" * 32,
        size_bytes=41_000,
        lines=512,
    ),
    RoundStarted(number=4, base=INITIAL, train=(500, 1_125), evaluation=[(0, 500), (500, 1_125)]),
    StageBlocked(stage="train", round=4, reason="no_samples", message="no sample for training has come"),
    ModelTrained(round=4, model="digits", version=SUMMARY),
    StageEnded(
        stage="eval",
        round=4,
        status=StageState.COMPLETED,
        reason="not_deployed",
        message="its task has ended",
        model=TRAINED,
        metrics={"trained": TRAINED_METRICS, "deployed": DEPLOYED_METRICS},
    ),
    RoundEnded(
        number=4,
        status="failed",
        stage="train",
        deployed=False,
        reason="task_failed",
        released=(500, 1_125),
    ),
    DeployDecided(
        round=4,
        deploy=True,
        reason="accuracy_delta > 0.01: it is 0.03",
        trained=TRAINED_METRICS,
        deployed=DEPLOYED_METRICS,
        deltas={"accuracy_delta": 0.03, "recall_delta": [0.01, 0.05]},
        conditions=[
            ConditionResult(
                metric="accuracy_delta",
                operator=">",
                threshold=0.01,
                value=0.03,
                holds=True,
                reason="a number",
            )
        ],
        approval=True,
        command_id="c-7",
    ),
    DeployApproved(command_id="c-8", round=4, actor="ada"),
    DeployRejected(
        command_id="c-9", round=4, actor="ada", reason="worse with sevens", due_ms=1_770_086_400_000
    ),
    ModelUpdatePublished(
        update=2,
        cause="round",
        round=4,
        model=TRAINED,
        targets=["copy", "config", "serve.api.1", "serve.api.2"],
    ),
    ModelCopied(update=2, target="copy", url="/srv/models/digits.safetensors", sha256="7d" * 32),
    ModelUpdateConfirmed(update=2, target="serve.api.1", sha256="7d" * 32),
    ModelUpdateFailed(
        update=2, target="serve.api.2", failure=1, instruction=2, message="it could not load the model"
    ),
    ModelUpdateTimedOut(update=2, targets=["serve.api.2"], due_ms=1_770_000_060_000),
    ModelDeployed(update=2, model="digits", version=5, sha256="7d" * 32),
    ModelRolledBack(command_id="c-10", change=5, before=TRAINED, model=INITIAL, reason="worse with sevens"),
    ConfigRemovalEnded(
        url="/srv/model-hot-update/digits",
        removed=False,
        tries=3,
        due_ms=1_770_000_600_000,
        message="its disk is gone",
    ),
    HardExamplesReported(
        service="serve.api.1",
        window=3,
        inferences=1_000,
        hard=31,
        attempt=1,
        placement=2,
        artifact=WEIGHTS,
        command_id="c-11",
    ),
]
