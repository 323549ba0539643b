"""A search that promotes, while its tasks are preempted, held and lost: each step counts once.

A worker is played here; what is decided and what counts is the code that decides and folds in services.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.unit.aggregates.given import react
from tests.unit.dispatcher.test_determinism import OPTIONS, Dispatcher, change
from tests.unit.domain.given import Told, assigned, begun, ended, preemption, report, search_running, token
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import PauseSearch, ResumeSearch, TrialStatus
from trackside.aggregates.search.trials import suggestions
from trackside.aggregates.search.trials.promotion import Start
from trackside.contracts.tasks.artifacts import ArtifactSaved, TaskResumed
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task, TaskState
from trackside.domain.tasks.task_artifacts import offered
from trackside.verify.verifier import Verifier

TRIALS = 24
SPACE = {"rate": {"type": "uniform", "low": 0.0, "high": 1.0}}
APPLIED = [Outcome.APPLIED]


@dataclass
class Worker:
    """Trains tasks, and keeps in each checkpoint which steps were trained before it."""

    told: Told
    random: Random
    trained: dict[int, list[int]] = field(default_factory=dict)
    saved: dict[str, list[int]] = field(default_factory=dict)
    artifacts: int = 0

    def begin(self, trial: int, task: Task) -> None:
        attempt, placement = task.attempt.number, task.attempt.placement + 1
        self.told.tell(assigned(trial, attempt, placement))
        self.told.tell(begun(trial, attempt=attempt, placement=placement))
        self.trained[trial] = []
        task = self.told.task(trial)
        for checkpoint in offered(task)[:1]:
            self.trained[trial] = list(self.saved[checkpoint.sha256])
            resumed = TaskResumed(**self._token(trial, task), step=checkpoint.step, checkpoint=checkpoint)
            assert self.told.tell(resumed) == APPLIED

    def train(self, trial: int, task: Task) -> None:
        """Trains a step, and saves a checkpoint at the limit, or by chance; it ends there by itself."""
        steps, limit = self.trained[trial], task.step_limit
        assert limit is not None
        if len(steps) >= limit or task.stop_reason:
            self._end(trial, task, AttemptEnd.CANCELLED if task.stop_reason else AttemptEnd.FINISHED)
            return
        value = self.told.search.trials[trial].parameters["rate"] * (len(steps) + 1)
        said = report(len(steps), value, trial, attempt=task.attempt.number, placement=task.attempt.placement)
        assert self.told.tell(said) == APPLIED
        steps.append(len(steps))
        if len(steps) == limit or self.random.random() < 0.4:
            self._save(trial, task)

    def disturb(self, trial: int, task: Task) -> None:
        which: dict[str, Any] = {"attempt": task.attempt.number, "placement": task.attempt.placement}
        if self.random.random() < 0.5 and task.attempt.number < 3:
            self._end(trial, task, AttemptEnd.LOST)
        elif not task.stop_reason:
            self.told.tell(preemption(trial, **which))
            self.give_back(trial, task)

    def give_back(self, trial: int, task: Task) -> None:
        """Ends a placement that was asked to make room, after a checkpoint or without one."""
        if self.random.random() < 0.5 and self.trained[trial]:
            self._save(trial, task)
        self._end(trial, task, AttemptEnd.PREEMPTED)

    def _save(self, trial: int, task: Task) -> None:
        self.artifacts += 1
        digest = f"{self.artifacts:064x}"
        self.saved[digest] = list(self.trained[trial])
        content = {"uri": f"store:sha256/{digest}", "sha256": digest, "size_bytes": 10}
        named = {"name": "checkpoint", "kind": "checkpoint", "version": task.checkpoint_version + 1}
        counted = {"number": task.attempt.saved + 1, "step": len(self.trained[trial])}
        saved = ArtifactSaved.model_validate(self._token(trial, task) | content | named | counted)
        assert self.told.tell(saved) == APPLIED

    def _end(self, trial: int, task: Task, end: AttemptEnd) -> None:
        role = "scheduler" if end is AttemptEnd.LOST else ""
        which = {"attempt": task.attempt.number, "placement": task.attempt.placement}
        assert self.told.tell(ended(end, trial, **which), role=role) == APPLIED

    def _token(self, trial: int, task: Task) -> dict[str, Any]:
        return token(trial, task.attempt.number, task.attempt.placement)


def tasks_in(told: Told, state: TaskState) -> list[tuple[int, Task]]:
    found = [(number, told.task(number)) for number in sorted(told.search.active)]
    return [(number, task) for number, task in found if task.state is state]


async def suggest(told: Told) -> None:
    """Tells what the tuner suggests next, asked by a dispatcher that knows the log only."""
    search, number = told.search, told.search.next_trial
    if number is None:
        return
    answer = await Dispatcher().suggest(search, number)
    assert answer is not None
    seen = search.opened[number]
    if not answer:
        told.tell(*suggestions.deferred(search, number, seen))
        return
    start = Start(answer["from_trial"], answer["step_limit"])
    told.tell(*suggestions.suggestion(search, number, answer["parameters"], seen, start=start))


@pytest.mark.parametrize("name", OPTIONS)
async def test_each_step_counts_once_whatever_happens_to_the_tasks(name: str, seed: int) -> None:
    random = Random(f"{seed}/{name}")
    tuner = {"name": name, "options": OPTIONS[name]}
    told = search_running(max_trials=TRIALS, concurrency=4, space=SPACE, tuner=tuner)
    worker = Worker(told, random)
    while not told.search.over:
        if react(told):
            continue
        await suggest(told)
        draw, active = random.random(), tasks_in(told, TaskState.ACTIVE)
        waiting = [each for each in tasks_in(told, TaskState.QUEUED) if not each[1].held]
        held = [(trial, task) for trial, task in active if task.held]
        if told.search.paused and draw < 0.3:
            change(told, ResumeSearch())
        elif not told.search.paused and draw < 0.03:
            change(told, PauseSearch(running=random.choice(["finish", "return"])))
        elif held:
            worker.give_back(*random.choice(held))
        elif active and draw < 0.15:
            worker.disturb(*random.choice(active))
        elif waiting and draw < 0.5:
            worker.begin(*random.choice(waiting))
        elif active:
            worker.train(*random.choice(active))
    for trial in told.search.trials:
        assert trial.status is TrialStatus.SUCCEEDED and trial.step_limit and trial.checkpoint
        assert trial.value == trial.parameters["rate"] * trial.step_limit
        before = None if trial.from_trial is None else told.search.trials[trial.from_trial]
        first = 0 if before is None else before.step_limit or 0
        assert trial.from_checkpoint == (None if before is None else before.checkpoint)
        assert [step for step, _ in trial.reports] == list(range(first, trial.step_limit))
        assert worker.saved[trial.checkpoint.sha256] == list(range(trial.step_limit))
    streams = Streams(AGGREGATES)
    verifier = Verifier(streams.fold)
    for record in told.records:
        verifier.take(record)
    found = [finding for finding in verifier.finish() if "has never joined" not in finding.message]
    assert found == []  # the log has no fleet
