"""The traces of searches, as a collector receives them from real service processes and the command line."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.installed import changes, processes, variables_of
from tests.otlp_receiver import OtlpReceiver, Received, otlp_receiver
from tests.polling import poll_until
from tests.service_processes import ServiceProcess, service_process
from tests.stack import Servers
from trackside.aggregates.search.messages import SearchEnded, TrialStatus
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.message import Record
from trackside.contracts.tasks import AttemptEnded, TaskStatus, TaskStatusChanged
from trackside.eventlog.settings import StackSettings

pytestmark = pytest.mark.timeout(600)

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

    @property
    def spans(self) -> list[Received]:
        return self.received.spans

    def trial(self, search: str, number: int) -> Received:
        """Returns the span of a trial."""
        identity = {"trackside.search": search, "trackside.trial": number}
        (found,) = [
            each
            for each in self.spans
            if each.name == "trial" and identity.items() <= each.attributes.items()
        ]
        return found

    def case(self, case: str) -> tuple[Received, list[Received]]:
        """Returns the span of the trial of a case, and the spans of its attempts in their order."""
        (number,) = [t.number for t in self.searches["cases"].trials if t.parameters["case"] == case]
        root = self.trial("cases", number)
        runs = [each for each in self.spans if each.trace == root.trace and each.name == "run task"]
        return root, sorted(runs, key=lambda each: each.start_s)

    def below(self, span: Received) -> list[Received]:
        return [each for each in self.spans if (each.trace, each.parent) == (span.trace, span.id)]


@pytest.fixture(scope="module")
def traced(
    stack: Servers, module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Traced]:
    """Runs two searches over all services and a standby dispatcher; all of them have ended."""
    folder = tmp_path_factory.mktemp("services")
    (folder / "climbing.py").write_text(TASKS)
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    (folder / "store").mkdir()
    (folder / "standby").mkdir()
    with otlp_receiver() as receiver:
        variables = {
            **VARIABLES,
            "TRACKSIDE_STORE": str(folder / "store"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        }
        catalogue = folder / "catalogue.yaml"
        with processes(stack, module_database, folder, catalogue, **variables) as (settings, running):
            standby = {"TRACKSIDE_INSTANCE": "standby", "TRACKSIDE_DISPATCHER_STANDBY": "true"}
            of_standby = {**variables_of(settings), **variables, **standby}
            with service_process("dispatcher", of_standby, folder / "standby"):
                running_all = run_all(settings, folder, variables, running["worker"], receiver)
                searches, records = asyncio.run(running_all)
        yield Traced(searches, records, receiver)


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

    for name, spec in SEARCHES.items():
        submit(settings, folder, variables, name, spec)
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


def submit(
    settings: StackSettings, folder: Path, variables: dict[str, str], name: str, spec: dict[str, Any]
) -> None:
    """Submits a search by the command line, in a process of its own."""
    fields = {"kind": "search", "task_type": "climbing", "concurrency": 1, "seed": 5, "retry": {"lost": 1}}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({**fields, **spec}))
    command = [str(Path(sys.executable).with_name("trackside")), "submit", f"{name}.yaml", "--id", name]
    environment = {**os.environ, **variables_of(settings), **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_span_has_its_parent_and_no_id_is_there_twice(traced: Traced) -> None:
    ids = Counter((each.trace, each.id) for each in traced.spans)
    assert ids.most_common(1)[0][1] == 1
    orphans = [each.name for each in traced.spans if each.parent and (each.trace, each.parent) not in ids]
    assert orphans == []
    assert {link for each in traced.spans for link in each.links} <= ids.keys()


def test_a_decision_is_exported_by_the_instance_whose_decision_the_log_has(traced: Traced) -> None:
    """Also a standby decides, where the log was silent for long enough; it exports no decision of others."""
    sources = {(record.partition, record.offset): record.envelope.source for record in traced.records}
    decisions = [
        each
        for each in traced.spans
        if each.kind == "producer"
        and each.attributes["messaging.destination.name"].endswith("trackside.events")
    ]
    for each in decisions:
        role, place = each.service.removeprefix("trackside."), "messaging.destination.partition.id"
        at = int(each.attributes[place]), each.attributes["messaging.kafka.offset"]
        assert sources[at] == f"trackside/{role}/{each.instance}", each.name
    assert {each.name for each in decisions} > {"suggest trial", "assign task", "end trial", "end search"}


@pytest.mark.parametrize("search", SEARCHES)
def test_the_root_of_a_search_is_the_command_of_its_user(traced: Traced, search: str) -> None:
    (whole,) = [
        each
        for each in traced.spans
        if each.name == "search" and each.attributes["trackside.search"] == search
    ]
    (root,) = [each for each in traced.spans if each.trace == whole.trace and not each.parent]
    assert (root.service, root.name, root.kind) == ("trackside.cli", "submit command", "internal")
    (send,) = traced.below(root)
    assert (send.service, send.name, send.kind) == (
        "trackside.cli",
        f"send {send.attributes['messaging.destination.name']}",
        "producer",
    )
    (receive,) = traced.below(send)
    assert (receive.name, receive.kind) == ("receive command", "consumer")
    place = "messaging.destination.name", "messaging.destination.partition.id", "messaging.kafka.offset"
    assert [receive.attributes[name] for name in place] == [send.attributes[name] for name in place]
    assert send.attributes["messaging.operation.type"] == "send"
    assert receive.attributes["messaging.operation.type"] == "process"
    assert whole.attributes["trackside.trials"] == SEARCHES[search]["max_trials"]
    assert not whole.is_error
    names = {each.name for each in traced.spans if each.trace == whole.trace}
    assert {"decide command", "ask tuner", "suggest trial", "end search"} <= names


def test_each_trial_is_one_trace_linked_to_its_search_and_to_the_trial_that_it_continues(
    traced: Traced,
) -> None:
    for search in traced.searches.values():
        (receive,) = [
            each
            for each in traced.spans
            if each.name == "receive command" and each.attributes["trackside.stream"] == search.search_id
        ]
        for trial in search.trials:
            root = traced.trial(search.search_id, trial.number)
            assert not root.parent
            links = [(receive.trace, receive.id)]
            if trial.from_trial is not None:
                before = traced.trial(search.search_id, trial.from_trial)
                links.append((before.trace, before.id))
            assert root.links == links
            assert root.attributes["trackside.value"] if trial.value is not None else True
    assert any(trial.from_trial is not None for trial in traced.searches["climbs"].trials)
    roots = [each for each in traced.spans if each.name == "trial"]
    assert len({each.trace for each in roots}) == len(roots)


def test_a_record_of_a_trial_carries_its_trace(traced: Traced) -> None:
    for record in traced.records:
        task_id = getattr(record.message, "task_id", "")
        if task_id:
            search, _, number = task_id.rpartition(".")
            trace = traced.trial(search, int(number)).trace
            assert record.envelope.traceparent.split("-")[1] == trace, record.message


def test_the_spans_of_a_trial_say_which_task_it_is_and_where_it_ran(traced: Traced) -> None:
    root, (run,) = traced.case("succeeds")
    identity = {
        "trackside.search": "cases",
        "trackside.trial": root.attributes["trackside.trial"],
        "trackside.task": root.attributes["trackside.task"],
        "trackside.attempt": 1,
        "trackside.worker": "w1",
        "trackside.device": run.attributes["trackside.device"],
    }
    ran = [each for each in traced.spans if each.trace == root.trace]
    for each in ran:
        assert identity.items() <= each.attributes.items(), each.name
    assert Counter(each.name for each in ran) == Counter(
        [
            *("trial", "assign task", "wait in queue", "command device", "run task"),
            *("start process", "load", "train", "report", "end trial"),
        ]
    )
    kinds = {each.name: each.kind for each in ran}
    assert {name for name, kind in kinds.items() if kind == "producer"} == {
        "assign task",
        "command device",
        "end trial",
    }
    assert [name for name, kind in kinds.items() if kind == "consumer"] == ["run task"]
    assert run.attributes["messaging.destination.name"].endswith(f".w1.{identity['trackside.device']}")
    assert run.attributes["cicd.pipeline.task.run.result"] == "success"


def test_the_times_of_a_trial_add_up(traced: Traced) -> None:
    root, (run,) = traced.case("succeeds")
    parts = {each.name: each for each in traced.spans if each.trace == root.trace}
    phases = [parts[name] for name in ("start process", "load", "train", "report")]
    assert [each.parent for each in phases] == [run.id] * 4
    assert phases[0].start_s == run.start_s and phases[-1].end_s == run.end_s
    for before, after in pairwise(phases):
        assert before.start_s <= before.end_s <= after.start_s + 0.001
    assert parts["load"].end_s - parts["load"].start_s == pytest.approx(0.05, abs=0.04)
    assert parts["train"].end_s - parts["train"].start_s >= 0.06
    wait, ms = parts["wait in queue"], 0.002  # the log's times are whole ms
    assert root.start_s <= wait.start_s <= wait.end_s <= run.start_s + ms
    assert run.end_s <= root.end_s + ms or run.end_s - root.end_s < 0.5  # its end is acknowledged in between
    assert wait.end_s - wait.start_s + run.end_s - run.start_s <= root.end_s - root.start_s + 0.5


def test_a_failed_trial_is_found_by_the_status_of_its_spans_alone(traced: Traced) -> None:
    failed = {each.trace for each in traced.spans if each.name == "trial" and each.is_error}
    expected = {
        traced.trial(search.search_id, trial.number).trace
        for search in traced.searches.values()
        for trial in search.trials
        if trial.status is TrialStatus.FAILED
    }
    assert failed == expected and len(failed) == 2
    root, (run,) = traced.case("fails")
    (train,) = [each for each in traced.below(run) if each.name == "train"]
    for each in (root, run, train):
        assert each.is_error
        assert each.span.status.message == "TRAIN: ValueError: there is no such seed"
        assert each.attributes["error.type"] == "ValueError"
        (event,) = each.span.events
        assert event.name == "exception"
    assert "raise ValueError" in str(run.span.events)


def test_a_trial_out_of_memory_is_an_error_and_each_of_its_trainings_too(traced: Traced) -> None:
    root, runs = traced.case("out of memory")
    assert root.is_error and all(each.is_error for each in runs)
    last = runs[-1]
    assert last.attributes["error.type"] == last.attributes["trackside.end"] == "oom_host"
    assert "MemoryError" in root.span.status.message
    trainings = [each for each in traced.below(last) if each.name == "train"]
    assert trainings and all(each.is_error for each in trainings)


def test_an_attempt_of_a_killed_worker_is_an_error_below_a_trial_that_has_succeeded(traced: Traced) -> None:
    root, (lost, second) = traced.case("lost")
    assert not root.is_error and root.attributes["trackside.attempts"] == 2
    assert (lost.service, lost.kind, lost.is_error) == ("trackside.scheduler", "internal", True)
    assert lost.span.status.message == "its worker was lost"
    assert lost.attributes["trackside.attempt"] == 1
    assert lost.end_s - lost.start_s >= 2, "from its acceptance to the end of the lease"
    assert (second.service, second.kind, second.is_error) == ("trackside.worker", "consumer", False)
    (found,) = [each for each in traced.spans if (each.trace, each.name) == (root.trace, "recover task")]
    assert (found.service, found.is_error) == ("trackside.worker", True)
    assert found.attributes["trackside.recovered"] and found.attributes["trackside.attempt"] == 1


def test_lines_of_the_log_are_received_with_the_trace_that_they_belong_to(traced: Traced) -> None:
    lines = traced.received.lines
    started = [each for each in lines if each.text == "service started"]
    assert {each.service for each in started} == {
        f"trackside.{s}" for s in ("dispatcher", "scheduler", "worker")
    }
    assert all(each.attributes["service"] in each.service for each in started)
    (lost,) = [each for each in lines if each.text == "worker lost"]
    assert lost.line.severity_text == "WARNING" and lost.attributes["worker"] == "w1"
