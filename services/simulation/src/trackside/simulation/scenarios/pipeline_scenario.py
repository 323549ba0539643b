"""The scenario of a run of a pipeline: a chain, a fan-out, a search, a gate, and steps that are retried."""

from random import Random
from typing import Any

from trackside.aggregates.run.messages import (
    AbortPipelineRun,
    AbortStep,
    ApproveGate,
    ArchiveRun,
    PausePipelineRun,
    RejectGate,
    ResumePipelineRun,
    RetryFailedSteps,
    RunStatus,
    SkipStep,
    StartPipelineRun,
    StepPatch,
    UpdatePipelineRun,
)
from trackside.aggregates.run.state import Run, run_of
from trackside.contracts.envelope.message import Command, Json, Record
from trackside.domain.streams.stream import Stream
from trackside.simulation.host.worker_state import TASK_TYPE, TRAINING_TYPE
from trackside.simulation.scenarios.expected_run import ExpectedRun
from trackside.simulation.scenarios.scenarios import STREAM, StreamScenario

KEPT_S = 20.0
"""How long the run can be continued after its end, s; then it is archived, and the simulation ends."""
GATE_S = 1.5
"""When a gate expires in the seeds that let it, s."""
REJECTIONS = 3
"""How often the run was continued after which the user approves the gate in time."""
LONG_S = 1_000.0
"""A time limit that a run does not reach, s."""
ALWAYS = 1_000
CHANGES = 4
"""How often the user pauses, resumes or updates the run, about."""
AGAIN = 0.3
"""How often the user sends a command a second time, at once; the second is refused, or has no effect."""
LOST: Json = {"lost": 100}
DISTURBANCES = ("none", "abort", "abort step", "skip", "time limit", "gate")
"""What the user does besides, one of these in each seed."""


class PipelineScenario(StreamScenario):
    """A run whose user pauses and updates it, decides its gate, and retries what has failed with a patch.

    Two steps fail without that patch. In each seed the user also does one of `DISTURBANCES`: stops the run
    or a step, skips one, sets a time limit, or rejects the gate or lets it expire. Many commands come twice,
    each with an id of its own. Each end must be the one that follows from it; the last is a success, and each
    reference has the value that it must have.
    """

    kind = "run"
    name = "pipeline"
    plural = "runs of pipelines"
    has_user = saves = True

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        super().__init__(seed, tasks, concurrency)
        self._width = max(3, tasks // 4)
        self._expected = ExpectedRun(STREAM, self._width)
        rng = Random(f"{seed}/pipeline")
        self._disturbance = rng.choice(DISTURBANCES)
        self._skipped = rng.choice(("tune", "report", "release"))
        self._aborted = rng.choice(("tune", "again", "train"))
        self._sent: set[str] = set()
        self._again: Command | None = None

    def command(self) -> StartPipelineRun:
        """Returns the command that starts the run."""
        items = [{"x": number / 10, "fails": self._fails(number)} for number in range(self._width)]
        steps: list[Json] = [
            {"name": "prepare", "task_type": TRAINING_TYPE},
            {
                "name": "train",
                "task_type": TASK_TYPE,
                "each": "${pipeline.items}",
                "at_once": 1 + self.seed % 3,
                "parameters": {
                    "x": "${item.x}",
                    "failing_attempts": "${item.fails}",
                    "weights": "${prepare.artifacts.weights.sha256}",
                },
            },
            {"name": "tune", "kind": "search", "spec": self._search(), "needs": ["prepare"]},
            {
                "name": "check",
                "task_type": TASK_TYPE,
                "needs": ["prepare"],
                "parameters": {"failing_attempts": ALWAYS},
            },
            {"name": "again", "task_type": TASK_TYPE, "repeat": {"until": "index > 1", "times": 4}},
            {"name": "skipped", "task_type": TASK_TYPE, "when": "prepare.status == 'failed'"},
            {
                "name": "report",
                "task_type": TASK_TYPE,
                "needs": {"any_of": ["train", "tune"], "all_ended": ["check", "skipped"]},
                "parameters": {"check": "${check.status}"},
            },
            {"name": "gate", "gate": self._gate(), "needs": ["train", "tune"]},
            {
                "name": "release",
                "task_type": TASK_TYPE,
                "needs": ["check"],
                "parameters": {"note": "${gate.result.note}", "ids": "${train.id}", "best": "${tune.id}"},
            },
        ]
        pipeline = {
            "parameters": {"items": {"type": "array"}},
            "steps": steps,
            "defaults": {"retry": LOST | {"failed": {"times": 1, "backoff_s": 0.2}}},
            "concurrency": self.concurrency,
            "keep_days": KEPT_S / 86_400,
        }
        return StartPipelineRun.model_validate({"pipeline": pipeline, "parameters": {"items": items}})

    def _fails(self, number: int) -> int:
        """Returns how many attempts fail of an item: one in most, all of one."""
        return ALWAYS if number == self.seed % self._width else number % 2

    def _search(self) -> Json:
        space = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
        tuner = {"name": "random"}
        limits = {"max_trials": 3, "concurrency": 2}
        return {"task_type": TASK_TYPE, "space": space, "tuner": tuner, "retry": LOST, **limits}

    def _gate(self) -> Json:
        limit = {"timeout_s": GATE_S} if self._disturbance == "gate" else {}
        return {"form": {"note": {"type": "string"}}, **limit}

    def next_command(self, stream: Stream, rng: Random) -> Command | None:
        """Returns what the user does next: changes the run, decides the gate, or retries what failed."""
        run = run_of(stream)
        command, self._again = self._again, None
        if command is None and run is not None:
            command = self._command(run, rng)
            self._again = command if rng.random() < AGAIN else None
        return command

    def _command(self, run: Run, rng: Random) -> Command | None:
        if run.archived or run.stopping:
            return None
        if run.over:
            return self._after_end(run, rng)
        if run.paused:
            return ResumePipelineRun()
        if run.changes < CHANGES and rng.random() < 0.1:
            return self._change(rng)
        if run.revival and run.timeout_s is not None and run.timeout_s < LONG_S:
            return UpdatePipelineRun(timeout_s=LONG_S)
        hesitates = self._disturbance == "gate" and run.revival < REJECTIONS
        if "gate" in run.open_gates and rng.random() < (0.1 if hesitates else 0.5):
            reject = hesitates and rng.random() < 0.5
            inputs = {"note": "good"}
            return RejectGate(step="gate") if reject else ApproveGate(step="gate", inputs=inputs)
        return self._disturb(run, rng) if rng.random() < 0.1 else None

    def _after_end(self, run: Run, rng: Random) -> Command | None:
        """Retries a run that has not succeeded, once after each end, and archives one that has."""
        if run.status is RunStatus.SUCCEEDED:
            return self._once("archive", ArchiveRun()) if rng.random() < 0.1 else None
        repaired: dict[str, Any] = {"failing_attempts": 0}
        patch = {"check": StepPatch(parameters=repaired), "train": StepPatch(parameters=repaired)}
        return self._once(f"retry {run.revival}", RetryFailedSteps(patch=patch))

    def _once(self, what: str, command: Command) -> Command | None:
        if what in self._sent:
            return None
        self._sent.add(what)
        return command

    @staticmethod
    def _change(rng: Random) -> Command:
        if rng.random() < 0.5:
            return PausePipelineRun(running=rng.choice(["finish", "return"]))
        return UpdatePipelineRun(concurrency=rng.randint(1, 4), priority=rng.randrange(5))

    def _disturb(self, run: Run, rng: Random) -> Command | None:
        """Returns what this seed does to its run besides, once."""
        match self._disturbance:
            case "abort":
                return self._once("abort", AbortPipelineRun())
            case "time limit":
                return self._once("limit", UpdatePipelineRun(timeout_s=rng.uniform(0.5, 5.0)))
            case "skip" if not run.steps[self._skipped].begun and not run.steps[self._skipped].over:
                return self._once("skip", SkipStep(step=self._skipped))
            case "abort step" if found := sorted(run.steps[self._aborted].open):
                index = rng.choice([None, *found]) if self._aborted == "train" else None
                return self._once("abort step", AbortStep(step=self._aborted, index=index))
            case _:
                return None

    def take(self, record: Record, stream: Stream) -> None:
        """Checks the values that references got, and how the run and its steps ended each time."""
        run = run_of(stream)
        if run is not None:
            states = {name: step.state for name, step in run.steps.items()}
            self._expected.take(record, states)

    def violations(self, stream: Stream) -> list[str]:
        """Returns which ends and values are not those that there must be."""
        return self._expected.violations()
