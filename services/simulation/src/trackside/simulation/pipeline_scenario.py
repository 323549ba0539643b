"""The scenario of a run of a pipeline: a chain, a fan-out, a search, a gate, and steps that are retried."""

from random import Random
from typing import Any

from trackside.aggregates.run.messages import (
    ApproveGate,
    PausePipelineRun,
    ResumePipelineRun,
    RetryFailedSteps,
    RunEnded,
    RunStatus,
    StartPipelineRun,
    StepPatch,
)
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.run.step_messages import StepResolved, StepState
from trackside.contracts.ids import step_task_id
from trackside.contracts.message import Command, Json, Record
from trackside.domain.stream import Stream
from trackside.simulation.scenarios import STREAM, StreamScenario
from trackside.simulation.worker_state import TASK_TYPE, TRAINING_TYPE

KEPT_S = 20.0
"""How long the run can be continued after its end, s; then it is archived, and the simulation ends."""
ALWAYS = 1_000
PAUSES = 2
"""How often the user pauses the run, at most."""
LOST: Json = {"lost": 100}


class PipelineScenario(StreamScenario):
    """A run whose user pauses it, approves its gate, and retries the two steps that fail, one with a patch.

    Whatever goes wrong, all steps succeed in the end, and each reference has the value that it must have.
    """

    kind = "run"
    name = "pipeline"
    plural = "runs of pipelines"
    has_user = saves = True

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        super().__init__(seed, tasks, concurrency)
        self._width = max(3, tasks // 4)
        self._resolved: dict[str, list[Json]] = {}
        self._ends: list[tuple[RunStatus, dict[str, str]]] = []

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
            {"name": "gate", "gate": {"form": {"note": {"type": "string"}}}, "needs": ["train", "tune"]},
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

    def next_command(self, stream: Stream, rng: Random) -> Command | None:
        """Returns a pause, the end of one, the decision of the gate, or the retry of what has failed."""
        run = run_of(stream)
        if run is None or run.archived:
            return None
        if run.over:
            return self._retry(run) if run.revival == 0 else None
        if run.paused:
            return ResumePipelineRun()
        if run.changes < 2 * PAUSES and rng.random() < 0.1:
            return PausePipelineRun(running=rng.choice(["finish", "return"]))
        if "gate" in run.open_gates and rng.random() < 0.5:
            return ApproveGate(step="gate", inputs={"note": "good"}, actor="user")
        return None

    def _retry(self, run: Run) -> RetryFailedSteps | None:
        failed = [name for name, step in run.steps.items() if step.state is StepState.FAILED]
        if not failed:
            return None
        repaired: dict[str, Any] = {"failing_attempts": 0}
        patch = {"check": StepPatch(parameters=repaired), "train": StepPatch(parameters=repaired)}
        return RetryFailedSteps(patch=patch)

    def take(self, record: Record, stream: Stream) -> None:
        """Notes the values that references got, and how the run and its steps ended each time."""
        event, run = record.message, run_of(stream)
        if run is None:
            return
        if isinstance(event, StepResolved):
            self._resolved.setdefault(event.step, []).append(event.values)
        elif isinstance(event, RunEnded):
            states = {name: step.state.value for name, step in run.steps.items()}
            self._ends.append((event.status, states))

    def violations(self, stream: Stream) -> list[str]:
        """Returns which ends and values are not those that there must be."""
        first = {"prepare": "succeeded", "train": "failed", "tune": "succeeded", "check": "failed"}
        first |= {"skipped": "skipped", "again": "succeeded", "report": "succeeded"}
        first |= {"gate": "omitted", "release": "omitted"}  # for report the search is enough
        last = dict.fromkeys(first, "succeeded") | {"skipped": "skipped"}
        found = []
        if self._ends != [(RunStatus.FAILED, first), (RunStatus.SUCCEEDED, last)]:
            found.append(f"the run ended as {self._ends}")
        ids = [step_task_id(STREAM, "train", number, 1) for number in range(self._width)]
        released = {"${gate.result.note}": "good", "${train.id}": ids, "${tune.id}": f"{STREAM}.tune"}
        if self._resolved.get("release") != [released]:
            found.append(f"release has got {self._resolved.get('release')}, not {released}")
        checks = [values["${check.status}"] for values in self._resolved.get("report", [])]
        if checks != ["failed", "succeeded"]:
            found.append(f"report has got {checks}")
        digests = {
            values["${prepare.artifacts.weights.sha256}"] for values in self._resolved.get("train", [])
        }
        if len(digests) != 1:
            found.append(f"the items of train have got {digests}")
        return found
