"""The kinds of experiments: each begins one, waits for its end, and checks that it ended as it must."""

import shutil
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from tests.chaos.random_faults import pause
from tests.chaos.rounds.job import ROUNDS, TwoRounds
from tests.soak.scene import Scene, rounds_of
from tests.soak.summary_files import summaries
from trackside.aggregates.batch.messages import SubmitTasks
from trackside.aggregates.pipeline.messages import DefinePipeline
from trackside.aggregates.pipeline.schedule.schedule_messages import CreateSchedule, DeleteSchedule
from trackside.aggregates.run.messages import (
    AbortPipelineRun,
    ApproveGate,
    PausePipelineRun,
    ResumePipelineRun,
    RunStatus,
    StartPipelineRun,
)
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.search.messages import SearchStatus, StartSearch, StopSearch, TrialStatus
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.envelope.message import Json
from trackside.domain.streams.stream import forget_settled

Experiment = Callable[[Scene, str], Awaitable[str]]
"""Runs an experiment of this name; returns how it ended, or raises AssertionError."""

RETRY: Json = {"lost": 100, "failed": 100}
SPACE: Json = {
    "value": {"type": "uniform", "low": 0.1, "high": 1.0},
    "seconds": {"type": "uniform", "low": 0.5, "high": 2.0},
}
FINITE: Json = {
    "value": {"type": "choice", "values": [0.2, 0.4, 0.6, 0.8]},
    "seconds": {"type": "choice", "values": [0.5, 2.0]},
}
TUNERS: tuple[tuple[str, Json], ...] = (
    ("random", SPACE),
    ("tpe", SPACE),
    ("grid", FINITE),
    ("qmc", SPACE),
    ("evolution", SPACE),
    ("cma-es", SPACE),
    ("nsga2", SPACE),
)
ASSESSORS: tuple[Json, ...] = (
    {"name": "median", "options": {}},
    {"name": "asha", "options": {}},
    {"name": "threshold", "options": {"lower": 0.08}},
)
TRIALS = 8
LONGEST_S = 20.0
"""After how long a run is aborted at most."""
NIGHTLY = "nightly"
"""The pipeline whose schedule begins a run each minute."""


def search_command(*, trials: int = TRIALS, **fields: Any) -> Json:
    """Returns the body of a search of short trials that are tried again without limit."""
    spec = {"task_type": "curve", "space": SPACE, "tuner": {"name": "random"}, "concurrency": 2}
    return {**spec, "max_trials": trials, "retry": RETRY, "resume": True, **fields}


async def search(scene: Scene, name: str) -> str:
    """Runs a search with one of the tuners: each trial succeeds."""
    tuner, space = scene.rng.choice(TUNERS)
    seed = scene.rng.randrange(2**31)
    await _start(scene, name, search_command(tuner={"name": tuner}, space=space, seed=seed))
    found = await _ended_search(scene, name)
    assert found.status is SearchStatus.DONE, found.status
    assert [trial.status for trial in found.trials] == [TrialStatus.SUCCEEDED] * TRIALS
    for trial in found.trials:
        assert trial.value == trial.parameters["value"], f"trial {trial.number} has {trial.value}"
    return f"{tuner}: {found.status.value}"


async def assessed_search(scene: Scene, name: str) -> str:
    """Runs a search with one of the assessors: each trial succeeds, or is stopped early."""
    assessor = scene.rng.choice(ASSESSORS)
    await _start(scene, name, search_command(assessor=assessor, tuner={"name": "tpe"}))
    found = await _ended_search(scene, name)
    assert found.status is SearchStatus.DONE, found.status
    assert len(found.trials) == TRIALS
    assert {trial.status for trial in found.trials} <= {TrialStatus.SUCCEEDED, TrialStatus.EARLY_STOPPED}
    return f"{assessor['name']}: {found.status.value}"


async def promotion(scene: Scene, name: str) -> str:
    """Runs a search whose trials continue the checkpoints of others."""
    tuner = {"name": "asha", "options": {"min_resource": 1, "max_resource": 4, "reduction_factor": 2}}
    space = {"rate": {"type": "loguniform", "low": 0.01, "high": 1.0}}
    body = search_command(tuner=tuner, space=space, task_type="line", direction="minimize")
    await _start(scene, name, body)
    found = await _ended_search(scene, name)
    assert found.status is SearchStatus.DONE, found.status
    assert [trial.status for trial in found.trials] == [TrialStatus.SUCCEEDED] * TRIALS
    return found.status.value


async def stopped_search(scene: Scene, name: str) -> str:
    """Runs a search that is stopped after a few trials."""
    await _start(scene, name, search_command(trials=1_000))

    def three_have_ended() -> bool:
        found = search_of(scene.stream(name))
        return found is not None and len(found.ends) >= 3

    await scene.until(f"three trials of {name}", three_have_ended)
    await scene.send(StopSearch(reason="enough"), name)
    found = await _ended_search(scene, name)
    assert found.status is SearchStatus.STOPPED, found.status
    return found.status.value


async def _start(scene: Scene, name: str, body: Json) -> None:
    await scene.send(StartSearch.model_validate(body), name)


async def _ended_search(scene: Scene, name: str) -> Search:
    found = search_of(await scene.until_over(name))
    assert found is not None
    scene.assert_ended_once(name)
    ends = [scene.history.ends[name, "trial", str(trial.number)] for trial in found.trials]
    assert ends == [1] * len(found.trials), f"ends of trials: {ends}"
    return found


async def batch(scene: Scene, name: str) -> str:
    """Runs tasks in groups, one of which fails as it is asked to, with a child search."""
    child = {"name": "tune", "kind": "search", "spec": search_command(trials=3)}
    fits = [{"task_type": "fit", "parameters": {"degree": degree}} for degree in (1, 3, 5)]
    fails = {"task_type": "noop", "parameters": {"fail": "train"}, "retry": {"lost": 100, "failed": 0}}
    program = {"task_type": "program", "parameters": {"value": 0.5}}
    groups = [
        {"name": "fits", "estimate_memory": 64_000_000, "tasks": fits, "children": [child]},
        {"name": "others", "tasks": [{"name": "fails", **fails}, program]},
    ]
    await scene.send(SubmitTasks.model_validate({"groups": groups, "retry": RETRY}), name)
    await scene.until_over(name)
    scene.assert_ended_once(name)
    root = scene.stream(name).root
    assert root.ended == [{"finished": 3, "done": 1}, {"finished": 1, "failed": 1}], root.ended
    return str(root.status.value)


def step(name: str, *needs: str, **fields: Any) -> Json:
    """Returns a step that runs a short task."""
    return {"name": name, "task_type": "curve", "parameters": {"value": 0.5}, "needs": list(needs), **fields}


async def pipeline_run(scene: Scene, name: str) -> str:
    """Runs a graph with a fan-out, a search, a gate and a pause; the gate is approved."""
    steps = [
        step("prepare"),
        step("fit", "prepare", each=[0.1, 0.2, 0.3], at_once=2, parameters={"value": "${item}"}),
        {"name": "tune", "kind": "search", "needs": ["prepare"], "spec": search_command(trials=3)},
        {"name": "release", "needs": ["fit", "tune"], "gate": {"message": "release it?"}},
        step("publish", "release", parameters={"value": "${prepare.result.value}"}),
    ]
    await _start_run(scene, name, steps)
    await scene.send(PausePipelineRun(), name)
    await scene.send(ResumePipelineRun(), name)
    await scene.until(f"the gate of {name}", lambda: "release" in _run(scene, name).open_gates)
    await scene.send(ApproveGate(step="release", actor="soak"), name)
    await scene.until_over(name)
    return _assert_succeeded(scene, name)


async def aborted_run(scene: Scene, name: str) -> str:
    """Runs a graph that is aborted while its first step waits or runs."""
    await _start_run(
        scene, name, [step("long", parameters={"value": 0.5, "seconds": 600}), step("b", "long")]
    )
    await scene.until(f"a task of {name}", lambda: bool(scene.stream(name).tasks))
    await pause(scene.rng.uniform(0.0, LONGEST_S))
    await scene.send(AbortPipelineRun(reason="enough"), name)
    await scene.until_over(name)
    scene.assert_ended_once(name)
    status = _run(scene, name).status
    assert status is RunStatus.ABORTED, status
    return status.value


async def _start_run(scene: Scene, name: str, steps: list[Json]) -> None:
    pipeline = {"name": name, "defaults": {"retry": RETRY}, "steps": steps}
    await scene.send(StartPipelineRun.model_validate({"pipeline": pipeline, "use_cache": False}), name)


def _run(scene: Scene, name: str) -> Run:
    found = run_of(scene.stream(name))
    assert found is not None
    return found


def _assert_succeeded(scene: Scene, name: str) -> str:
    run = _run(scene, name)
    assert run.status is RunStatus.SUCCEEDED, run.status
    states = {key: each.state.value for key, each in run.steps.items()}
    assert set(states.values()) == {"succeeded"}, states
    ends = {key: scene.history.ends[name, "step", key, "0"] for key in run.steps}
    assert set(ends.values()) == {1}, f"ends of steps: {ends}"
    scene.assert_ended_once(name)
    return run.status.value


async def define_nightly(scene: Scene) -> None:
    """Defines a pipeline with a schedule that begins a run each minute."""
    steps = [step("first"), step("second", "first")]
    spec = {"name": NIGHTLY, "defaults": {"retry": RETRY}, "steps": steps}
    await scene.send(DefinePipeline.model_validate({"pipeline": spec}), NIGHTLY)
    schedule = {"cron": "* * * * *", "overlap": "allow", "use_cache": False}
    await scene.send(CreateSchedule.model_validate({"name": "minutely", "schedule": schedule}), NIGHTLY)


async def retire_nightly(scene: Scene) -> None:
    """Ends the schedule; runs that it has begun continue."""
    await scene.send(DeleteSchedule(name="minutely"), NIGHTLY)


async def scheduled_run(scene: Scene, name: str) -> str:
    """Waits for a run that the schedule begins, and for its end."""
    run = f"{NIGHTLY}.{name.rpartition('-')[2]}"
    known = scene.history.streams.by_id
    await scene.until(f"{run} or the end", lambda: scene.ending.is_set() or run in known)
    if run not in known:
        return "none begins any more"
    await scene.until_over(run)
    status = _assert_succeeded(scene, run)
    scene.history.forget(run)
    forget_settled(scene.stream(NIGHTLY))
    return status


async def rounds(scene: Scene, name: str) -> str:
    """Runs two rounds of an incremental job, whose files and answers follow from its dataset alone."""
    job = TwoRounds(rounds_of(scene), name)
    await job.begin()
    for number in range(1, ROUNDS):
        await scene.until(f"round {number} of {name}", lambda n=number: _ended_rounds(job) >= n)  # type: ignore[misc]
        job.grow(number)
    await scene.until(f"the rounds of {name}", job.is_over)
    await job.assert_right()
    await job.delete()
    for each in (job.name, job.dataset):
        await scene.until_over(each)
        scene.assert_ended_once(each)
    shutil.rmtree(job.folder, ignore_errors=True)
    return "two rounds"


def _ended_rounds(job: TwoRounds) -> int:
    return 0 if job.state is None else job.state.ended_rounds


KINDS: Mapping[str, Experiment] = MappingProxyType(
    {
        "search": search,
        "assessed-search": assessed_search,
        "promotion": promotion,
        "stopped-search": stopped_search,
        "batch": batch,
        "pipeline-run": pipeline_run,
        "aborted-run": aborted_run,
        "scheduled-run": scheduled_run,
        "rounds": rounds,
        "summaries": summaries,
    }
)
"""By the name that the ids of its experiments begin with."""
