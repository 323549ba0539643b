"""Steps that need not run, since an earlier one was the same: P34, and what its traps would do."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.aggregates.given import of_kind
from tests.unit.aggregates.run.given import CAPABILITIES, DIGEST, step
from tests.unit.aggregates.run.several_runs import CacheLog, after_a_run, cached, checks, hit, miss
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run import messages
from trackside.aggregates.run.step_messages import StepCacheMissed, StepResolved
from trackside.aggregates.run.steps.cache import key_of, parts_of, short_parts
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import ArtifactsForgotten
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested, TaskSubmitted
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.stream_index import StreamIndex
from trackside.domain.folding.streams import dump, load


def test_a_step_that_was_the_same_in_an_earlier_run_is_cached_and_the_run_succeeds() -> None:
    """P34: cached counts as success (there `is_successful()` was false)."""
    log = after_a_run()
    events = log.start("r2", cached(), step("b", "a", parameters={"n": "${a.result.n}", "from": "${a.id}"}))
    found = hit(events)
    assert (found.found.stream, found.found.step, found.found.task) == ("r1", "a", "r1.a")
    assert (found.found.offset, found.result) == (log.of("r1").steps["a"].outputs[0].at, {"n": 3})
    assert log.steps("r2") == {"a": "cached", "b": "queued"}
    (resolved,) = of_kind(StepResolved, events)
    assert resolved.values == {"${a.result.n}": 3, "${a.id}": "r1.a"}
    (ended,) = of_kind(messages.RunEnded, log.end("r2.b"))
    assert ended.status is messages.RunStatus.SUCCEEDED


def test_the_first_run_misses_and_shows_the_parts_of_its_key() -> None:
    log = CacheLog()
    found = miss(log.start("r1", cached()))
    parts = {"task_type": "noop", "catalogue": ["d1"], "parameters": {"lr": 0.1}, "inputs": {}}
    assert (found.parts, found.key, found.nearest, found.reason) == (parts, key_of(parts), None, "")


def test_a_miss_names_the_nearest_earlier_step_and_what_differs() -> None:
    log = CacheLog()
    log.start("r1", cached(parameters={"lr": 0.1, "depth": 2}))
    log.end("r1.a")
    log.start("r2", cached(parameters={"lr": 0.5, "depth": 3}))
    log.end("r2.a")
    found = miss(log.start("r3", cached(parameters={"lr": 0.1, "depth": 4})))
    assert found.nearest is not None
    assert (found.nearest.stream, found.differs) == ("r1", ["parameters.depth"])


def test_another_catalogue_entry_is_another_key_and_without_a_digest_nothing_is_found() -> None:
    """P34: there the image that the code runs in did not count."""
    log = after_a_run()
    log.capabilities = replace(CAPABILITIES, digests={"noop": ("d9",)})
    found = miss(log.start("r2", cached()))
    assert (found.reason, found.differs) == ("", ["catalogue"])
    log.capabilities = Capabilities(frozenset({"noop"}))
    assert (miss(log.start("r3", cached())).reason, log.steps("r3")) == ("no_digest", {"a": "queued"})


def test_inputs_and_artifacts_in_parameters_count_by_their_content() -> None:
    log = CacheLog()
    for run_id in ("r1", "r2"):
        make = step("make", parameters={"of": run_id})
        use = cached("a", inputs={"x": "${make.artifacts.x}"}, parameters={"x": "${make.artifacts.x}"})
        log.start(run_id, make, use)
        log.end(f"{run_id}.make", None, "x")
        if run_id == "r1":
            log.end("r1.a")
    assert log.steps("r2")["a"] == "cached"
    log.start("r3", make, use)
    found = miss(log.end("r3.make", None, "x", digest="cd" * 32))
    assert found.differs == ["inputs.x", "parameters.x"]


@pytest.mark.parametrize("own", [{"cache": True}, {}])
def test_a_step_that_failed_or_has_no_cache_is_not_found(own: Json) -> None:
    log = CacheLog()
    events = log.start("r1", step("a", parameters={"lr": 0.1}, **own))
    assert any(isinstance(event, StepCacheMissed) for event in events) is bool(own)
    log.end("r1.a", end=AttemptEnd.FAILED if own else AttemptEnd.FINISHED)
    assert miss(log.start("r2", cached())).nearest is None


def test_a_result_that_is_too_old_is_not_used_and_none_becomes_younger_by_being_found() -> None:
    log = after_a_run()
    young: Json = {"cache": {"max_age_s": 4.0}}
    log.next_offset += 3_000
    assert hit(log.start("r2", cached(**young)))
    log.next_offset += 3_000
    assert miss(log.start("r3", cached(**young))).reason == "expired"
    log.end("r3.a", {"n": 4})
    assert hit(log.start("r4", cached(**young))).result == {"n": 4}


@pytest.mark.parametrize(
    ("fields", "use_cache", "reason"), [({"cache": {"refresh": True}}, True, "refresh"), ({}, False, "off")]
)
def test_a_step_that_must_run_runs_and_its_result_is_found(fields: Any, use_cache: bool, reason: str) -> None:
    """P34: there a run can't be forced."""
    log = after_a_run()
    assert miss(log.start("r2", cached(**fields), use_cache=use_cache)).reason == reason
    log.end("r2.a", {"n": 7})
    found = hit(log.start("r3", cached()))
    assert (found.found.stream, found.result) == ("r2", {"n": 7})


def test_a_hit_with_artifacts_waits_until_a_worker_says_that_the_store_has_them() -> None:
    log = after_a_run("model")
    (check,) = checks(log.start("r2", cached()))
    assert (check.task_id, check.parameters["artifacts"][0]["sha256"]) == ("r2.a.check", DIGEST)
    assert (check.needs.resources.devices, log.steps("r2")) == (0, {"a": "ready"})
    found = hit(log.end("r2.a.check", {"missing": []}))
    assert found.artifacts["model"].reference.source == "r1/r1.a/model@1"
    assert log.steps("r2") == {"a": "cached"}
    assert log.of("r2").over


@pytest.mark.parametrize(
    ("result", "end", "reason"),
    [
        ({"missing": ["model"]}, AttemptEnd.FINISHED, "artifacts_missing"),
        (None, AttemptEnd.FAILED, "unchecked"),
        ({"else": 1}, AttemptEnd.FINISHED, "unchecked"),
    ],
)
def test_a_step_whose_artifacts_are_gone_or_unknown_runs(result: Any, end: AttemptEnd, reason: str) -> None:
    log = after_a_run("model")
    log.start("r2", cached())
    assert miss(log.end("r2.a.check", result, end=end)).reason == reason
    assert log.steps("r2") == {"a": "queued"}
    log.end("r2.a", None)
    assert log.of("r2").status is messages.RunStatus.SUCCEEDED
    log.capabilities = replace(CAPABILITIES, built_in=frozenset())
    log.ask("r2", messages.ArchiveRun())
    assert miss(log.start("r3", cached())).reason == "unchecked", "no worker can look"


@pytest.mark.parametrize("meanwhile", [False, True])
def test_artifacts_that_are_forgotten_are_not_found_or_not_used_if_they_are_checked(meanwhile: bool) -> None:
    log = after_a_run("model")
    if meanwhile:
        log.start("r2", cached())
    log.tell(ArtifactsForgotten(command_id="c", artifacts=[DIGEST]), stream="r1")
    found = miss(log.end("r2.a.check", {"missing": []}) if meanwhile else log.start("r2", cached()))
    assert meanwhile or (found.nearest, checks([*log.written])) == (None, [])


def test_a_step_that_is_retried_is_looked_up_again() -> None:
    log = after_a_run("model")
    log.start("r2", cached(parameters={"lr": 0.5}))
    log.end("r2.a", end=AttemptEnd.FAILED)
    log.ask("r2", messages.RetryFailedSteps(patch={"a": messages.StepPatch(parameters={"lr": 0.1})}))
    assert hit(log.end("r2.a.g1.check", {"missing": []})).found.stream == "r1"
    assert log.of("r2").status is messages.RunStatus.SUCCEEDED


def test_an_archived_run_is_not_found_and_a_cached_step_of_a_later_one_is() -> None:
    log = after_a_run()
    log.ask("r1", messages.ArchiveRun())
    assert miss(log.start("r2", cached())).nearest is None
    log = after_a_run()
    log.start("r2", cached())
    log.ask("r1", messages.ArchiveRun())
    assert hit(log.start("r3", cached())).found.stream == "r2"


@pytest.mark.parametrize("is_placed", [True, False])
def test_a_run_that_is_aborted_while_it_checks_ends_after_its_check(is_placed: bool) -> None:
    log = after_a_run("model")
    log.start("r2", cached())
    if is_placed:
        log.place_in("r2", "r2.a.check")
    stops = of_kind(TaskStopRequested, log.ask("r2", messages.AbortPipelineRun()))
    assert [stop.task_id for stop in stops] == ["r2.a.check"]
    assert log.of("r2").over is not is_placed
    if is_placed:
        log.end("r2.a.check", {"missing": []})
    assert log.of("r2").status is messages.RunStatus.ABORTED


def test_a_step_that_is_skipped_while_it_checks_stays_skipped() -> None:
    log = after_a_run("model")
    log.start("r2", cached())
    log.place_in("r2", "r2.a.check")
    log.ask("r2", messages.SkipStep(step="a"))
    assert not log.of("r2").over
    log.end("r2.a.check", {"missing": []})
    assert log.steps("r2") == {"a": "skipped"}
    assert log.of("r2").over


def test_the_index_is_the_same_after_a_restart() -> None:
    log = after_a_run()
    key = f"cache:{log.of('r1').steps['a'].cache_key}"
    stream = log.streams.by_id["r1"]
    log.streams.adopt(load(dump(stream), AGGREGATES))
    log.index = StreamIndex(log.streams)
    assert [each.stream_id for each in log.index.having(key)] == ["r1"]
    assert hit(log.start("r2", cached()))


def test_values_of_another_run_come_with_their_source() -> None:
    log = after_a_run()
    other = step("b", parameters={"n": "${run:r1.a.result.n}"})
    (resolved,) = of_kind(StepResolved, log.start("r2", other))
    at = log.of("r1").steps["a"].outputs[0].at
    assert resolved.values == {"${run:r1.a.result.n}": 3}
    assert resolved.sources == {"${run:r1.a.result.n}": f"r1@{at}"}


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("${run:r9.a.result.n}", "there is no run 'r9'"),
        ("${run:r1.z.result.n}", "run r1 has no step 'z'"),
        ("${run:r1.late.result.n}", "run r1: step late is queued, so it has no result"),
        ("${run:r1.a.result.m}", "run r1: a.result has no 'm'"),
        ("${run:r2.b.result.m}", "a run can't refer to itself"),
    ],
)
def test_a_step_that_refers_to_what_no_run_has_fails_alone(reference: str, says: str) -> None:
    log = CacheLog()
    log.start("r1", cached(), step("late"))
    log.end("r1.a", {"n": 3})
    log.start("r2", step("b", parameters={"n": reference}), step("c"))
    assert log.steps("r2") == {"b": "failed", "c": "queued"}
    error = log.of("r2").steps["b"].error
    assert error is not None
    assert (error.code, says in error.message) == ("ref_error", True), error.message


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.thorough
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.randoms())
def test_the_key_of_any_parameters_is_the_same_in_any_order_of_names(parameters: Json, draw: Any) -> None:
    names = list(parameters)
    draw.shuffle(names)
    mixed = {name: parameters[name] for name in names}
    one, other = (
        parts_of(TaskSubmitted(task_id="r.a", task_type="noop", parameters=each, needs=Needs()), {})
        for each in (parameters, mixed)
    )
    assert key_of(one) == key_of(other)
    changed = {**one, "parameters": {**one["parameters"], "one more": 1}}
    assert key_of(changed) != key_of(one)
    assert set(short_parts(changed).items()) ^ set(short_parts(one).items()) != set()
