"""Searches that have run with an OTLP receiver: their events, spans and rows."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.installed import changes, variables_of
from tests.otlp_receiver import OtlpReceiver, Received
from tests.polling import poll_until
from tests.service_processes import ServiceProcess
from trackside.aggregates.search.messages import SearchEnded
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import AttemptEnded, TaskStatus, TaskStatusChanged
from trackside.eventlog.settings.settings import StackSettings
from trackside.projections.reading.reads import open_read_models

TASKS = """
import threading
from trackside.sdk import Task, trial

class Climbing(Task):
    def load(self):
        threading.Event().wait(0.05)

    def train(self, device):
        given, last = trial.parameters(), trial.last_checkpoint()
        case = given.get("case")
        if case == "fails":
            raise ValueError("there is no such seed")
        if case == "out of memory":
            raise MemoryError("16 PiB")
        if case == "lost" and trial.attempt() == 1:
            threading.Event().wait()
        for step in range(0 if last is None else last.step, trial.step_limit() or 3):
            threading.Event().wait(0.02)
            trial.report(given.get("rate", 1.0), step)
            trial.checkpoint(step + 1, {})
"""
CATALOGUE = 'tasks: {climbing: {entry: "climbing:Climbing", path: .}}'
CASES = ["succeeds", "fails", "out of memory", "lost"]
SEARCHES: dict[str, dict[str, Any]] = {
    "climbs": {
        "tuner": {"name": "asha", "options": {"mode": "promote", "max_resource": 2, "reduction_factor": 2}},
        "space": {"rate": {"type": "uniform", "low": 0.1, "high": 1.0}},
        "max_trials": 5,
    },
    "cases": {
        "tuner": {"name": "grid"},
        "space": {"case": {"type": "choice", "values": CASES}},
        "max_trials": 4,
    },
}
PROGRAMS = ("cases",)
"""Searches that a program of a user submits by the SDK, which ends as soon as it has its answer."""
PROGRAM = """
import json, sys
from trackside.sdk import Search

fields = json.loads(sys.argv[1])
del fields["kind"]
Search(fields.pop("task_type"), fields.pop("space"), **fields).submit()
"""
UNSAMPLED = {
    "tuner": {"name": "grid"},
    "space": {"case": {"type": "choice", "values": CASES[:1]}},
    "max_trials": 1,
}
VARIABLES = {
    "TRACKSIDE_SCHEDULER_LEASE_S": "3",
    "TRACKSIDE_WORKER_PRELOAD": "json",
    "OTEL_LOGS_EXPORTER": "otlp",
}


@dataclass(frozen=True)
class Traced:
    """Searches that have ended, by their ids, their events, and what was received of them."""

    searches: dict[str, Search]
    records: Sequence[Record]
    received: OtlpReceiver
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    """Rows of all searches, `searches`, and of their trials and tasks, `trials` and `tasks`."""

    @property
    def spans(self) -> list[Received]:
        return self.received.spans

    def trial(self, search: str, number: int) -> Received:
        """Returns the span of a trial."""
        (found,) = self.named("trial", search=search, trial=number)
        return found

    def named(self, name: str, **known: object) -> list[Received]:
        """Returns the spans of a name with these attributes of Trackside."""
        wanted = {f"trackside.{attribute}": value for attribute, value in known.items()}
        return [
            each for each in self.spans if each.name == name and wanted.items() <= each.attributes.items()
        ]

    def case(self, case: str) -> tuple[Received, list[Received]]:
        """Returns the span of the trial of a case, and the spans of its attempts in their order."""
        (number,) = [t.number for t in self.searches["cases"].trials if t.parameters["case"] == case]
        root = self.trial("cases", number)
        runs = [each for each in self.spans if each.trace == root.trace and each.name == "run task"]
        return root, sorted(runs, key=lambda each: each.start_s)

    def below(self, span: Received) -> list[Received]:
        return [each for each in self.spans if (each.trace, each.parent) == (span.trace, span.id)]


async def run_all(
    settings: StackSettings,
    folder: Path,
    variables: dict[str, str],
    worker: ServiceProcess,
    receiver: OtlpReceiver,
) -> tuple[dict[str, Search], list[Record]]:
    """Submits the searches one after another, and kills the worker in the training that waits for that.

    Before that the worker has exported the attempts that have ended: what it still holds dies with it.
    """
    searches, records = {}, []
    ended: set[str] = set()

    async def are_exported() -> bool:
        runs = [each for each in receiver.spans if each.name == "run task"]
        return ended <= {each.attributes["trackside.task"] for each in runs}

    for name, spec in {**SEARCHES, "unsampled": UNSAMPLED}.items():
        sampler = {"OTEL_TRACES_SAMPLER": "always_off"} if name == "unsampled" else {}
        submit(settings, folder, variables | sampler, name, spec)
        async with aclosing(changes(settings, name, within_s=400)) as followed:
            async for record, stream in followed:
                records.append(record)
                message, search = record.message, search_of(stream)
                if isinstance(message, TaskStatusChanged) and message.status is TaskStatus.TRAINING:
                    assert search is not None
                    case = search.trials[int(message.task_id.rpartition(".")[2])].parameters.get("case")
                    if case == "lost" and message.attempt == 1:
                        await poll_until(are_exported)
                        await asyncio.to_thread(worker.kill)
                elif isinstance(message, AttemptEnded):
                    ended.add(message.task_id)
                    if record.envelope.role == "scheduler":
                        worker.start()
                elif isinstance(message, SearchEnded):
                    assert search is not None
                    searches[name] = search
    return searches, records


async def rows_of(dsn: str, searches: Sequence[str]) -> dict[str, list[Mapping[str, Any]]]:
    """Returns the rows of searches, their trials and their tasks, once all of them have ended."""
    async with open_read_models(dsn) as models:
        found: dict[str, list[Mapping[str, Any]]] = {}

        async def are_over() -> bool:
            queries = {"searches": "search.one", "trials": "search.trials", "tasks": "tasks"}
            for name, query in queries.items():
                found[name] = [row for search in searches for row in await models.rows(query, search)]
            ended = {row["task_id"] for row in found["tasks"] if row["ended_at"]}
            return (
                len(found["searches"]) == len(searches)
                and all(row["ended_at"] for row in found["searches"])
                and {row["task_id"] for row in found["trials"]} == ended
            )

        await poll_until(are_over)
        return found


def submit(
    settings: StackSettings, folder: Path, variables: dict[str, str], name: str, spec: dict[str, Any]
) -> None:
    """Submits a search in a process of its own: by the command line, or by a program if it is in PROGRAMS."""
    fields = {"kind": "search", "task_type": "climbing", "concurrency": 1, "seed": 5, "retry": {"lost": 1}}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({**fields, **spec}))
    command = [str(Path(sys.executable).with_name("trackside")), "submit", f"{name}.yaml", "--id", name]
    if name in PROGRAMS:
        command = [sys.executable, "-c", PROGRAM, json.dumps({**fields, **spec, "search_id": name})]
    environment = {**os.environ, **variables_of(settings), **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
