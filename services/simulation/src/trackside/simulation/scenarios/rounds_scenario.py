"""The scenario of a job of incremental learning: a dataset that grows, rounds, deployments, services."""

from collections.abc import Iterator
from hashlib import sha256
from random import Random
from typing import Any

from trackside.aggregates.dataset.messages import DatasetStatus, DeleteDataset, RegisterDataset
from trackside.aggregates.dataset.state import dataset_of
from trackside.aggregates.model.messages import AddModelVersion, RegisterModel
from trackside.aggregates.rounds.messages import (
    ApproveDeploy,
    CreateIncrementalJob,
    DeleteIncrementalJob,
    FireDeploy,
    FireEval,
    FireTrain,
    JobStatus,
    PauseIncrementalJob,
    RejectDeploy,
    ResumeIncrementalJob,
    RollbackModel,
    StageState,
    UpdateIncrementalJob,
)
from trackside.aggregates.rounds.stages.task_ids import service_targets, service_task
from trackside.aggregates.rounds.state import IncrementalJob, job_of
from trackside.contracts.envelope.message import Command, Json, Record
from trackside.domain.folding.streams import Streams
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task_instructions import is_ready
from trackside.eventlog.clock import monotonic_s
from trackside.simulation.host.files import GrowingFile
from trackside.simulation.host.worker_state import COMPARE_TYPE, FIT_TYPE, INFERENCE_TYPE
from trackside.simulation.scenarios.expected_rounds import ExpectedRounds
from trackside.simulation.scenarios.scenarios import STREAM, StreamScenario

DATASET, MODEL = "feed", "net"
"""The streams that the job reads: its dataset, and the model that its trained ones become versions of."""
INITIAL = b"initial"
"""The model that the job begins with."""
COPY_URL, CONFIG_URL = "/live/model", "/live/config"
GROWS_S = (3.0, 40.0)
"""When the dataset grows, s after the simulation has begun."""
AT_ONCE = 7
"""How many samples arrive at once, at most."""
RESTS_S = 300.0
"""How long targets may have another model than the log says, once nothing else is to be done, s."""
CHANGES = 4
"""How often the user pauses or updates the job, or rolls back, about."""
AGAIN = 0.3
"""How often the user sends a command a second time, at once; the second is refused, or has no effect."""
LOST: Json = {"lost": 100, "failed": {"times": 3, "backoff_s": 0.2}}
MANUAL: Json = {"type": "manual"}


class RoundsScenario(StreamScenario):
    """A job whose dataset grows while its user pauses, updates, fires, approves, rejects and rolls back.

    By the seed its model goes to files, services or both; a round fails while it trains or evaluates; stages
    wait for commands, and deployments for an approval, which may come too late. Writers of files, and
    services, fail in some tries. Each sample must be in one place, each round must have the samples, models
    and decisions that follow from what was before it, and in the end each target has the model that is live.
    """

    kind = name = "rounds"
    plural = "jobs of incremental learning"
    has_user = saves = True
    blobs = (INITIAL,)

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        super().__init__(seed, tasks, concurrency)
        rng = Random(f"{seed}/rounds")
        self._samples = 2 * tasks
        self.files.dataset = GrowingFile(self._times(rng))
        self._failing = {
            "train": [2] if rng.random() < 0.3 else [],
            "eval": [3] if rng.random() < 0.3 else [],
        }
        self._definition = self._drawn(rng)
        self._expected = ExpectedRounds(STREAM, self.files, self._failing)
        self._deletes = self._deletes_dataset = False
        self._changes = 0
        self._rests_since_s: float | None = None
        self._targets: list[str] = []

    def _times(self, rng: Random) -> list[float]:
        times: list[float] = []
        while len(times) < self._samples:
            times += [rng.uniform(*GROWS_S)] * rng.randint(1, AT_ONCE)
        return times[: self._samples]

    def _drawn(self, rng: Random) -> Json:
        """Returns a definition of the job, drawn at random."""
        batch = {"type": "condition", "metric": "num_of_samples", "operator": ">=", "threshold": self._batch}
        threshold = rng.choice([-0.3, 0.0])
        better = {"type": "condition", "metric": "accuracy_delta", "operator": ">", "threshold": threshold}
        deploy: Json = {"trigger": better, "tries": rng.choice([2, 4]), "confirm_s": rng.choice([20.0, 60.0])}
        if rng.random() < 0.2:
            deploy["trigger"] = {"type": "all_of", "triggers": [better, MANUAL]}
        if rng.random() < 0.3:
            deploy["gate"] = {"timeout_s": rng.choice([2.0, 200.0])}
        if rng.random() < 0.6:
            deploy["copy_to"] = {"url": COPY_URL}
        if rng.random() < 0.4:
            deploy["config"] = {"url": CONFIG_URL}
        if (replicas := rng.randint(0, 2)) > 0:
            deploy["services"] = [self._service(rng, replicas)]
        stage: Json = {"needs": {"retry": LOST}, "check_period_s": rng.choice([0.0, 2.0])}
        train = {"failing_rounds": self._failing["train"]}
        compare = {"failing_rounds": self._failing["eval"]}
        manual = rng.random() < 0.2
        return {
            "dataset": {
                "name": DATASET,
                "train_prob": rng.choice([0.8, 0.75, 0.5, 0.3]),
                "eval_versions": rng.choice([1, 2, 5]),
            },
            "model": MODEL,
            "initial_model": {"model": MODEL, "version": 1},
            "start_from": rng.choice(["trained", "deployed"]),
            "train": {
                **stage,
                "task_type": FIT_TYPE,
                "parameters": train,
                "trigger": MANUAL if manual else batch,
            },
            "eval": {
                **stage,
                "task_type": COMPARE_TYPE,
                "parameters": compare,
                "trigger": MANUAL if rng.random() < 0.2 else None,
            },
            "deploy": deploy,
            "output": {"url": "/out"},
        }

    @property
    def _batch(self) -> int:
        """How many samples a round waits for."""
        return max(2, self.tasks // 4)

    @staticmethod
    def _service(rng: Random, replicas: int) -> Json:
        return {
            "name": "api",
            "task_type": INFERENCE_TYPE,
            "replicas": replicas,
            "parameters": {"failing_attempts": rng.randint(0, 1)},
            "needs": {"resources": {"devices": rng.randint(0, 1)}},
        }

    def command(self) -> CreateIncrementalJob:
        """Returns the command that creates the job."""
        return CreateIncrementalJob.model_validate(self._definition)

    def first_commands(self) -> list[tuple[str, Command]]:
        """Returns the commands that register its dataset, and its model with one version."""
        digest = sha256(INITIAL).hexdigest()
        artifact = {"uri": f"store:sha256/{digest}", "sha256": digest, "size_bytes": len(INITIAL)}
        version = AddModelVersion.model_validate({"artifact": artifact})
        return [(DATASET, RegisterDataset(url="/feed.txt")), (MODEL, RegisterModel()), (MODEL, version)]

    def next_commands(self, streams: Streams, rng: Random) -> list[tuple[str, Command]]:
        """Returns what the user asks for next, often twice: of the job, at last of the dataset."""
        found = self._next(streams, rng)
        if found is None:
            return []
        return [found] * (2 if rng.random() < AGAIN else 1)

    def _next(self, streams: Streams, rng: Random) -> tuple[str, Command] | None:
        stream = streams.by_id.get(STREAM)
        job = None if stream is None else job_of(stream)
        if stream is None or job is None:
            # Refused while the dispatcher that decides it has not read what this user has.
            ready = all(name in streams.by_id for name in (DATASET, MODEL)) and self._has_model(streams)
            return (STREAM, self.command()) if ready and rng.random() < 0.3 else None
        if job.status is JobStatus.DELETED:
            if self._deletes_dataset or not job.over:
                return None
            self._deletes_dataset = True
            return DATASET, DeleteDataset()
        if self._deletes:
            return None
        if self._is_done(job, streams) and self._rests(job, stream):
            self._deletes = True
            return STREAM, DeleteIncrementalJob()
        command = self._command(job, rng)
        return None if command is None else (STREAM, command)

    @staticmethod
    def _has_model(streams: Streams) -> bool:
        model = streams.by_id[MODEL].root
        return model is not None and bool(model.versions) and dataset_of(streams.by_id[DATASET]) is not None

    def _command(self, job: IncrementalJob, rng: Random) -> Command | None:
        """Returns what a job waits for, or how the user disturbs it."""
        if job.status is JobStatus.PAUSED:
            return ResumeIncrementalJob() if rng.random() < 0.3 else None
        round_ = job.round
        if round_ is not None and round_.waits_for_approval:
            decision = RejectDeploy() if rng.random() < 0.3 else ApproveDeploy()
            return decision if rng.random() < 0.2 else None
        if job.stage_state is StageState.WAITING and rng.random() < 0.4:
            fired = self._fire(job, rng)
            if fired is not None:
                return fired
        if self._changes < CHANGES and rng.random() < 0.05:
            self._changes += 1
            return self._change(job, rng)
        return None

    def _fire(self, job: IncrementalJob, rng: Random) -> Command | None:
        """Returns the command that a stage waits for; few others begin by one, too."""
        hurries = rng.random() < 0.02
        spec = job.spec if job.round is None else job.round.spec
        if job.stage == "train":
            trigger: Any = spec.train.trigger
            asked = trigger.type == "manual" and job.pool.training >= self._batch
            return FireTrain() if asked or (hurries and job.pool.training) else None
        if job.stage == "eval":
            return FireEval() if spec.eval.trigger is not None or hurries else None
        if job.round is None or job.round.decided is not None:
            return None
        trigger = spec.deploy.trigger
        if hurries or (trigger.type == "all_of" and rng.random() < 0.2):
            self._expected.forced.add(job.round.number)
            return FireDeploy(force=True)
        return FireDeploy() if trigger.type == "all_of" else None

    def _change(self, job: IncrementalJob, rng: Random) -> Command:
        """Returns a change of a job: a pause, a rollback, or another definition."""
        chosen = rng.random()
        others = [version for version in {1, *job.newest_live} if version != job.live.version]
        if others and chosen < 0.6:
            return RollbackModel(version=rng.choice(sorted(others)))
        if chosen < 0.8:
            return PauseIncrementalJob()
        changed = job.spec.model_dump(mode="json", exclude_unset=True)
        changed["dataset"]["train_prob"] = rng.choice([0.8, 0.5, 0.25])
        if chosen < 0.9:
            changed["deploy"]["services"] = [self._service(rng, rng.randint(1, 2))]
        return UpdateIncrementalJob.model_validate({"job": changed})

    def _is_done(self, job: IncrementalJob, streams: Streams) -> bool:
        """Returns whether all samples have come, and nothing is left to be done with them."""
        dataset = dataset_of(streams.by_id[DATASET])
        if job.status is not JobStatus.ACTIVE or dataset is None or dataset.end.lines < self._samples:
            return False
        idle = job.round is None and job.update is None and job.rollback_to is None
        return idle and job.pool.end == self._samples and job.pool.training < self._batch

    def _rests(self, job: IncrementalJob, stream: Stream) -> bool:
        """Returns whether each target has the model that is live, or has not had it for too long."""
        self._targets = list(self._other_targets(job, stream))
        if not self._targets:
            return True
        if self._rests_since_s is None:
            self._rests_since_s = monotonic_s()
        return monotonic_s() - self._rests_since_s > RESTS_S

    def _other_targets(self, job: IncrementalJob, stream: Stream) -> Any:
        """Yields the targets that have another model than the one that is live."""
        live = job.live.artifact.sha256
        if job.live_update:
            files = {COPY_URL: job.spec.deploy.copy_to, CONFIG_URL: job.spec.deploy.config}
            for url, place in files.items():
                if place is not None and self.files.written.get(url, (0, ""))[1] != live:
                    yield f"{url} has another model than {live}"
        for target in service_targets(job.spec.deploy):
            service = job.services[target]
            task = stream.tasks.get(service_task(job, target, service.tasks)[0])
            if task is None or not is_ready(task):
                yield f"{target} does not serve"
                continue
            key = (task.task_id, task.attempt.number, task.attempt.placement)
            if self.files.loaded[key][-1] != live:
                yield f"{target} serves another model than {live}"

    def is_over(self, streams: Streams) -> bool:
        """Returns whether job and dataset are deleted, and nothing of them runs."""
        dataset = None if DATASET not in streams.by_id else dataset_of(streams.by_id[DATASET])
        job = None if STREAM not in streams.by_id else job_of(streams.by_id[STREAM])
        deleted = dataset is not None and dataset.status is DatasetStatus.DELETED and dataset.over
        return deleted and job is not None and job.over

    def take(self, record: Record, stream: Stream) -> None:
        """Compares an event of the job with what must follow from those before."""
        if record.envelope.stream == STREAM:
            self._expected.take(record)

    def violations(self, stream: Stream) -> list[str]:
        """Returns which samples, rounds, models and targets are not as they must be."""
        return [*self._targets, *self._left(stream), *self._expected.last_violations(self._samples)]

    def _left(self, stream: Stream) -> Iterator[str]:
        """Yields that a deleted job has left what it says to have removed."""
        job, left = job_of(stream), self.files.written.get(CONFIG_URL, (0, ""))[1]
        if left and job is not None and job.removal is not None and not job.blocked:
            yield f"{CONFIG_URL} was not removed"
