"""The events of a job as tests tell of it, folded one by one, and the rows that they make."""

from dataclasses import dataclass, field
from typing import Any

from tests.unit.domain.given import FIRST_MS, STREAM, record_of
from trackside.aggregates.rounds import evolve, messages
from trackside.aggregates.rounds.job import deploy_messages
from trackside.aggregates.rounds.job.job_spec import JobSpec, StageName
from trackside.aggregates.rounds.job.split import added, count, share_of
from trackside.aggregates.rounds.rows import RECORD_ROWS, IncrementalJobRows, InferenceServiceRows
from trackside.aggregates.rounds.stages.evaluation import next_round
from trackside.aggregates.rounds.stages.task_ids import samples_of, targets_of
from trackside.aggregates.rounds.state import IncrementalJob, TaskOutcome
from trackside.contracts.envelope.message import Event
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.domain.outcome import Outcome
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream

SERVICE = "serve.digits.1"
SPEC: dict[str, Any] = {
    "dataset": {"name": "feed", "train_prob": 0.8},
    "model": "digits",
    "initial_model": "digits@1",
    "train": {
        "task_type": "train",
        "trigger": {"type": "condition", "metric": "num_of_samples", "operator": ">=", "threshold": 80},
    },
    "eval": {"task_type": "eval"},
    "deploy": {
        "trigger": {"type": "condition", "metric": "accuracy_delta", "operator": ">", "threshold": 0.02},
        "services": [{"name": "digits", "task_type": "serve"}],
    },
    "output": {"url": "/data/out"},
}


def artifact(version: int) -> ArtifactReference:
    return ArtifactReference(uri=f"file:///models/{version}", sha256=f"{version:x}" * 64, size_bytes=10)


def model(version: int) -> deploy_messages.RoundModel:
    return deploy_messages.RoundModel(model="digits", version=version, artifact=artifact(version))


def definition(**changed: Any) -> JobSpec:
    return JobSpec.model_validate({**SPEC, **changed})


@dataclass
class JobHistory:
    """A job, its events with an hour between any two rounds, and all rows that they have made."""

    spec: JobSpec = field(default_factory=definition)
    stream: Stream[IncrementalJob] = field(default_factory=lambda: Stream(STREAM, 0))
    rows: dict[str, dict[RowKey, RowValues]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    offset: int = 0
    later_ms: int = 0

    def __post_init__(self) -> None:
        place = deploy_messages.DatasetPlace(url="/data/feed.txt", format="txt")
        models = {"initial": model(1), "initial_eval": model(1)}
        self.tell(messages.IncrementalJobCreated, command_id="c-1", job=self.spec, dataset=place, **models)

    @property
    def job(self) -> IncrementalJob:
        return self.stream.root

    def tell(self, event: Event | type[Event], **fields: Any) -> None:
        """Folds an event, or one of a type with these fields, which must have an effect; makes its rows."""
        if isinstance(event, type):
            event = event.model_validate(fields)
        record = record_of(event, self.offset)
        record.append_time_ms = FIRST_MS + self.later_ms + self.offset * 1_000
        record.offset = self.stream.last_offset = self.offset
        self.offset += 1
        if isinstance(event, messages.IncrementalJobCreated):
            self.stream.root, self.stream.kind = evolve.begin(STREAM, event, record), "rounds"
        else:
            assert evolve.evolve(self.job, record) is Outcome.APPLIED, event
        for projection in (IncrementalJobRows(), InferenceServiceRows()):
            for key in projection.touched(self.stream, event):
                self._write(projection.table, projection.row(self.stream, key))
        for source in RECORD_ROWS:
            if type(event) in source.kinds:
                for row in source.rows(self.stream, record):
                    self._write(source.table, row)

    def _write(self, table: Table, row: RowValues) -> None:
        assert len(row) == len(table.columns)
        self.tables[table.name] = table
        rows, key = self.rows.setdefault(table.name, {}), row[: table.key_width]
        rows[key] = table.merged(rows[key], row) if key in rows and _merges(table) else row

    def row(self, table: str, *key: object) -> dict[str, Any]:
        return dict(zip(self.tables[table].columns, self.rows[table][STREAM, *key], strict=True))

    def assign(self, samples: int) -> None:
        pool, share = self.job.pool, share_of(self.spec.dataset.train_prob)
        end = pool.end + samples
        segments = added(pool.segments, pool.end, share)
        trained = count(segments, pool.end, end, "train")
        found = {"begin": pool.end, "end": end, "share": share, "carry": segments[-1].carry_at(pool.end)}
        counts = {"train": trained, "evaluation": samples - trained, "size_bytes": end * 10}
        self.tell(messages.SamplesAssigned, **found, **counts, sha256="a" * 64)

    def fire(self, stage: StageName, **values: float) -> None:
        self.later_ms += 3_600_000 if stage == "train" else 0
        job = self.job
        seen = {name: messages.SeenMetric(value=value) for name, value in values.items()}
        of = {"stage": stage, "evaluation": job.evaluations + 1, "round": next_round(job), "values": seen}
        self.tell(messages.TriggerEvaluated, **of, result=True, fired=True, evaluated_ms=job.clock_ms)
        assert job.round is not None
        job.round.outcomes[samples_of(stage)] = TaskOutcome(True, self.offset, {"sha256": "b" * 64})
        lines = count(job.round.segments, *job.round.train, "train") if stage == "train" else 20
        url = f"/data/out/data/{stage}/{job.round.number}/data.txt"
        file = {"url": url, "sha256": "b" * 64, "size_bytes": 90, "lines": lines}
        self.tell(messages.SampleManifestWritten, stage=stage, round=job.round.number, **file)

    def train(self) -> None:
        self.fire("train", num_of_samples=float(self.job.pool.training))
        going = self.job.round
        assert going is not None
        samples = {"train": going.train, "evaluation": going.evaluation}
        self.tell(messages.RoundStarted, number=going.number, base=self.job.base, **samples)
        self.job.stage_state = messages.StageState.RUNNING
        version = going.number + 1
        going.outcomes["train"] = TaskOutcome(True, self.offset)
        task = f"{STREAM}.r{going.number}.train.1"
        said = messages.ModelVersionSummary(artifact=artifact(version), stream=STREAM, task=task, attempt=1)
        self.tell(messages.ModelTrained(round=going.number, model="digits", version=said))
        self.end_stage("train", model=model(version))

    def evaluate(self, trained: float, deployed: float) -> None:
        self.fire("eval")
        self.job.stage_state = messages.StageState.RUNNING
        assert self.job.round is not None
        self.job.round.outcomes["eval"] = TaskOutcome(True, self.offset)
        metrics = {"trained": {"accuracy": trained}, "deployed": {"accuracy": deployed}}
        self.end_stage("eval", metrics=metrics)

    def end_stage(self, stage: StageName, status: Any = messages.StageState.COMPLETED, **said: Any) -> None:
        assert self.job.round is not None
        self.tell(messages.StageEnded(stage=stage, round=self.job.round.number, status=status, **said))

    def decide(self, *, deploy: bool, approval: bool = False) -> None:
        going = self.job.round
        assert going is not None
        values = {name: dict(found) for name, found in going.metrics.items()}
        reason = "accuracy_delta > 0.02: it is " + ("0.05" if deploy else "0.01")
        found = {"metric": "accuracy_delta", "operator": ">", "threshold": 0.02, "holds": deploy}
        said = {"round": going.number, "deploy": deploy, "reason": reason, "approval": approval, **values}
        self.tell(deploy_messages.DeployDecided, **said, conditions=[found | {"value": 0.05}])

    def publish(self) -> None:
        going = self.job.round
        assert going is not None and going.trained is not None
        of = {"round": going.number, "model": going.trained, "targets": targets_of(going.spec.deploy)}
        self.tell(deploy_messages.ModelUpdatePublished, update=self.job.updates + 1, cause="round", **of)

    def confirm(self) -> None:
        update = self.job.update
        assert update is not None
        sha256 = update.model.artifact.sha256
        self.tell(deploy_messages.ModelUpdateConfirmed(update=update.number, target=SERVICE, sha256=sha256))
        live = {"model": "digits", "version": update.model.version, "sha256": sha256}
        self.tell(deploy_messages.ModelDeployed(update=update.number, **live))

    def end_round(self, *, deployed: bool) -> None:
        self.end_stage("deploy")
        of = {"number": self.job.rounds, "stage": "deploy"}
        self.tell(messages.RoundEnded, **of, status="completed", deployed=deployed)

    def whole_round(self, trained: float, deployed: float, *, samples: int = 100) -> None:
        self.assign(samples)
        self.train()
        self.evaluate(trained, deployed)
        better = trained - deployed > 0.02
        self.decide(deploy=better)
        if better:
            self.publish()
            self.confirm()
        self.end_round(deployed=better)

    def report_hard_examples(self, inferences: int, hard: int) -> None:
        window = self.job.services[SERVICE].counts.windows + 1
        counts = {"inferences": inferences, "hard": hard}
        self.tell(deploy_messages.HardExamplesReported, service=SERVICE, window=window, **counts)


def _merges(table: Table) -> bool:
    return table.insert_only or bool(table.keeps_first)
