"""What the rounds of a simulated job must be, apart from the shipped rules: samples, models, decisions."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import Any

from trackside.aggregates.rounds import messages as rounds
from trackside.aggregates.rounds.job import deploy_messages as deploys
from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.simulation.host.files import SimulatedFiles
from trackside.simulation.tasks.incremental_tasks import accuracy_of, fitted_digest


@dataclass(slots=True)
class ExpectedRound:
    """What one round must do; samples by their numbers, models by their digests."""

    number: int
    spec: JobSpec
    begin: int
    train: list[int]
    evaluation: list[int]
    base: str = ""
    manifest: str = ""
    trained: str = ""
    compared: str = ""
    deploy: bool | None = None
    waits: bool = False
    given_up: bool = False
    deployed: bool = False


@dataclass(slots=True)
class ExpectedUpdate:
    """What targets must have: a model by its digest, and those that have not confirmed it."""

    cause: str
    sha256: str
    open: set[str]
    failures: Counter[str] = field(default_factory=Counter)


class ExpectedRounds:
    """Takes the events of a job that had an effect, and compares each with what those before lead to.

    Training fails in the rounds of `failing["train"]`, evaluation in those of `failing["eval"]`. The user has
    forced the deployment of the rounds in `forced`, and no other.
    """

    def __init__(self, job_id: str, files: SimulatedFiles, failing: dict[str, list[int]]) -> None:
        self.forced: set[int] = set()
        self._job_id = job_id
        self._files = files
        self._failing = failing
        self._spec: JobSpec | None = None
        self._shares: set[Fraction] = set()
        self._left = Fraction(0)
        self._trains: list[bool] = []
        self._first = self._version_begin = 0
        self._versions: list[tuple[int, int]] = []
        self._rounds: list[ExpectedRound] = []
        self._round: ExpectedRound | None = None
        self._used: Counter[int] = Counter()
        self._initial = self._live = self._last_trained = self._rollback_to = ""
        self._was_live: set[str] = set()
        self._update: ExpectedUpdate | None = None
        self._paused = False
        self.deployments: Counter[str] = Counter()
        self.violations: list[str] = []

    def take(self, record: Record) -> None:
        """Takes in an event that had an effect."""
        match event := record.message:
            case rounds.IncrementalJobCreated():
                self._initial = self._live = event.initial.artifact.sha256
                self._was_live.add(self._live)
                self._define(event.job)
            case rounds.IncrementalJobUpdated():
                self._define(event.job)
            case rounds.IncrementalJobPaused():
                self._paused = True
            case rounds.IncrementalJobResumed():
                self._paused = False
            case rounds.SamplesAssigned():
                self._assign(event)
            case rounds.TriggerEvaluated(fired=True):
                self._fire(event)
            case TaskSubmitted():
                self._submit(event)
            case _:
                if self._round is not None:
                    self._take_stage(event, self._round)
                self._take_update(event)

    def last_violations(self, samples: int) -> Iterable[str]:
        """Yields what is wrong once the job is deleted, whose dataset has so many samples."""
        yield from self.violations
        if len(self._trains) != samples:
            yield f"{len(self._trains)} of {samples} samples were assigned"
        waiting = Counter(number for number in range(self._first, samples) if self._trains[number])
        waiting.update([] if self._round is None else self._round.train)
        expected = Counter(number for number in range(samples) if self._trains[number])
        if self._used + waiting != expected:
            yield f"samples for training are not in one place: {expected - self._used - waiting}"

    def _expect(self, holds: bool, message: str) -> None:
        if not holds:
            number = self._round.number if self._round is not None else len(self._rounds)
            self.violations.append(f"round {number}: {message}")

    def _define(self, spec: JobSpec) -> None:
        self._spec = spec
        self._shares.add(Fraction(str(spec.dataset.train_prob)))
        if self._update is not None:
            self._update.open &= set(targets_of(spec))

    def _assign(self, event: rounds.SamplesAssigned) -> None:
        """Divides samples one by one: one is for training whenever the shares add up to another 1."""
        begin = len(self._trains)
        self._expect(event.begin == begin, f"samples from {event.begin} on are divided, not from {begin}")
        self._expect(Fraction(event.share) in self._shares, f"the share {event.share} was never asked for")
        for _ in range(begin, event.end):
            self._left += Fraction(event.share)
            self._trains.append(self._left >= 1)
            self._left %= 1
        self._expect(event.train == sum(self._trains[begin:]), f"{event.train} new samples are for training")
        end = self._files.dataset.end(event.end)
        known = {"lines": event.end, "size": event.size_bytes, "sha256": event.sha256}
        self._expect(known == end, f"the dataset ends at {end}, not at {known}")

    def _fire(self, event: rounds.TriggerEvaluated) -> None:
        self._expect(not self._paused, f"{event.stage} begins while the job is paused")
        assert self._spec is not None
        spec = self._spec if self._round is None else self._round.spec
        if event.stage == "eval":
            self._expect(
                bool(event.command_id) or spec.eval.trigger is None, "its evaluation was not asked for"
            )
            if self._round is not None and not self._round.evaluation:
                self._round.evaluation = self._evaluation()
            return
        waiting = [number for number in range(self._first, len(self._trains)) if self._trains[number]]
        trigger: Any = spec.train.trigger
        holds = trigger is None or (trigger.type == "condition" and len(waiting) >= trigger.threshold)
        self._expect(self._round is None, "the next one begins before its end")
        self._expect(holds or bool(event.command_id), f"another one begins with {len(waiting)} samples")
        self._expect(bool(waiting), "another one begins without samples")
        number = len(self._rounds) + 1
        self._round = ExpectedRound(number, spec, self._first, waiting, self._evaluation())
        self._rounds.append(self._round)
        self._first = len(self._trains)

    def _evaluation(self) -> list[int]:
        """Returns the samples of the newest versions: what has come since the last one is another one."""
        assert self._spec is not None
        end = len(self._trains)
        if not all(self._trains[self._version_begin :]):
            self._versions.append((self._version_begin, end))
        self._version_begin = end
        self._versions = self._versions[-self._spec.dataset.eval_versions :]
        return [
            number
            for begin, end in self._versions
            for number in range(begin, end)
            if not self._trains[number]
        ]

    def _submit(self, event: TaskSubmitted) -> None:
        part, round_ = event.part, self._round
        if part is not None and part.kind == "serve":
            if self._update is not None:
                self._update.open.add(f"serve.{part.name}.{part.number}")
            self._expect(event.inputs["model"].sha256 == self._live, "a service begins with another model")
        elif part is not None and part.name == "eval" and round_ is not None:
            round_.compared = self._live
            found = {name: event.inputs[name].sha256 for name in ("trained", "deployed")}
            expected = {"trained": round_.trained, "deployed": self._live}
            self._expect(found == expected, f"{found} are compared, not {expected}")

    def _take_stage(self, event: Any, round_: ExpectedRound) -> None:
        match event:
            case rounds.SampleManifestWritten():
                self._check_manifest(event, round_)
            case rounds.RoundStarted():
                assert self._spec is not None
                from_live = self._spec.start_from == "deployed" or not self._last_trained
                round_.base = self._live if from_live else self._last_trained
                self._expect(event.base.artifact.sha256 == round_.base, "it begins with another model")
            case rounds.ModelTrained():
                round_.trained = fitted_digest(round_.base, round_.manifest)
                self._expect(event.version.artifact.sha256 == round_.trained, "it has trained another model")
            case rounds.StageEnded(stage="eval", status=rounds.StageState.COMPLETED):
                models = {"trained": round_.trained, "deployed": round_.compared}
                expected = {name: {"accuracy": accuracy_of(digest)} for name, digest in models.items()}
                self._expect(event.metrics == expected, f"its metrics are {event.metrics}, not {expected}")
            case deploys.DeployDecided():
                self._decide(event, round_)
            case deploys.DeployApproved():
                self._expect(round_.waits, "it is approved, and nobody was asked")
                round_.waits = False
            case deploys.DeployRejected():
                self._expect(round_.waits, "it is rejected, and nobody was asked")
                round_.waits = round_.deploy = False
            case rounds.RoundEnded():
                self._end(event, round_)

    def _check_manifest(self, event: rounds.SampleManifestWritten, round_: ExpectedRound) -> None:
        numbers = round_.train if event.stage == "train" else round_.evaluation
        content = b"".join(self._files.dataset.samples[number] for number in numbers)
        expected = (sha256(content).hexdigest(), len(numbers))
        self._expect(
            (event.sha256, event.lines) == expected, f"{event.stage} has other samples than {numbers}"
        )
        self._expect(bool(numbers), f"{event.stage} has no samples")
        if event.stage == "train":
            round_.manifest = event.sha256

    def _decide(self, event: deploys.DeployDecided, round_: ExpectedRound) -> None:
        delta = accuracy_of(round_.trained) - accuracy_of(round_.compared)
        condition, *others = conditions_of(round_.spec.deploy.trigger)
        forced = bool(event.command_id) and round_.number in self.forced
        self._expect(bool(event.command_id) or not others, "its deployment is decided without a command")
        self._expect(event.deploy is (delta > condition.threshold) or (forced and event.deploy), f"{event!r}")
        round_.deploy, round_.waits = event.deploy, event.approval

    def _end(self, event: rounds.RoundEnded, round_: ExpectedRound) -> None:
        """Checks how a round ends: in which stage, and whether its model is live."""
        number = round_.number
        stage = next((name for name in ("train", "eval") if number in self._failing[name]), "deploy")
        failed = stage != "deploy" or round_.given_up
        deployed = round_.deploy is True and not failed
        found = (event.number, event.stage, event.status, event.deployed)
        expected = (number, stage, "failed" if failed else "completed", deployed)
        self._expect(found == expected, f"it ends as {found}, not as {expected}")
        self._expect(round_.deployed is deployed and not round_.waits, "its model is live, or is not")
        if failed:
            self._first = round_.begin
        else:
            self._used.update(round_.train)
            self._last_trained = round_.trained
        self._round = None

    def _take_update(self, event: Any) -> None:
        update = self._update
        match event:
            case deploys.ModelRolledBack():
                self._rollback_to = event.model.artifact.sha256
                self._expect(self._rollback_to in self._was_live, "what was never live is to be it again")
            case deploys.ModelUpdatePublished():
                self._publish(event)
            case deploys.ModelUpdateConfirmed() if update is not None:
                tasks = {
                    key[0]
                    for key in self._files.loaded
                    if key[0].startswith(f"{self._job_id}.{event.target}.")
                }
                loaded = any(self._files.was_loaded(task, update.sha256) for task in tasks)
                self._expect(loaded, f"{event.target} has confirmed what it never had")
                update.open.discard(event.target)
            case deploys.ModelCopied() if update is not None:
                self._expect(event.sha256 == update.sha256, f"{event.target} has another model")
                update.open.discard(event.target)
            case deploys.ModelUpdateFailed() if update is not None and self._spec is not None:
                update.failures[event.target] += 1
                self._give_up(update.failures[event.target] >= self._spec.deploy.tries)
            case deploys.ModelUpdateTimedOut():
                self._give_up(True)
            case deploys.ModelDeployed() if update is not None:
                self._expect(event.sha256 == update.sha256 and not update.open, f"{update} is live")
                self._live, self._update = event.sha256, None
                self._was_live.add(event.sha256)
                self.deployments[update.cause] += 1
                if update.cause == "round" and self._round is not None:
                    self._round.deployed = True

    def _give_up(self, at_last: bool) -> None:
        update, round_ = self._update, self._round
        if at_last and update is not None and update.cause == "round" and round_ is not None:
            round_.given_up = True

    def _publish(self, event: deploys.ModelUpdatePublished) -> None:
        round_ = self._round
        digest = event.model.artifact.sha256
        expected = self._rollback_to if event.cause == "rollback" else self._live
        if event.cause == "round":
            decided = round_ is not None and round_.deploy is True and not round_.waits
            self._expect(decided, "its model is deployed, and that was not decided")
            expected = "" if round_ is None else round_.trained
        self._expect(digest == expected, f"another model is published: {event!r}")
        self._update = ExpectedUpdate(event.cause, digest, set(event.targets))


def targets_of(spec: JobSpec) -> Collection[str]:
    """Returns what a deployment of a job has to reach."""
    files = {"copy": spec.deploy.copy_to, "config": spec.deploy.config}
    services = [
        f"serve.{service.name}.{replica}"
        for service in spec.deploy.services
        for replica in range(1, service.replicas + 1)
    ]
    return [*(name for name, place in files.items() if place is not None), *services]


def conditions_of(trigger: Any) -> list[Any]:
    """Returns the condition of a deployment, and `manual` if a command decides when it is evaluated."""
    return [trigger] if trigger.type == "condition" else list(trigger.triggers)
