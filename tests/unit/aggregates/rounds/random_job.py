"""A job to which anything happens by chance: commands, failures, services that restart, samples, time."""

from dataclasses import dataclass, field
from random import Random

from tests.unit.aggregates.rounds.given import JOB, JobLog, condition, job_body
from trackside.aggregates.rounds.job.deploy_messages import ModelDeployed
from trackside.aggregates.rounds.messages import JobStatus, RoundEnded, RoundStarted
from trackside.aggregates.rounds.stages.task_ids import service_task
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.tasks.task import Task, TaskState
from trackside.domain.tasks.task_instructions import is_ready
from trackside.verify.verifier import Verifier

ACCURACIES = (0.4, 0.55, 0.7, 0.85, 0.9)
COMMANDS = ("fire-train", "fire-eval", "fire-deploy", "approve-deploy", "reject-deploy", "rollback-model")
STALE = 200
"""How many decisions a late dispatcher keeps."""


class RivalLog(JobLog):
    """A log of two dispatchers: one tells everything again, and says late what was true once."""

    random: Random = Random(0)
    late: list[tuple[str, Proposal]]

    def settle(self) -> list[Event]:
        """Lets both write what is lacking, each decision twice, and some decisions of an older state."""
        self.late = getattr(self, "late", [])
        events: list[Event] = []
        for _ in range(2_000):
            found = list(self._proposals())
            if not found:
                break
            self.late = [*self.late, *found][-STALE:]
            stream, proposal = found[0]
            outcomes = self.tell(*proposal.events, role="dispatcher", stream=stream)
            assert set(outcomes) == {Outcome.APPLIED}, (stream, proposal, outcomes)
            again = self.tell(*proposal.events, role="dispatcher", stream=stream)
            assert Outcome.APPLIED not in again, (stream, proposal, again)
            events += proposal.events
            if self.random.random() < 0.3:
                events += self._say_late()
        else:
            raise AssertionError(f"no end of decisions: {events[-5:]}")
        self.written += events
        return events

    def _say_late(self) -> list[Event]:
        stream, proposal = self.random.choice(self.late)
        outcomes = self.tell(*proposal.events, role="dispatcher", stream=stream)
        assert len(set(outcomes)) == 1 or Outcome.APPLIED not in outcomes, (proposal, outcomes)
        return list(proposal.events) if outcomes[0] is Outcome.APPLIED else []


@dataclass
class RandomJob:
    """A job, what happens to it, and what its services really have."""

    random: Random
    log: JobLog = field(default_factory=JobLog)
    loaded: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """The digest of what each attempt and placement of a service has loaded."""
    counted: dict[tuple[str, int, int], tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log.next_accuracy = lambda number: self.random.choice(ACCURACIES)
        self.log.create(**self.definition())

    def definition(self) -> Json:
        random = self.random
        replicas = random.choice([0, 1, 2])
        services = [{"name": "api", "task_type": "serve", "replicas": replicas}] if replicas else []
        deploy: Json = {"services": services, "tries": random.choice([1, 3]), "confirm_s": 60}
        if random.random() < 0.4:
            deploy["copy_to"] = {"url": "/srv/live.safetensors"}
        if random.random() < 0.4:
            deploy["config"] = {"url": "/srv/config"}
        if random.random() < 0.3:
            deploy["gate"] = {"timeout_s": 600}
        if random.random() < 0.8:
            deploy["trigger"] = condition("accuracy_delta", ">", 0.0)
        train: Json = {"task_type": "train", "check_period_s": random.choice([0, 60])}
        if random.random() < 0.5:
            train["trigger"] = condition("num_of_samples", ">=", 8)
        return {
            "deploy": deploy,
            "train": train,
            "dataset": {
                "name": "feed",
                "train_prob": random.choice([0.8, 0.5, 1.0]),
                "eval_versions": random.choice([1, 5]),
            },
            "start_from": random.choice(["trained", "deployed"]),
        }

    def move(self) -> None:
        chance = self.random.random()
        if chance < 0.1:
            self.log.append(self.random.randint(1, 20))
        elif chance < 0.25:
            self._command()
        elif chance < 0.35:
            self.log.wait(self.random.choice([1, 30, 61, 700]))
        else:
            tasks = [task for task in self.log.tasks() if task.not_before_ms <= self.log.now_ms]
            if tasks:
                self._work(self.random.choice(tasks))

    def _command(self) -> None:
        random, log = self.random, self.log
        name = random.choice([*COMMANDS, "update", "pause", "resume", "report"])
        if name == "update":
            body = {"job": job_body(**self.definition())}
            log.command(JOB, "trackside.update-incremental-job.v1", body)
        elif name in ("pause", "resume"):
            log.command(JOB, f"trackside.{name}-incremental-job.v1", {})
        elif name == "report":
            counts = {"service": "edge", "inferences": 5, "hard": 1}
            log.command(JOB, "trackside.report-hard-examples.v1", counts)
        else:
            bodies: dict[str, Json] = {
                "rollback-model": {"version": random.randint(1, 4)},
                "fire-deploy": {"force": random.random() < 0.5},
            }
            log.command(JOB, f"trackside.{name}.v1", bodies.get(name, {}))

    def _work(self, task: Task) -> None:
        if task.task_type == "serve":
            self._serve(task)
        elif self.random.random() < 0.15:
            self.log.end(task, error="ValueError")
        elif task.task_type in ("train", "evaluate") and self.random.random() < 0.1:
            self.log.end(task, {})  # no model, no metrics
        else:
            self.log.do(task)

    def serve(self, task: Task) -> bool:
        attempt, instruction = task.attempts[-1], task.instruction
        where = (task.task_id, attempt.number, attempt.placement)
        if task.stop_reason:
            self.log.end(task)
        elif not attempt.ready_number or where not in self.loaded:
            self.log.place(task)
            where = (task.task_id, attempt.number, attempt.placement)
            self.loaded[where] = task.inputs["model"].sha256
            told: Json = {"update": 0}
            if instruction is not None:  # what it was told before counts more than its parameters
                self.loaded[where] = instruction.body["model"]["artifact"]["sha256"]
                told = {"update": instruction.body["update"]}
            self.log.ready(task, sha256=self.loaded[where], **told)
        elif instruction is not None and task.acknowledged < instruction.number:
            self.loaded[where] = instruction.body["model"]["artifact"]["sha256"]
            self.log.acknowledge(task)
        else:
            return False
        return True

    def _serve(self, task: Task) -> None:
        attempt, chance = task.attempts[-1], self.random.random()
        where = (task.task_id, attempt.number, attempt.placement)
        open_ = task.instruction is not None and task.acknowledged < task.instruction.number
        if chance < 0.1:
            self.log.end(task, how=self.random.choice([AttemptEnd.FAILED, AttemptEnd.FINISHED]))
        elif chance < 0.3 and open_ and where in self.loaded:
            self.log.acknowledge(task, ok=False, message="it could not load the model")
        elif chance < 0.4 and where in self.loaded:
            inferences, hard = self.counted.get(where, (0, 0))
            self.counted[where] = (inferences + 7, hard + 2)
            said = {**attempt.ready, "inferences": inferences + 7, "hard": hard + 2}
            self.log.ready(task, **said)
        else:
            self.serve(task)

    def come_to_rest(self) -> None:
        log = self.log
        if log.job.status is JobStatus.PAUSED:
            log.command(JOB, "trackside.resume-incremental-job.v1", {})
        for _ in range(3_000):
            log.settle()
            tasks = [task for task in log.tasks() if task.not_before_ms <= log.now_ms]
            if any(self._finish(task) for task in tasks):
                continue
            due = [task.not_before_ms for task in log.tasks() if task.state is TaskState.QUEUED]
            due_ms = log.next_due_ms()
            due += [] if due_ms is None else [due_ms]
            later = [each for each in due if each > log.now_ms]
            assert len(later) == len(due) or not due, f"a limit is reached, and nothing follows: {log.job}"
            if not later or min(later) > log.now_ms + 3_600_000:
                return
            log.now_ms = min(later)
        raise AssertionError(f"it never comes to rest: {log.written[-5:]}")

    def _finish(self, task: Task) -> bool:
        return self.serve(task) if task.task_type == "serve" else self.log.do(task)

    def check(self) -> None:
        """Compares a job that rests with what its log says, and its targets with what they have."""
        log, job = self.log, self.log.job
        assert_valid(log)
        assert job.update is None, f"an update never ends: {job.update}"
        deployed = log.of(ModelDeployed)
        if deployed:
            assert job.live.artifact.sha256 == deployed[-1].sha256
        live = job.live.artifact.sha256
        for target, service in job.services.items():
            task = log.stream.tasks.get(service_task(job, target, service.tasks)[0])
            if not service.running or service.retired or task is None or not is_ready(task):
                continue
            attempt = task.attempts[-1]
            assert self.loaded[task.task_id, attempt.number, attempt.placement] == live, (target, task)
        assert_in_one_place(log)


def assert_valid(log: JobLog) -> None:
    verifier = Verifier(type(log.streams)(log.streams.aggregates).fold)
    for record in log.records:
        verifier.take(record)
    found = [*verifier.finish(), *verifier.findings.open]
    assert not [each for each in found if each.invariant in ("INV-10", "INV-23", "INV-24")], found


def assert_in_one_place(log: JobLog) -> None:
    started = {event.number: event.train for event in log.of(RoundStarted)}
    done = [started[event.number] for event in log.of(RoundEnded) if event.status == "completed"]
    at = 0
    for begin, end in done:
        assert begin == at, (begin, at)
        at = end
    job = log.job
    assert (job.pool.first if job.round is None else job.round.train[0], job.pool.end) == (at, log.lines)
