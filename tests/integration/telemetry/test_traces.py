"""The traces of searches, as a collector receives them from real service processes and the command line."""

from collections import Counter
from itertools import pairwise

import pytest

from tests.integration.telemetry.traced import PROGRAMS, SEARCHES, Traced
from trackside.aggregates.search.messages import TrialStatus

pytestmark = pytest.mark.timeout(600)


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
    (whole,) = traced.named("search", search=search)
    (root,) = [each for each in traced.spans if each.trace == whole.trace and not each.parent]
    if search in PROGRAMS:
        send, service = root, "trackside.sdk"
    else:
        (send,), service = traced.below(root), "trackside.cli"
        assert (root.service, root.name, root.kind) == (service, "submit command", "internal")
    topic = send.attributes["messaging.destination.name"]
    assert (send.service, send.name, send.kind) == (service, f"send {topic}", "producer")
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
        (receive,) = traced.named("receive command", stream=search.search_id)
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
    roots = traced.named("trial")
    assert len({each.trace for each in roots}) == len(roots)


def test_the_records_and_rows_of_a_trial_and_its_task_have_the_id_of_its_trace(traced: Traced) -> None:
    for record in traced.records:
        search, _, number = getattr(record.message, "task_id", "").rpartition(".")
        if search in traced.searches:
            trace = traced.trial(search, int(number)).trace
            assert record.envelope.traceparent.split("-")[1] == trace, record.message
    found = Counter(row["search_id"] for row in traced.rows["trials"])
    assert found == {"climbs": 5, "cases": 4, "unsampled": 1}
    of_trials = {(row["search_id"], row["trial"]): row["trace_id"] for row in traced.rows["trials"]}
    for task in traced.rows["tasks"]:
        assert of_trials[task["stream_id"], task["trial"]] == task["trace_id"]
    for row in traced.rows["trials"]:
        if row["search_id"] != "unsampled":
            assert traced.trial(row["search_id"], row["trial"]).trace == row["trace_id"]
    searches = {row["search_id"]: row["trace_id"] for row in traced.rows["searches"]}
    for whole in traced.named("search"):
        assert searches[whole.attributes["trackside.search"]] == whole.trace


def test_no_process_exports_a_span_of_a_search_that_is_not_sampled(traced: Traced) -> None:
    """Its user has decided that; the ids are in the log and in the rows all the same."""
    rows = [row for each in traced.rows.values() for row in each if "unsampled" in row.values()]
    ids = [row["trace_id"] for row in rows]
    assert len(ids) == 3 and all(ids)
    assert [each.name for each in traced.spans if each.trace in ids] == []


def test_the_spans_of_a_trial_say_which_task_it_is_and_where_it_ran_and_their_times_add_up(
    traced: Traced,
) -> None:
    root, (run,) = traced.case("succeeds")
    identity = {"trackside.search": "cases", "trackside.attempt": 1, "trackside.worker": "w1"}
    identity |= {f"trackside.{name}": root.attributes[f"trackside.{name}"] for name in ("trial", "task")}
    device = run.attributes["trackside.device"]
    ran = [each for each in traced.spans if each.trace == root.trace]
    for each in ran:
        assert identity.items() <= each.attributes.items(), each.name
        assert each.attributes["trackside.device"] == device
    parts, produced = {each.name: each for each in ran}, {"assign task", "command device", "end trial"}
    assert len(ran) == len(parts) == 10
    inner = {"trial", "wait in queue", "start process", "load", "train", "report"}
    assert parts.keys() == produced | inner | {"run task"}
    assert {each.name for each in ran if each.kind == "producer"} == produced
    assert [each.name for each in ran if each.kind == "consumer"] == ["run task"]
    assert run.attributes["messaging.destination.name"].endswith(f".w1.{device}")
    assert run.attributes["cicd.pipeline.task.run.result"] == "success"
    phases = [parts[name] for name in ("start process", "load", "train", "report")]
    assert [each.parent for each in phases] == [run.id] * 4
    assert phases[0].start_s == run.start_s and phases[-1].end_s == run.end_s
    for before, after in pairwise(phases):
        assert before.start_s <= before.end_s <= after.start_s + 0.001
    # On a busy machine the worker may read of the begin and the end of a phase at once, but never too early.
    assert parts["load"].end_s - run.start_s >= 0.05
    assert parts["train"].end_s - run.start_s >= 0.05 + 0.06
    wait, ms = parts["wait in queue"], 0.002  # the log's times are whole ms
    assert root.start_s <= wait.start_s <= wait.end_s <= run.start_s + ms
    assert run.end_s <= root.end_s + ms or run.end_s - root.end_s < 0.5  # its end is acknowledged in between
    assert wait.end_s - wait.start_s + run.end_s - run.start_s <= root.end_s - root.start_s + 0.5


def test_a_failed_trial_is_found_by_the_status_of_its_spans_alone_also_one_out_of_memory(
    traced: Traced,
) -> None:
    failed = {each.trace for each in traced.named("trial") if each.is_error}
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
    assert lost.end_s > lost.start_s, "from its acceptance to the end of the lease"
    assert (second.service, second.kind, second.is_error) == ("trackside.worker", "consumer", False)
    (found,) = [each for each in traced.named("recover task") if each.trace == root.trace]
    assert (found.service, found.is_error) == ("trackside.worker", True)
    assert found.attributes["trackside.attempt"] == 1 and found.attributes["trackside.end"] == "lost"


def test_lines_of_the_log_are_received_with_the_trace_that_they_belong_to(traced: Traced) -> None:
    lines = traced.received.lines
    started = [each for each in lines if each.text == "service started"]
    assert {each.service for each in started} == {
        f"trackside.{s}" for s in ("dispatcher", "scheduler", "worker")
    }
    assert all(each.attributes["service"] in each.service for each in started)
    (lost,) = [each for each in lines if each.text == "worker lost"]
    assert lost.line.severity_text == "WARNING" and lost.attributes["worker"] == "w1"
