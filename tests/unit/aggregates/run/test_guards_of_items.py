"""What the guards of tasks, children and the cache of a run refuse, one condition after another."""

from typing import Any

from tests.unit.aggregates.run.given import RunLog, step
from tests.unit.aggregates.run.proofs import proves, refuses, task_of, waiting, write
from trackside.aggregates.run import step_messages
from trackside.aggregates.run.messages import RunPaused
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.parts import Part
from trackside.contracts.fleet.fleet import CHECK_ARTIFACTS
from trackside.contracts.streams.children import ChildRequested
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskSubmitted
from trackside.domain.outcome import Outcome
from trackside.domain.pipelines.definition import CACHE
from trackside.domain.streams.stream import shrink

PAUSE = RunPaused(command_id="c-9", change=1)
PARTS = {"task_type": "noop", "catalogue": ["d1"], "parameters": {}, "inputs": {}}
FOUND = step_messages.CacheEntry(stream="r0", step="a", task="r0.a", offset=7, ended_ms=2_000_000_000_000)
REFERENCE = ArtifactReference(uri="store:sha256/" + "ab" * 32, sha256="ab" * 32, size_bytes=8)
SAVED = {"x": step_messages.CachedArtifact(version=1, kind="file", reference=REFERENCE)}
HIT = step_messages.StepCacheHit(step="a", key="k", parts=PARTS, found=FOUND, result={"n": 1})
HIT_WITH_ARTIFACTS = HIT.model_copy(update={"artifacts": SAVED})
MISS = step_messages.StepCacheMissed(step="a", key="k", parts=PARTS)
BATCH = {"groups": [{"tasks": [{"task_type": "noop"}]}]}


def cached(**fields: Any) -> RunLog:
    return waiting(step("a", "x", **{"cache": True, **fields}), ready=["a"])


def ready(**fields: Any) -> RunLog:
    return waiting(step("a", "x", **fields), ready=["a"])


def check_of(log: RunLog, **changed: Any) -> TaskSubmitted:
    found = {"key": "k", "found": {"stream": "r0", "step": "a", "offset": 7}}
    part = Part(kind=CACHE, number=0, name="a")
    fields: Json = {"task_id": log.run.check_id("a"), "task_type": CHECK_ARTIFACTS, "part": part}
    return task_of(log, "a", **{**fields, "parameters": found, **changed})


def checked(log: RunLog, missing: list[str]) -> RunLog:
    write(log, check_of(log))
    token = log.place("a.check")
    done = {**token, "end": AttemptEnd.FINISHED, "result": {"missing": missing}}
    log.tell(AttemptEnded.model_validate(done), role="worker")
    return log


def test_what_is_refused_below_has_an_effect_otherwise() -> None:
    write(cached(), HIT)
    write(cached(), MISS)
    write(checked(cached(), []), HIT_WITH_ARTIFACTS)
    log = waiting(step("a", "x"), ready=["a"])
    write(log, task_of(log, "a"))
    log = waiting(step("a", "x", kind="batch", spec=BATCH), ready=["a"])
    write(log, ChildRequested(child_id=log.run.item_id("a", 0), kind="batch", body=BATCH))


@proves("admits", "part is None", "part.name not in run.steps", "part.kind != STEP")
@proves("admits", "kind_of(run.spec_of(part.name)) != TASK")
def test_a_task_of_something_else_than_a_step_with_a_task_does_not_begin() -> None:
    log = ready()
    for part in (None, Part(kind="step", number=0, name="zz"), Part(kind="trial", number=0, name="a")):
        refuses(log, task_of(log, "a", part=part))
    log = ready(kind="batch", spec=BATCH)
    refuses(log, task_of(log, "a"))


@proves("admits_child", "found is None", "run.spec_of(found[0]).kind != event.kind")
def test_a_child_of_an_unknown_step_or_of_another_kind_does_not_begin() -> None:
    log = ready(kind="batch", spec=BATCH)
    refuses(log, ChildRequested(child_id=f"{log.run.run_id}.zz", kind="batch", body=BATCH))
    refuses(log, ChildRequested(child_id=log.run.item_id("a", 0), kind="search", body=BATCH))


@proves("_admits_item", "run.may_begin(name) == index", "run.item_id(name, index) == item_id")
def test_items_begin_in_their_order_under_their_ids() -> None:
    log = waiting(step("a", "x", each=[1, 2]), ready=["a"], concurrency=4)
    write(log, step_messages.StepExpanded(step="a", items=[1, 2]))
    refuses(log, task_of(log, "a", 1))
    log = ready()
    refuses(log, task_of(log, "a", task_id=f"{log.run.run_id}.other"))


@proves("may_begin", "self.status is not RunStatus.RUNNING", "step.state not in WORKING")
@proves("may_begin", "self.spec_of(name).cache is not None and (not step.cache_parts)")
def test_no_task_begins_of_a_run_that_is_paused_or_of_a_step_that_was_skipped_or_not_looked_up() -> None:
    skipped = step_messages.StepSkipped(step="a", by="operator")
    for log in (write(ready(), PAUSE), write(ready(), skipped), cached()):
        refuses(log, task_of(log, "a"))


@proves("may_begin", "self.open >= self.concurrency", "len(step.open) >= self.at_once(name)")
def test_no_task_begins_if_a_rival_has_taken_the_room_of_the_run_or_of_its_step() -> None:
    log = waiting(step("a", "x"), step("b", "x"), ready=["a", "b"], concurrency=1)
    write(log, task_of(log, "b"))
    refuses(log, task_of(log, "a"))
    log = waiting(step("a", "x", each=[1, 2], at_once=1), ready=["a"], concurrency=4)
    write(log, step_messages.StepExpanded(step="a", items=[1, 2]), task_of(log, "a", 0))
    refuses(log, task_of(log, "a", 1))


@proves("_cached", "(StepState.READY,)", "run.status is not RunStatus.RUNNING", "cache is None")
@proves("_missed", "(StepState.READY,)", "run.status is not RunStatus.RUNNING")
@proves("_missed", "run.spec_of(event.step).cache is None")
def test_only_a_step_with_a_cache_that_is_ready_is_looked_up_and_not_while_its_run_is_paused() -> None:
    for log in (waiting(step("a", "x", cache=True)), write(cached(), PAUSE), ready()):
        refuses(log, HIT)
        refuses(log, MISS)


@proves("_cached", "step.cache_parts")
@proves("_missed", "step.cache_parts")
def test_a_step_is_looked_up_once() -> None:
    log = write(cached(), MISS)
    refuses(log, HIT, Outcome.DUPLICATE)
    refuses(log, MISS, Outcome.DUPLICATE)


@proves("_cached", "not run.use_cache", "cache.refresh", "is_expired(run, event.step, event.found)")
@proves("_admits_check", "not run.use_cache", "cache.refresh")
def test_what_is_too_old_or_not_wanted_is_neither_found_nor_checked() -> None:
    old = FOUND.model_copy(update={"ended_ms": 0})
    refuses(cached(cache={"max_age_s": 4.0}), HIT.model_copy(update={"found": old}))
    off = cached()
    off.run.use_cache = False
    for log in (off, cached(cache={"refresh": True})):
        refuses(log, HIT)
        refuses(log, check_of(log))


@proves("_cached", "check is None", "not check.is_of(event.found)", "check.missing != []")
def test_a_step_with_artifacts_is_found_only_after_its_own_check_which_misses_none() -> None:
    refuses(cached(), HIT_WITH_ARTIFACTS)
    other = FOUND.model_copy(update={"offset": 8})
    refuses(checked(cached(), []), HIT_WITH_ARTIFACTS.model_copy(update={"found": other}))
    refuses(checked(cached(), ["x"]), HIT_WITH_ARTIFACTS)


@proves("_missed", "event.step in run.checks")
def test_a_step_does_not_miss_while_artifacts_are_checked_for_it() -> None:
    log = cached()
    refuses(write(log, check_of(log)), MISS)


@proves("_admits_check", "run.status is not RunStatus.RUNNING", "step.state is not StepState.READY")
@proves("_admits_check", "step.cache_parts", "cache is None")
def test_nothing_is_checked_for_a_step_without_a_cache_or_that_is_not_to_be_looked_up_now() -> None:
    unready = waiting(step("a", "x", cache=True))
    for log in (write(cached(), PAUSE), unready, write(cached(), MISS), ready()):
        refuses(log, check_of(log))


@proves("_admits_check", "step.check is not None")
def test_artifacts_are_checked_once_for_a_step() -> None:
    log = checked(cached(), ["x"])
    shrink(log.stream)
    refuses(log, check_of(log))


@proves("_admits_check", "event.task_type == CHECK_ARTIFACTS", "event.task_id == run.check_id(name)")
def test_no_other_task_checks_artifacts_and_none_under_another_id() -> None:
    log = cached()
    refuses(log, check_of(log, task_type="noop"))
    refuses(log, check_of(log, task_id=f"{log.run.run_id}.other"))
