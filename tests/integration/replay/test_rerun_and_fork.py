"""`replay whatif`, `rerun`, `compare` and `fork` as a user types them; services are real processes."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration.command_line import tried
from tests.integration.installed import installation, variables_of
from tests.stack import Servers
from trackside.aggregates.search.messages import (
    SearchExhausted,
    SearchStarted,
    TrialsImported,
    TrialSuggested,
)
from trackside.contracts.envelope.message import Record
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk.client import Client

SPEC = """
kind: search
task_type: noop
max_trials: 4
concurrency: 2
seed: 3
tuner: { name: random }
assessor: { name: threshold, options: { lower: -1 } }
space:
  value: { type: uniform, low: 0.0, high: 1.0 }
"""
Typed = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture(scope="module")
def settings(
    stack: Servers, module_tables: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StackSettings]:
    """Returns an installation that runs: dispatcher, scheduler, and a worker with two places."""
    with installation(stack, module_tables, tmp_path_factory.mktemp("services")) as settings:
        yield settings


@pytest.fixture
def typed(
    settings: StackSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """Returns a function that runs `trackside`: its exit code, stdout and stderr."""
    for name, value in variables_of(settings).items():
        monkeypatch.setenv(name, value)

    return partial(asyncio.to_thread, tried, capsys)


async def searched(typed: Typed, folder: Path, name: str) -> str:
    """Runs a search of 4 trials to its end and gives its id."""
    spec = folder / "search.yaml"
    spec.write_text(SPEC)
    code, _, err = await typed("submit", str(spec), "--id", name, "--wait")
    assert code == 0, err
    return name


async def events(settings: StackSettings, stream_id: str) -> list[Record]:
    async with Client(settings.kafka_bootstrap, settings.topic_prefix) as client:
        return [record async for record in client.events(stream_id)]


async def test_a_search_is_run_again_and_the_two_are_compared(
    settings: StackSettings, typed: Typed, tmp_path: Path
) -> None:
    old = await searched(typed, tmp_path, f"old-{secrets.token_hex(3)}")
    new = f"{old}-again"
    code, out, err = await typed("replay", "rerun", old, "--id", new, "--wait")
    assert code == 0, err
    assert "4 trials have the same parameters\n4 of them came as far in both" in out
    before, after = await events(settings, old), await events(settings, new)
    suggested = [
        [record.message.parameters for record in records if isinstance(record.message, TrialSuggested)]
        for records in (before, after)
    ]
    assert suggested[0] == suggested[1]
    (started,) = [record.message for record in after if isinstance(record.message, SearchStarted)]
    assert started.origin is not None
    assert (started.origin.kind, started.origin.stream) == ("rerun", old)
    assert started.origin.offset == before[-1].offset
    found = json.loads((await typed("replay", "compare", old, new, "--json"))[1])
    assert (found["same_parameters"], found["compared"], found["largest_difference"]) == (4, 4, 0.0)
    code, out, _ = await typed("replay", "compare", old, new)
    assert code == 0 and max(map(len, out.splitlines())) <= 100
    code, _, err = await typed("replay", "rerun", old, "--id", old)
    assert code == 1 and "replay_target_live" in err


async def test_a_fork_goes_on_from_the_past_and_a_search_that_is_over_with_a_higher_limit(
    settings: StackSettings, typed: Typed, tmp_path: Path
) -> None:
    old = await searched(typed, tmp_path, f"old-{secrets.token_hex(3)}")
    new = f"{old}-more"
    code, _, err = await typed("replay", "fork", old, "--id", new)
    assert code == 2 and "max_trials is 4: nothing is left" in err
    code, _, err = await typed("replay", "fork", old, "--set", "max_trials=7", "--id", new, "--wait")
    assert code == 0, err
    records = await events(settings, new)
    messages = [record.message for record in records]
    (imported,) = [message for message in messages if isinstance(message, TrialsImported)]
    of_old = [r.message for r in await events(settings, old) if isinstance(r.message, TrialSuggested)]
    assert {str(past.parameters["value"]) for past in imported.trials} == {
        str(message.parameters["value"]) for message in of_old
    }
    assert len(imported.trials) == len(of_old)
    suggested = [message for message in messages if isinstance(message, TrialSuggested)]
    at = records[messages.index(imported)].offset
    assert len(suggested) == 3 and all(message.seen > at for message in suggested)


@pytest.mark.long
async def test_a_fork_begins_with_the_trials_that_had_not_ended(
    settings: StackSettings, typed: Typed, tmp_path: Path
) -> None:
    old = await searched(typed, tmp_path, f"old-{secrets.token_hex(3)}")
    of_old = [r for r in await events(settings, old) if isinstance(r.message, TrialSuggested)]
    first = of_old[0].message
    assert isinstance(first, TrialSuggested)
    new = f"{old}-from-its-start"
    changes = 'tuner.name=batch,tuner.options.sets=[{"value":0.25}]'
    code, _, err = await typed(
        "replay", "fork", old, "--at", str(of_old[0].offset), "--set", changes, "--id", new, "--wait"
    )
    assert code == 0, err
    messages = [record.message for record in await events(settings, new)]
    suggested = [message for message in messages if isinstance(message, TrialSuggested)]
    assert [message.parameters for message in suggested] == [first.parameters, {"value": 0.25}]
    assert [message.source for message in suggested] == ["customized", "algorithm"]
    assert any(isinstance(message, SearchExhausted) for message in messages)


@pytest.mark.long
async def test_what_if_is_asked_of_a_recorded_search_and_writes_nothing(
    settings: StackSettings, typed: Typed, tmp_path: Path
) -> None:
    old = await searched(typed, tmp_path, f"old-{secrets.token_hex(3)}")
    before = await events(settings, old)
    html, png = tmp_path / "w.html", tmp_path / "w.png"
    asked = ("replay", "whatif", old, "--assessor", "median", "--assessor", "asha")
    code, out, err = await typed(*asked, "--plot", str(html), "--plot", str(png))
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 100
    assert html.read_text().startswith("<!DOCTYPE html>") and png.read_bytes().startswith(b"\x89PNG")
    found = json.loads((await typed(*asked, "--json"))[1])
    names = [(row["scenario"], row["mode"]) for row in found["scenarios"]]
    assert names == [
        ("as recorded", "freed"),
        ("median", "frozen"),
        ("median", "freed"),
        ("asha", "frozen"),
        ("asha", "freed"),
    ]
    fleets = ("replay", "whatif", old, "--workers", "1", "--workers", "4", "--concurrency", "4", "--json")
    one, four = json.loads((await typed(*fleets))[1])["scenarios"][1:]
    assert one["makespan_s"] > four["makespan_s"] > 0
    assert one["device_s"] == pytest.approx(four["device_s"])
    code, _, err = await typed("replay", "whatif", old, "--assessor", "medium")
    assert (code, err.split(": ")[1]) == (2, "bad_option")
    assert len(await events(settings, old)) == len(before)


PIPELINE = """
kind: pipeline
name: nightly
parameters:
  seconds: { type: number, default: 0.2 }
steps:
  - { name: prepare, task_type: noop, parameters: { seconds: "${pipeline.seconds}" } }
  - name: train
    task_type: noop
    needs: [prepare]
    each: [0.4, 0.6, 0.8]
    parameters: { seconds: "${item}" }
  - name: tune
    kind: search
    needs: [prepare]
    spec:
      task_type: noop
      max_trials: 2
      space: { value: { type: uniform, low: 0.0, high: 1.0 } }
  - name: report
    task_type: noop
    needs: [tune]
    parameters: { of: "${train.result}", fail: train }
"""


@pytest.mark.long
async def test_a_run_that_failed_is_explained_forked_run_again_and_simulated(
    settings: StackSettings, typed: Typed, tmp_path: Path
) -> None:
    """A whole life of a recorded run: why, fork with a changed step, rerun from an export, what-if."""
    spec, old = tmp_path / "pipeline.yaml", f"nightly-{secrets.token_hex(3)}"
    spec.write_text(PIPELINE)
    code, _, err = await typed("submit", str(spec), "--id", old, "--wait")
    assert code == 1 and "FAILED" in err, err

    code, out, err = await typed("replay", "why", old, "tune")
    assert code == 0 and f"{old}.tune: event @" in out and f"{old}: step tune" in out, err
    code, out, err = await typed("replay", "why", old, "report")
    assert code == 0 and "StepResolved" in out and "step train succeeded" in out, err
    code, out, err = await typed("replay", "why", f"{old}.tune", "0")
    assert code == 0 and "ChildRequested" in out, err

    code, _, err = await typed(
        "replay", "fork", old, "--set", "report.parameters.fail=null", "--id", f"{old}-fork", "--wait"
    )
    assert code == 0 and "3 of 4 steps taken over" in err, err
    started = [type(r.message).__name__ for r in await events(settings, f"{old}-fork")]
    assert (started.count("TaskSubmitted"), started.count("ChildRequested")) == (1, 0)
    code, _, err = await typed("replay", "fork", old, "--at", "prepare", "--id", f"{old}-early", "--wait")
    assert code == 1 and "1 of 4 steps taken over" in err, err

    exported = tmp_path / "run.jsonl"
    code, out, err = await typed("replay", "export", f"{old}-fork")
    exported.write_text(out)
    assert (await typed("replay", "import", str(exported), "--as", f"{old}-moved"))[0] == 0
    code, _, err = await typed("replay", "rerun", f"{old}-moved", "--id", f"{old}-again", "--wait")
    assert code == 0, err

    code, out, err = await typed(
        "replay", "whatif", f"{old}-again", "--workers", "1", "--workers", "4", "--json"
    )
    found = json.loads(out)
    one, four = found["scenarios"][1:]
    assert one["status"] == four["status"] == "SUCCEEDED"
    assert one["makespan_s"] > four["makespan_s"] > 0.8
    assert found["scenarios"][0]["makespan_s"] == pytest.approx(found["recorded"]["makespan_s"], rel=0.5)
    code, out, err = await typed("replay", "dry-run", str(spec), "--like", f"{old}-again", "--workers", "4")
    assert code == 0 and "critical path, 4 x 1 devices" in out, err
