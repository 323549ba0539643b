"""One example of every message of runs, with every field in it: part of the published schemas."""

from trackside.aggregates.run import messages, step_messages
from trackside.aggregates.run.messages import RunStatus
from trackside.aggregates.run.step_messages import StepState
from trackside.contracts.envelope.message import Json, Message
from trackside.contracts.wire.examples import INPUT
from trackside.domain.pipelines.compiling import CompiledPipeline, compile_pipeline, digest
from trackside.domain.pipelines.definition import (
    GateSpec,
    OnEnd,
    PipelineSpec,
    RecordedTask,
    StepCache,
    StepMirror,
    StepNeeds,
    StepRepeat,
    StepSpec,
)

PIPELINE = PipelineSpec(
    name="digits",
    description="Trains on digits.",
    parameters={"epochs": {"type": "integer", "default": 3}},
    steps=[
        StepSpec(
            name="prepare",
            task_type="prepare",
            recorded=RecordedTask(stream="first", task="first.prepare", offset=12),
            cache=StepCache(max_age_s=86_400.0),
        ),
        StepSpec(
            name="train",
            task_type="digits",
            parameters={"lr": "${item.lr}", "epochs": "${pipeline.epochs}"},
            inputs={"digits": "${prepare.artifacts.digits}"},
            queue="gpu",
            when="prepare.result.rows > 100",
            each=[{"lr": 0.1}, {"lr": 0.01}],
            at_once=1,
            collect="succeeded > 0",
            on_end=OnEnd(failed="continue"),
            mirror=StepMirror(metrics={"accuracy": "accuracy"}),
            stage="training",
            weight=5.0,
        ),
        StepSpec(name="tune", kind="search", spec={"task_type": "digits", "max_trials": 20}),
        StepSpec(
            name="refine",
            task_type="digits",
            needs=StepNeeds(any_of=["train", "tune"]),
            repeat=StepRepeat(until="result.accuracy > 0.9", times=5),
        ),
        StepSpec(
            name="release",
            needs=StepNeeds(all=["refine"], all_ended=["tune"]),
            gate=GateSpec(message="Release it?", form={"note": {"type": "string"}}, timeout_s=3_600.0),
        ),
    ],
    concurrency=100,
    timeout_s=86_400.0,
    outputs={"accuracy": "${refine.result.accuracy}"},
)
_COMPILED = compile_pipeline(PIPELINE)
assert isinstance(_COMPILED, CompiledPipeline)
PATCH = {"train": messages.StepPatch(parameters={"epochs": 5}, queue="gpu", priority=9)}
ORIGIN = messages.RunOrigin(pipeline="digits", version=2, number=7, schedules=["digits/nightly"])
FOUND = step_messages.CacheEntry(
    stream="digits.6", step="prepare", task="digits.6.prepare", offset=40, ended_ms=1_800_000_000_000
)
COPY_OF = messages.RunCopy(kind="fork", stream="digits.6", offset=120)
SAVED = step_messages.CachedArtifact(
    version=1, kind="model", reference=INPUT, attempt=1, metadata={"format": "safetensors"}
)
MODEL: Json = {
    "artifact": INPUT.model_dump(mode="json"),
    "format": "safetensors",
    "devices": ["cpu"],
    "metrics": {"accuracy": 0.97},
    "stream": "digits.7",
    "task": "digits.7.train",
    "attempt": 1,
}
OUTPUT = step_messages.TakenOutput(
    index=0, task="digits.6.prepare", offset=40, result={"rows": 1797}, artifacts={"digits": SAVED}
)
TAKEN = {"prepare": step_messages.TakenStep(stream="digits.6", offset=41, outputs=[OUTPUT])}
_AT = {"step": "train", "generation": 1}
EXAMPLES: list[Message] = [
    messages.StartPipelineRun(
        pipeline=PIPELINE,
        parameters={"epochs": 5},
        overrides=PATCH,
        seed=7,
        use_cache=False,
        origin=ORIGIN,
        copy_of=COPY_OF,
        taken=TAKEN,
    ),
    messages.PausePipelineRun(running="return", reason="the machine is needed"),
    messages.ResumePipelineRun(),
    messages.AbortPipelineRun(reason="not needed"),
    messages.RetryFailedSteps(steps=["train"], indexes={"train": [7]}, patch=PATCH),
    messages.RestartFromStep(steps=["train"], patch=PATCH),
    messages.SkipStep(step="train", reason="not needed"),
    messages.AbortStep(step="train", index=7, reason="not needed"),
    messages.ApproveGate(step="release", inputs={"note": "good"}, actor="ada"),
    messages.RejectGate(step="release", reason="not good enough", actor="ada"),
    messages.UpdatePipelineRun(timeout_s=3_600.0, concurrency=10, priority=9),
    messages.ArchiveRun(),
    messages.RunStarted(
        command_id="c-5",
        pipeline=_COMPILED.pipeline,
        sha256=digest(PIPELINE),
        parameters={"epochs": 5},
        overrides=PATCH,
        seed=7,
        use_cache=False,
        origin=ORIGIN,
        copy_of=COPY_OF,
        taken=TAKEN,
    ),
    step_messages.StepReady(**_AT, value=True),
    step_messages.StepResolved(
        **_AT, values={"${pipeline.epochs}": 5}, sources={"${pipeline.epochs}": "digits.7@3"}
    ),
    step_messages.StepSkipped(
        **_AT,
        by="when",
        expression="prepare.result.rows > 100",
        value=False,
        cause="prepare",
        reason="not needed",
        command_id="c-6",
    ),
    step_messages.StepExpanded(**_AT, items=[{"lr": 0.1}, {"lr": 0.01}]),
    step_messages.StepRepeated(step="refine", generation=1, index=1, value=False),
    step_messages.StepAbortRequested(command_id="c-7", **_AT, request=1, index=7, reason="not needed"),
    step_messages.StepEnded(
        **_AT,
        status=StepState.FAILED,
        kind="ref_error",
        ends={"succeeded": 1, "failed": 1},
        error=step_messages.StepError(code="ref_error", message="prepare.result has no 'rows'"),
        value=False,
    ),
    step_messages.StepCacheHit(
        step="prepare",
        generation=1,
        key="5f3a",
        parts={"task_type": "prepare"},
        found=FOUND,
        result={"rows": 1_797},
        artifacts={"digits": step_messages.CachedArtifact(version=1, kind="file", reference=INPUT)},
    ),
    step_messages.StepCacheMissed(
        step="prepare",
        generation=1,
        key="5f3a",
        parts={"task_type": "prepare"},
        nearest=FOUND,
        differs=["parameters.epochs"],
        reason="expired",
    ),
    step_messages.GateOpened(step="release", generation=1, message="Release it?", timeout_s=3_600.0),
    step_messages.GateDecided(
        step="release",
        generation=1,
        decision="approved",
        actor="ada",
        inputs={"note": "good"},
        reason="good",
        command_id="c-8",
        due_ms=1_800_000_000_000,
    ),
    messages.RunPaused(command_id="c-9", change=1, running="return", reason="the machine is needed"),
    messages.RunResumed(command_id="c-10", change=2),
    messages.RunUpdated(command_id="c-11", change=3, timeout_s=3_600.0, concurrency=10, priority=9),
    messages.RunAbortRequested(command_id="c-12", reason="not needed"),
    messages.RunTimeLimitReached(due_ms=1_800_000_000_000),
    messages.RunRevived(
        command_id="c-13",
        revival=1,
        reset=["train"],
        indexes={"train": [1]},
        patch=PATCH,
        steps=[_COMPILED.pipeline.steps[1]],
    ),
    messages.RunEnded(
        revival=1,
        status=RunStatus.FAILED,
        causes=["train"],
        outputs={"accuracy": 0.97, "model": INPUT.model_dump(mode="json")},
        models=[MODEL],
    ),
    messages.RunArchived(command_id="c-14", due_ms=1_800_000_000_000),
]
