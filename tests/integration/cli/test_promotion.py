"""Searches whose trials continue checkpoints of others, with real trainings; services are real processes."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from tests.e2e.recorded_page import BLOCK
from tests.house.source import ROOT
from tests.integration.cli.conftest import Typed
from tests.integration.installed import changes, processes, variables_of
from tests.polling import poll_until
from tests.stack import Servers
from trackside.aggregates.search.messages import SearchEnded, StartSearch, TrialStatus
from trackside.aggregates.search.state import Search, search_of
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.artifacts import CheckpointReference, TaskResumed
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk.client import Client

pytestmark = pytest.mark.timeout(300)

TASKS = """
import itertools, os, threading
from trackside.sdk import Task, trial

class Climbing(Task):
    def train(self, device):
        given, last = trial.parameters(), trial.last_checkpoint()
        trained = [] if last is None else last.state["trained"]
        limit = trial.step_limit() or given["epochs"]
        for step in self.steps(0 if last is None else last.step, limit):
            trained.append([trial.task_id(), step])
            trial.report(given["rate"] * (1 - 0.5 ** (step + 1)), step)
            if trial.should_checkpoint() or step + 1 == given.get("epochs") or step == given.get("dies_at"):
                trial.checkpoint(step + 1, {"trained": trained})
            if step == given.get("dies_at") and trial.attempt() == 1:
                os.kill(os.getpid(), 9)

    def steps(self, first, limit):
        return range(first, limit)

class Endless(Climbing):
    def steps(self, first, limit):
        for step in itertools.count(first):
            yield step
            threading.Event().wait(0.02)  # how long a step takes
"""
EXAMPLE = ROOT / "deploy" / "examples" / "promotion"
CATALOGUE = f"""
tasks:
  climbing: {{entry: "climbing:Climbing", path: .}}
  endless: {{entry: "climbing:Endless", path: .}}
  line: {{entry: "train:Line", path: {EXAMPLE}}}
"""
RATE: dict[str, Any] = {"type": "uniform", "low": 0.1, "high": 1.0}
RUNGS = {"max_resource": 4, "reduction_factor": 2}
TURNS = {"interval": 2, "population_size": 3, "quantile": 0.34}
SEARCHES: dict[str, dict[str, Any]] = {
    "asha": {"tuner": {"name": "asha", "options": {**RUNGS, "mode": "promote"}}, "max_trials": 10},
    "bohb": {
        "tuner": {"name": "bohb", "options": {**RUNGS, "budget_parameter": "epochs"}},
        "max_trials": 9,
        "space": {"rate": RATE, "dies_at": {"type": "constant", "value": 1}},
        "retry": {"failed": 1},
    },
    "pbt": {"tuner": {"name": "pbt", "options": TURNS}, "max_trials": 9, "task_type": "endless"},
}


@dataclass(frozen=True)
class Recorded:
    """A search that has ended, and its events."""

    search: Search
    records: Sequence[Record]

    def resumed(self, trial: int) -> list[TaskResumed]:
        """Returns what the attempts of a trial have continued."""
        found = [record.message for record in self.records if isinstance(record.message, TaskResumed)]
        return [each for each in found if each.task_id == self.search.task_of(trial)]


@dataclass(frozen=True)
class Installation:
    """The services, the folder of their store, and the searches that they ran, by tuner."""

    settings: StackSettings
    store: Path
    searches: Mapping[str, Recorded]

    def trained(self, checkpoint: CheckpointReference, target: Path) -> list[tuple[str, int]]:
        """Returns which task has trained which step before a checkpoint was saved."""
        open_store(StoreSettings(store=str(self.store))).get(checkpoint, target)
        return [(task, step) for task, step in json.loads(target.read_text())["trained"]]


@pytest.fixture(scope="module")
def installed(
    stack: Servers, module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("services")
    (folder / "climbing.py").write_text(TASKS)
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    store = folder / "store"
    store.mkdir()
    catalogue = folder / "catalogue.yaml"
    variables = {"TRACKSIDE_STORE": str(store), "TRACKSIDE_WORKER_PRELOAD": "json"}
    with processes(stack, module_database, folder, catalogue, **variables) as (settings, _):
        searches = asyncio.run(run_all(settings))
        yield Installation(settings, store, searches)


async def run_all(settings: StackSettings) -> dict[str, Recorded]:
    """Runs all searches at once."""
    fields = {"task_type": "climbing", "space": {"rate": RATE}, "seed": 7, "concurrency": 2}
    wanted = {name: {**fields, **more} for name, more in SEARCHES.items()}
    wanted["line"] = yaml.safe_load((EXAMPLE / "search.yaml").read_text())
    del wanted["line"]["kind"]

    async def run(client: Client, name: str) -> Recorded:
        await client.publish(StartSearch.model_validate(wanted[name]), name)
        records = []
        async for record, stream in changes(settings, name, within_s=240):
            records.append(record)
            if isinstance(record.message, SearchEnded):
                search = search_of(stream)
                assert search is not None
                return Recorded(search, records)
        raise AssertionError("the stream of a search never ends")

    async with Client(settings.kafka_bootstrap, settings.topic_prefix) as client:
        found = await asyncio.gather(*(run(client, name) for name in wanted))
    return dict(zip(wanted, found, strict=True))


def lineage(search: Search, number: int) -> list[int]:
    """Returns a trial and those that it continues, the first one first."""
    before = search.trials[number].from_trial
    return [number] if before is None else [*lineage(search, before), number]


@pytest.mark.parametrize("name", SEARCHES)
def test_a_trial_begins_with_the_last_step_of_the_one_that_it_continues_and_trains_none_twice(
    installed: Installation, name: str, tmp_path: Path
) -> None:
    search = installed.searches[name].search
    assert {trial.status for trial in search.trials} == {TrialStatus.SUCCEEDED}
    assert any(trial.from_trial is not None for trial in search.trials)
    for trial in search.trials:
        resumed = installed.searches[name].resumed(trial.number)
        if trial.from_trial is not None:
            before = search.trials[trial.from_trial]
            assert (resumed[0].checkpoint, resumed[0].step) == (before.checkpoint, before.step_limit)
        elif name == "bohb" and trial.step_limit != 1:
            assert [each.step for each in resumed] == [2]  # its first attempt died after step 1
        else:
            assert resumed == []
        limit, value = trial.step_limit, trial.parameters["rate"]
        assert limit is not None and trial.checkpoint is not None
        assert trial.value == pytest.approx(value * (1 - 0.5**limit))
        expected, first = [], 0
        for each in lineage(search, trial.number):
            ends = search.trials[each].step_limit or 0
            expected += [(search.task_of(each), step) for step in range(first, ends)]
            first = ends
        assert installed.trained(trial.checkpoint, tmp_path / f"{trial.number}") == expected


@pytest.fixture(autouse=True)
def where(installed: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables_of(installed.settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TRACKSIDE_STORE", str(installed.store))


async def shows(typed: Typed, name: str, search: Search) -> bool:
    """Returns whether the rows of a search's lineage, which follow the log, are those of its trials."""
    expected = []
    for trial in search.trials:
        line = lineage(search, trial.number)
        from_step = None if trial.from_checkpoint is None else trial.from_checkpoint.step
        expected.append((trial.number, trial.from_trial, from_step, line[0], len(line), trial.value))
    rows = json.loads(await typed("show", name, "--lineage", "--json"))
    fields = ("trial", "from_trial", "from_step", "first_trial", "turn", "value")
    return [tuple(row[field] for field in fields) for row in rows] == expected


async def test_lineage_and_causes_lead_from_a_trial_to_those_that_it_continues(
    installed: Installation, typed: Typed
) -> None:
    for name, recorded in installed.searches.items():
        await poll_until(partial(shows, typed, name, recorded.search))
    newest = max(installed.searches["pbt"].search.trials, key=lambda trial: trial.step_limit or 0)
    why = json.loads(await typed("replay", "why", "pbt", str(newest.number), "--json"))
    assert newest.from_trial is not None
    ended_at = installed.searches["pbt"].search.trials[newest.from_trial].ended_at
    assert ended_at in {step["offset"] for step in why["causes"]}


async def test_the_example_of_the_page_on_tuners_runs_as_the_page_shows_it(
    installed: Installation, typed: Typed
) -> None:
    page = (ROOT / "docs" / "tuners.md").read_text("utf-8").partition("## Tuners that promote")[2]
    spec, loop, session = (block["text"] for block in islice(BLOCK.finditer(page), 3))
    assert spec in (EXAMPLE / "search.yaml").read_text()
    assert indent(loop, " " * 8) in (EXAMPLE / "train.py").read_text()
    command, *shown = session.splitlines()
    assert command == "$ trackside show line --lineage"
    await poll_until(partial(shows, typed, "line", installed.searches["line"].search))
    assert (await typed("show", "line", "--lineage")).splitlines() == shown


async def test_a_search_that_promotes_is_run_again_and_nothing_is_wrong_with_the_log_and_its_artifacts(
    typed: Typed, installed: Installation
) -> None:
    await typed("replay", "rerun", "asha", "--id", "again", "--wait")
    found = json.loads(await typed("replay", "compare", "asha", "again", "--json"))
    recorded = installed.searches["asha"].search
    assert (found["same_parameters"], found["compared"]) == (len(recorded.trials), len(recorded.trials))
    assert found["largest_difference"] == 0
    await poll_until(partial(shows, typed, "again", recorded))
    assert "nothing found" in await typed("verify-log", "--store")
