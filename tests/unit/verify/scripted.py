"""Scenarios of logs that are recorded: users who follow a script."""

import asyncio
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Any

from trackside.aggregates.batch import messages as batches
from trackside.aggregates.dataset import messages as datasets
from trackside.aggregates.dataset.messages import WATCH
from trackside.aggregates.model import messages as models
from trackside.aggregates.pipeline import messages as pipelines
from trackside.aggregates.pipeline.schedule import schedule_messages as schedules
from trackside.aggregates.rounds.messages import ReportHardExamples
from trackside.aggregates.search import messages as searches
from trackside.aggregates.summary import messages as summaries
from trackside.aggregates.summary.messages import directory_job_id
from trackside.contracts.envelope.message import Command, Event, Json, Message
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.fleet.draining import DrainDevice, ResumeDevice
from trackside.contracts.streams.labels import AnnotateStream
from trackside.contracts.tasks.artifacts import ForgetArtifacts
from trackside.contracts.tasks.instructions import Instruction
from trackside.domain.folding.streams import Streams
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.simulation.host.files import GrowingFile
from trackside.simulation.host.worker_state import TASK_TYPE, TRAINING_TYPE
from trackside.simulation.scenarios.rounds_scenario import RoundsScenario
from trackside.simulation.scenarios.scenarios import STREAM, StreamScenario
from trackside.simulation.tasks.incremental_tasks import SimulatedWatcher
from trackside.simulation.virtual.log import VirtualLog

TOPICS = Topics(event_partitions=3)
Step = tuple[str, Command | Event | Callable[[Streams], Command]]
"""What somebody publishes, and the stream that it is for: a command of a user, or what the indexer found."""
SPACE: Any = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}


class ScriptedScenario(StreamScenario):
    """A user who publishes the commands of a script, each once the one before is answered."""

    has_user = True
    script: tuple[Step, ...] = ()
    log: VirtualLog

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        super().__init__(seed, tasks, concurrency)
        self._left = list(self.script[1:])
        self._sent = "c-0"
        self._commands = self._facts = 0

    def command(self) -> Any:
        return self.script[0][1]

    def first_commands(self) -> list[tuple[str, Command]]:
        return [(self.script[0][0], self.command())]

    def next_commands(self, streams: Streams, rng: Random) -> list[tuple[str, Command]]:
        if not self._left or not self._is_answered(streams) or not self.is_ready(streams):
            return []
        stream, message = self._left.pop(0)
        if callable(message):
            message = message(streams)
        if isinstance(message, Command):
            self._commands += 1
            self._sent = f"u-{self._commands}"
            return [(stream, message)]
        self._facts += 1
        record = RecordWriter("summary-indexer", "0").single(stream, message, sequence=self._facts)
        self.log._land((TOPICS.events.name, partition_of(stream, TOPICS.event_partitions)), [record], None)
        return []

    def _is_answered(self, streams: Streams) -> bool:
        found = streams.by_id.values()
        return any(self._sent in each.commands for each in found) and not any(e.unanswered for e in found)

    def is_ready(self, streams: Streams) -> bool:
        """Returns whether the next step may follow now."""
        return True

    def is_over(self, streams: Streams) -> bool:
        return not self._left and self._is_answered(streams) and self.rests(streams)

    def rests(self, streams: Streams) -> bool:
        """Returns whether nothing runs any more."""
        roots = [each.root for each in streams.by_id.values() if each.root is not None]
        return all(root.over for root in roots)


def artifact(content: bytes) -> Any:
    digest = sha256(content).hexdigest()
    return {"uri": f"store:sha256/{digest}", "sha256": digest, "size_bytes": len(content)}


def given(stream: str, kind: type[Message], **fields: Any) -> tuple[str, Any]:
    """Returns a step of a script."""
    return stream, kind.model_validate(fields)


STEPS: Any = [{"name": "fit", "task_type": TASK_TYPE, "parameters": {"x": "${pipeline.x}"}}]
PIPELINE: Any = {"parameters": {"x": {"type": "number", "default": 0.5}}, "steps": STEPS}
SCHEDULE: Any = {"cron": "0 3 * * *", "parameters": {"x": 0.25}}


class PipelineScript(ScriptedScenario):
    """A pipeline that is defined twice, has runs and schedules, and is retired."""

    kind = name = "pipeline"
    script = (
        given(STREAM, pipelines.DefinePipeline, pipeline=PIPELINE, max_runs=1),
        given(STREAM, pipelines.RunPipeline, parameters={"x": 0.75}),
        given(STREAM, pipelines.RunPipeline, seed=3),
        given(STREAM, pipelines.RunPipeline, seed=4),
        given(STREAM, pipelines.CancelPipelineRuns, number=3, reason="not needed"),
        given(STREAM, pipelines.CancelPipelineRuns, number=1),
        given(STREAM, pipelines.DefinePipeline, pipeline={**PIPELINE, "name": "again"}),
        given(STREAM, schedules.CreateSchedule, name="nightly", schedule=SCHEDULE),
        given(STREAM, schedules.PauseSchedule, name="nightly", reason="for a while"),
        given(STREAM, schedules.ResumeSchedule, name="nightly"),
        given(STREAM, schedules.FireSchedule, name="nightly"),
        given(STREAM, schedules.UpdateSchedule, name="nightly", schedule={"cron": "0 4 * * *"}),
        given(STREAM, schedules.DeleteSchedule, name="nightly"),
        given(STREAM, pipelines.RetirePipeline, reason="done"),
    )

    def rests(self, streams: Streams) -> bool:
        runs = [each.root for name, each in streams.by_id.items() if name.startswith(f"{STREAM}.")]
        return bool(runs) and all(root is not None and root.over for root in runs)


JOB = directory_job_id(b"/runs", b"digits")
_FILE: Any = {"file": "events.0"}
_QUARANTINED: Any = {**_FILE, "offset": 64, "code": "bad_crc", "again_at_ms": 2**42}


class SummaryScript(ScriptedScenario):
    """A directory of summaries that is indexed, changes, vanishes, and is annotated, deleted and restored."""

    kind = name = "summary"
    script = (
        given(JOB, summaries.RegisterSummaryDirectory, base="/runs", path="digits"),
        given(JOB, summaries.SummaryFileIndexed, sequence=1, **_FILE, begin=0, end=32, records=2),
        given(JOB, summaries.SummaryFileIndexed, sequence=2, **_FILE, begin=32, end=64, records=3),
        given(JOB, summaries.SummaryFileQuarantined, sequence=3, **_QUARANTINED, message="bad"),
        given(JOB, summaries.RetrySummaryFile, file="events.0"),
        given(JOB, summaries.SummaryFileReplaced, sequence=4, **_FILE),
        given(JOB, summaries.SummaryFileIndexed, sequence=5, **_FILE, begin=0, end=16, records=1),
        given(JOB, summaries.SummaryJobVanished, sequence=6),
        given(JOB, summaries.AnnotateSummaryJob, tag=3, remark="good"),
        given(JOB, summaries.AnnotateSummaryJob, tag=4),
        given(JOB, summaries.DeleteSummaryJob, reason="old"),
        given(JOB, summaries.RestoreSummaryJob),
        given(JOB, summaries.DeleteSummaryJob, reason="older", purge=True),
    )

    def rests(self, streams: Streams) -> bool:
        return True


class ModelScript(ScriptedScenario):
    """A model and a dataset that people change, label, archive and delete."""

    kind = "dataset"
    name = "models"
    script = (
        given("m", models.RegisterModel, description="first"),
        given("m", models.AddModelVersion, artifact=artifact(b"one"), labels={"by": "me"}),
        given("m", models.AddModelVersion, artifact=artifact(b"two")),
        given("m", models.TagModel, version=1, labels={"kept": "yes"}),
        given("m", models.TagModel, labels={"team": "a", "by": None}),
        given("m", models.SetModelStage, version=1, stage="production"),
        given("m", models.SetModelStage, version=2, stage="production"),
        given("m", models.ArchiveModel, reason="old"),
        given("m", models.RestoreModel),
        given("m", AnnotateStream, add_tags=["a", "b"], note="good", archived=True),
        given("m", AnnotateStream, remove_tags=["a"]),
        given("d", datasets.RegisterDataset, url="/feed.txt"),
        given("d", datasets.PauseDataset, reason="for a while"),
        given("d", datasets.ResumeDataset),
        given("w0", DrainDevice, device="cpu-0", reason="hot"),
        given("w0", ResumeDevice, device="cpu-0"),
        given("d", datasets.DeleteDataset, reason="done"),
    )

    def rests(self, streams: Streams) -> bool:
        return "d" in streams.by_id and bool(streams.by_id["d"].root.over)


class TroubledWatcher(SimulatedWatcher):
    """Watches a dataset that is changed, and after its repairs becomes shorter and has a bad sample."""

    async def _run(self) -> None:
        self._ready({})
        await asyncio.Event().wait()

    async def _carry_out(self, instruction: Instruction) -> tuple[bool, Json] | None:
        command = self.placement.command
        number = number_of(None if command is None else command.part, WATCH)
        problems = {1: {"code": "changed", "sha256": "1" * 64}, 2: {"code": "truncated", "size": 3}}
        bad = {"code": "not_json", "line": 1, "message": "bad"}
        self._ready({"end": self._files.dataset.end(2), "problem": problems.get(number or 0, bad)})
        return True, {}


class DatasetScript(ScriptedScenario):
    """A dataset whose intake stops for each of the reasons that there are, and is repaired."""

    kind = "dataset"
    name = "stops"
    script = (
        given("d", datasets.RegisterDataset, url="/feed.txt"),
        given("d", datasets.ResumeDataset),
        given("d", datasets.ResumeDataset),
        given("d", datasets.DeleteDataset, reason="done"),
    )

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        super().__init__(seed, tasks, concurrency)
        self.files.dataset = GrowingFile([0.0, 0.0])

    def is_ready(self, streams: Streams) -> bool:
        dataset = streams.by_id["d"].root
        return dataset.stops > 2 - len(self._left) and dataset.status is not datasets.DatasetStatus.ACTIVE


CACHED: Any = [{"name": "fit", "task_type": TASK_TYPE, "cache": True}]


class CachedScript(ScriptedScenario):
    """A pipeline whose second run finds the result of its first one, and is begun by the end of a search."""

    kind = "pipeline"
    name = "cached"
    script = (
        given(STREAM, pipelines.DefinePipeline, pipeline={"steps": CACHED}, max_runs=1),
        given(STREAM, pipelines.RunPipeline),
        given(STREAM, pipelines.RunPipeline),
        given(
            STREAM,
            schedules.CreateSchedule,
            name="after",
            schedule={"on": {"stream": "b", "event": "task_ended", "task": "b.1.1"}},
        ),
        given("b", batches.SubmitTasks, groups=[{"tasks": [{"task_type": TRAINING_TYPE}]}]),
    )

    def rests(self, streams: Streams) -> bool:
        runs = [each.root for name, each in streams.by_id.items() if name.startswith(f"{STREAM}.")]
        return len(runs) == 3 and all(root is not None and root.over for root in runs)


def _saved(streams: Streams) -> list[str]:
    """Returns the digests of what the tasks of the stream have saved besides checkpoints."""
    tasks = streams.by_id[STREAM].tasks.values()
    return [each.reference.sha256 for task in tasks for each in task.artifacts.values()]


class LimitsScript(ScriptedScenario):
    """A batch of tasks that take too long, that no device fits, and that are stopped."""

    kind = "batch"
    name = "limits"
    script = (
        given(
            STREAM,
            batches.SubmitTasks,
            groups=[
                {
                    "tasks": [
                        {"task_type": TASK_TYPE, "run_timeout_s": 0.05},
                        {"task_type": TASK_TYPE, "resources": {"kind": "gpu"}},
                        {"task_type": TRAINING_TYPE, "queue_timeout_s": 900.0},
                    ]
                }
            ],
        ),
        (STREAM, lambda streams: ForgetArtifacts(artifacts=_saved(streams), reason="large")),
        given(STREAM, batches.StopTasks, task=f"{STREAM}.1.2", reason="no GPU"),
    )

    def is_ready(self, streams: Streams) -> bool:
        tasks = streams.by_id[STREAM].tasks.values()
        return any(task.unschedulable for task in tasks) and bool(_saved(streams))


DRAWN: Any = {"task_type": TASK_TYPE, "space": SPACE, "tuner": {"name": "random"}}
PAST: Any = [{"parameters": {"x": x}, "value": 1.0} for x in (0.5, 0.75)]


class SearchScript(ScriptedScenario):
    """A search that people pause, change, add trials to, and stop."""

    kind = name = "search"
    script = (
        given(STREAM, searches.StartSearch, **DRAWN, max_trials=9),
        given(STREAM, searches.PauseSearch, reason="for a while"),
        given(STREAM, searches.ResumeSearch),
        given(STREAM, searches.UpdateSearch, concurrency=2, max_duration_s=900.0, goal=99.0),
        given(STREAM, searches.ImportTrials, trials=[{"parameters": {"x": 0.5}, "value": 1.0}]),
        given(STREAM, searches.AddTrial, parameters={"x": 0.25}, tell_tuner=True),
        given(STREAM, searches.AddTrial, parameters={"x": 7.0}, outside=True),
        given(STREAM, searches.RequestTrials, count=1),
        given(STREAM, searches.ImportTrials, trials=PAST),
        given(STREAM, searches.RequestTrials, count=99),
        given(STREAM, searches.UpdateSearchSpace, space={"x": {"type": "uniform", "low": 0.0, "high": 0.5}}),
        given(STREAM, searches.StopTrial, trial=1),
        given(STREAM, searches.UpdateSearch, remove=["goal"]),
        given(STREAM, searches.StopSearch, reason="enough"),
    )


class TimedScript(ScriptedScenario):
    """A search whose time is up."""

    kind = "search"
    name = "timed"
    script = (given(STREAM, searches.StartSearch, **DRAWN, max_trials=1_000, max_duration_s=2.0),)


class ReportedRounds(RoundsScenario):
    """A job whose services elsewhere report what they have counted."""

    def _next(self, streams: Streams, rng: Random) -> tuple[str, Command] | None:
        found = super()._next(streams, rng)
        if found is None and STREAM in streams.by_id and rng.random() < 0.2:
            return given(STREAM, ReportHardExamples, service="edge", inferences=5, hard=rng.randrange(3))
        return found
