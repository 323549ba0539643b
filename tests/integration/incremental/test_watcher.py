"""The watcher of a dataset on a real worker: says growth and problems, and lets itself be stopped (I15)."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.incremental.harness import acknowledged, problem, said, seen_up_to, watch
from tests.integration.worker.given import SHARES, TaskType, shared_types, started, task_of
from tests.integration.worker.harness import WorkerHarness
from tests.unit.incremental.given import end_of
from trackside.contracts.fleet.fleet import CHECK_ARTIFACTS, COPY_MODEL, WATCH_DATASET, WRITE_MANIFEST
from trackside.contracts.tasks.tasks import AttemptEnd

LONG_S = 3_600.0
"""Looks at the file so seldom that only the file system can say that it has grown."""
SHOWING = "say(result={name: value for name, value in os.environ.items() if 'CREDENTIALS' in name})\n"


pytestmark = SHARES
worker = shared_types({"other": TaskType()})


def of_file(path: Path, **more: Any) -> dict[str, Any]:
    return {"url": str(path), "format": "txt", "look_s": LONG_S, **more}


def append(path: Path, octets: bytes) -> None:
    with path.open("ab") as file:
        file.write(octets)


async def test_every_worker_has_the_tasks_of_trackside_whatever_its_catalogue(harness: WorkerHarness) -> None:
    joined = await harness.joined()
    assert {CHECK_ARTIFACTS, WATCH_DATASET, WRITE_MANIFEST, COPY_MODEL} == set(joined.built_in)
    assert joined.task_types == ["other"]


async def test_a_watcher_says_how_far_its_dataset_has_grown_until_it_is_stopped(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    path = tmp_path / "data.txt"
    append(path, b"a\nb\n")
    command = await watch(harness, of_file(path))
    assert await seen_up_to(harness, command, 2) == end_of(b"a\nb\n", 2)
    assert (await acknowledged(harness)).ok
    append(path, b"c\nd")
    assert await seen_up_to(harness, command, 3) == end_of(b"a\nb\nc\n", 3)
    await harness.stop(command, device="host")
    assert (await harness.end("a")).end is AttemptEnd.CANCELLED


async def test_a_watcher_waits_for_a_dataset_that_is_not_there_yet(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    path = tmp_path / "data.txt"
    command = await watch(harness, of_file(path))
    assert "missing: there is no file" in await harness.output("a", bool)
    append(path, b"a\n")
    assert await seen_up_to(harness, command, 1) == end_of(b"a\n", 1)


async def test_a_watcher_that_is_told_of_other_bytes_says_what_is_there(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    path = tmp_path / "data.txt"
    append(path, b"a\nx\n")
    command = await watch(harness, of_file(path), end_of(b"a\nb\n", 2))
    found = await problem(harness, command)
    assert (found["code"], found["sha256"]) == ("changed", end_of(b"a\nx\n", 2).sha256)
    answer = await acknowledged(harness)
    assert (answer.ok, answer.detail["code"]) == (False, "changed")
    await harness.instruct(command, 2, device="host", end=end_of(b"a\n", 1).model_dump(mode="json"))
    assert await seen_up_to(harness, command, 2) == end_of(b"a\nx\n", 2)
    assert (await acknowledged(harness, 2)).ok


async def test_drift_comes_with_the_growth_that_it_is_of_and_what_hinders_it_is_said_once(
    harness: WorkerHarness,
    tmp_path: Path,
) -> None:
    """I13."""
    path = tmp_path / "data.txt"
    append(path, b"1\n" * 8)
    drift = {"detector": "ks", "reference": 4, "window": 4}
    command = await watch(harness, of_file(path, drift=drift))
    await seen_up_to(harness, command, 8)
    append(path, b"2\n" * 4)
    await seen_up_to(harness, command, 12)
    details = [each.detail for each in said(await harness.events_so_far("a"), command)]
    metrics = {each["end"]["lines"]: each["metrics"] for each in details if "end" in each}
    assert metrics == {8: {"drift": 0.0}, 12: {"drift": 1.0}}
    unknown = {**drift, "detector": "kss"}
    command = await watch(harness, of_file(path, drift=unknown), task_id="b")
    await seen_up_to(harness, command, 12)
    output = await harness.output("b", bool)
    assert "drift can't be computed: there is no drift detector 'kss'" in output


async def test_many_appends_are_reported_a_few_times_and_all_of_them(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    path = tmp_path / "data.txt"
    octets = b"".join(b"%d\n" % number for number in range(2_000))
    began_s = time.monotonic()
    command = await watch(harness, of_file(path))
    for line in octets.splitlines(keepends=True):
        append(path, line)
    assert await seen_up_to(harness, command, 2_000) == end_of(octets, 2_000)
    ready = said(await harness.events_so_far("a"), command)
    assert len(ready) <= 3 + (time.monotonic() - began_s) / 0.2


async def test_only_tasks_of_trackside_get_the_path_of_the_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I34: credentials by name; a process of users doesn't even get the path of their file."""
    credentials = tmp_path / "credentials.toml"
    credentials.write_text("")
    credentials.chmod(0o600)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACKSIDE_CREDENTIALS", "credentials.toml")  # relative to the folder of the worker
    async with started(tmp_path, task_of(tmp_path, SHOWING)) as harness:
        assert (await harness.ended("b", task_type="a")).result == {}
        command = await watch(harness, {"url": "s3://bucket/data.txt", "format": "txt", "credential": "moto"})
        found = await problem(harness, command)
        assert found["code"] == "credential_missing"
        assert f"add the table [moto] to {credentials}" in found["message"]
