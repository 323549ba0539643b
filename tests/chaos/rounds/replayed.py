"""What replay says of a job that has run: other triggers, a fork that goes on, bills of its models."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from tests.chaos.history import TIMEOUT_S
from tests.chaos.rounds.cluster import RoundsCluster
from tests.chaos.rounds.job import BATCH, ROUNDS, TRAIN_OF_BATCH, TwoRounds, sha256
from tests.integration import command_line
from trackside.aggregates.rounds.messages import DeleteIncrementalJob, RoundEnded
from trackside.aggregates.rounds.state import IncrementalJob, job_of

FORK = "forked"


async def assert_replayed(run: TwoRounds, output: pytest.CaptureFixture[str]) -> None:
    """Asks the command line about two rounds that were both deployed, and forks the job after the first."""
    asked = ["replay", "whatif", run.name, "--threshold", "0", "--threshold", "5", "--train-prob", "0.9"]
    found = await asyncio.to_thread(command_line.answer, output, *asked[:-2])
    recorded, same, none = found["scenarios"]
    for each in (recorded, same):
        assert (each["rounds"], each["deployed"], each["unknown"]) == (ROUNDS, ROUNDS, 0)
        assert each["live"][-1]["models"] == [f"{run.name}-model@{ROUNDS + 1}"]
    assert none["by_round"][0]["result"] == "keep" and none["deployed"] == 0
    found = await asyncio.to_thread(command_line.answer, output, *asked)
    assert [each["unknown_models"] for each in found["scenarios"]] == [0, ROUNDS, ROUNDS]
    text = await asyncio.to_thread(
        command_line.said, output, "models", "why", f"{run.name}-model@{ROUNDS + 1}", "--bill"
    )
    _assert_bill(run, json.loads(text))
    await _assert_fork(run, output)


def _assert_bill(run: TwoRounds, bill: dict[str, Any]) -> None:
    """Compares a bill of materials with the files of the rounds: each goes back to the first model."""
    versions = bill["versions"]
    assert [each["version"] for each in versions] == [3, 2, 1]
    for each, base in pairwise(versions):
        number = each["version"] - 1
        samples = each["round"]["samples"]
        for use, lines in (("train", TRAIN_OF_BATCH), ("eval", BATCH - TRAIN_OF_BATCH)):
            path = run.folder / "out" / "data" / use / str(number) / "data.txt"
            assert (samples[use]["url"], samples[use]["lines"]) == (str(path), lines)
            assert samples[use]["sha256"] == sha256(path.read_bytes())
            assert samples[use]["ranges"] == [[(number - 1) * BATCH, number * BATCH]]
        assert each["base"]["sha256"] == base["artifact"]["sha256"]
        assert each["code"]["task_type"] == "learn" and each["code"]["digest"]
        (decision,) = each["round"]["decisions"]
        assert decision["deploy"] and decision["deltas"]["rounds_delta"] == 1
        assert each["unknown"] == []


async def _assert_fork(run: TwoRounds, output: pytest.CaptureFixture[str]) -> None:
    """Forks a job as it was after its first round: its own first one makes the model of the second round."""
    cluster, history = run.cluster, run.cluster.history
    ended = next(
        each.record
        for each in history.records
        if isinstance(each.record.message, RoundEnded) and each.record.envelope.stream == run.name
    )
    at = ["--at", str(ended.offset), "--id", FORK]
    await asyncio.to_thread(command_line.said, output, "replay", "fork", run.name, *at)
    job = await history.until("the round of the fork", lambda: _with_a_round(cluster))
    assert run.state is not None
    ours, others = job.live, run.state.live
    assert (ours.version, ours.artifact.sha256) == (others.version, others.artifact.sha256), "the same bytes"
    written = run.folder / "out" / FORK / "data" / "train" / "1" / "data.txt"
    assert written.read_text().splitlines() == run.written("train", ROUNDS)
    await run.assert_right()
    await cluster.client.send(DeleteIncrementalJob(), FORK, TIMEOUT_S)
    await history.until("the end of all of the fork", lambda: not cluster.running_tasks(FORK))


def _with_a_round(cluster: RoundsCluster) -> IncrementalJob | None:
    """Returns the fork once its first round has ended."""
    stream = cluster.stream(FORK)
    job = None if stream is None else job_of(stream)
    return job if job is not None and job.ended_rounds == 1 and job.update is None else None
