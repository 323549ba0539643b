"""Artifacts, checkpoints and resumed trainings, drawn by chance: as workers write them, or nobody should."""

from random import Random
from typing import Any

from tests.unit.domain.given import token
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.artifacts import ArtifactSaved, CheckpointReference, TaskResumed
from trackside.domain.tasks.task import Task
from trackside.domain.tasks.task_artifacts import candidates

Move = list[Message]
DIGESTS = [f"{number:064x}" for number in range(4)]


def of_task(random: Random, task: Task, where: dict[str, Any]) -> list[Move]:
    """Returns what the worker of a running task may say of its artifacts and checkpoints."""
    chance = random.random()
    if chance < 0.2:
        return [[saved(random, task, where)]] * 2
    if chance < 0.3:
        return [[random.choice(wrong(random, task, where))]] * 2
    known = candidates(task)
    if known and task.attempt.resumed is not None and chance < 0.6:
        return [[resumed(task, where, random.choice(known))]] * 3
    if known and not task.reports and task.attempt.resumed is None:
        return [[resumed(task, where, random.choice(known))]] * 3
    return []


def saved(random: Random, task: Task, where: dict[str, Any]) -> ArtifactSaved:
    """Draws what the placement saves next: most often a checkpoint."""
    is_checkpoint, digest = random.random() < 0.7, random.choice(DIGESTS)
    name = "checkpoint" if is_checkpoint else random.choice(["model", "notes"])
    known = task.artifacts.get(name)
    newest = task.checkpoint_version if is_checkpoint else 0 if known is None else known.version
    next_step = task.reports[-1][0] + 1 if task.reports else 1
    what: dict[str, Any] = {"number": task.attempt.saved + 1, "name": name, "version": newest + 1}
    what |= {"kind": "checkpoint" if is_checkpoint else "file", "step": next_step if is_checkpoint else None}
    stored = {"uri": f"store:sha256/{digest}", "sha256": digest, "size_bytes": 10}
    return ArtifactSaved(**token(0, **where), **what, **stored, requests=task.taken)


def resumed(task: Task, where: dict[str, Any], checkpoint: CheckpointReference) -> TaskResumed:
    at: dict[str, Any] = {"interrupts": task.attempt.interrupted, "requests": task.taken}
    return TaskResumed(**token(0, **where), **at, step=checkpoint.step, checkpoint=checkpoint)


def wrong(random: Random, task: Task | None, where: dict[str, Any]) -> list[Message]:
    """Returns what is late, again, out of its order, or of a checkpoint that the log doesn't know."""
    if task is None:
        return []
    artifact = saved(random, task, where)
    known = candidates(task)
    unknown = CheckpointReference(uri="https://x.example/c", sha256=DIGESTS[0], size_bytes=1, step=1)
    training = resumed(task, where, random.choice(known) if known else unknown)
    return [
        artifact.model_copy(update={"number": max(1, task.attempt.saved)}),
        artifact.model_copy(update={"kind": "checkpoint", "step": None}),
        artifact.model_copy(update={"kind": "file", "name": "notes", "version": 0}),
        artifact.model_copy(update={"incarnation": "i-9"}),
        training,
        training,
        training.model_copy(update={"interrupts": training.interrupts + 1}),
        resumed(task, where, unknown),
    ]
