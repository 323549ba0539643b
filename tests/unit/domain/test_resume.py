"""Trainings that continue from a checkpoint: which checkpoints are kept, and which reports count again."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.unit.domain import given
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import Assessor
from trackside.aggregates.search.trials.suggestions import suggestion
from trackside.contracts.tasks.artifacts import ArtifactSaved, CheckpointReference, TaskResumed
from trackside.contracts.tasks.resources import KeepCheckpoints
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted
from trackside.domain.folding.streams import load, pack
from trackside.domain.tasks.task import SavedCheckpoint
from trackside.domain.tasks.task_artifacts import MAX_OFFERED, kept, offered


def digest(step: int) -> str:
    return f"{step:064x}"


def reference(step: int, version: int = 1) -> CheckpointReference:
    stored = {"uri": f"store:sha256/{digest(step)}", "sha256": digest(step), "size_bytes": 10}
    source = f"{given.STREAM}/{given.STREAM}.0/checkpoint@{version}"
    return CheckpointReference.model_validate({**stored, "source": source, "step": step})


def checkpointed(step: int, number: int = 1, version: int = 1, **which: Any) -> ArtifactSaved:
    stored = reference(step).model_dump(include={"uri", "sha256", "size_bytes"})
    what = {"name": "checkpoint", "kind": "checkpoint", "number": number, "version": version, "step": step}
    return ArtifactSaved.model_validate({**given.token(**which), **what, **stored})


def resumed(step: int, interrupts: int = 0, **which: Any) -> TaskResumed:
    return TaskResumed(**given.token(**which), step=step, checkpoint=reference(step), interrupts=interrupts)


def lost(told: given.Told, attempt: int = 1) -> None:
    told.tell(given.ended(AttemptEnd.LOST, attempt=attempt), role="scheduler")
    told.each(given.assigned(attempt=attempt + 1), given.begun(attempt=attempt + 1))


def trained(steps: int = 4, checkpoint: int = 3, **changed: Any) -> given.Told:
    told = given.task_active(**changed)
    for step in range(steps):
        told.tell(given.report(step, step / 10))
    assert told.tell(checkpointed(checkpoint)) == given.APPLIED
    lost(told)
    return told


def test_an_attempt_that_resumes_has_the_reports_below_its_first_step() -> None:
    told = trained()
    assert (told.task().reports, told.tell(resumed(3, attempt=2))) == ([], given.APPLIED)
    assert told.task().reports == [(0, 0.0), (1, 0.1), (2, 0.2)]
    assert told.tell(resumed(3, attempt=2)) == told.tell(given.report(2, 9.0, attempt=2)) == given.DUPLICATE
    told.tell(given.report(3, 0.35, attempt=2))
    assert told.task().reports == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.35)]
    assert load(pack(told.stream), AGGREGATES) == told.stream
    told = trained(steps=0, checkpoint=5)
    told.tell(resumed(5, attempt=2))
    assert told.tell(given.report(4, 0.5, attempt=2)) == given.DUPLICATE
    assert told.tell(given.report(5, 0.5, attempt=2)) == given.APPLIED


def test_only_a_checkpoint_that_the_log_knows_puts_reports_back() -> None:
    told = trained()
    for event in (resumed(2, attempt=2), resumed(4, attempt=2), resumed(3, attempt=2, incarnation="i-9")):
        assert told.tell(event) == given.OVERTAKEN
    assert told.task().reports == []
    told = trained(steps=1, checkpoint=1, resume=False)
    assert offered(told.task()) == [], "it is not to resume"
    assert told.tell(resumed(1, attempt=2)) == given.OVERTAKEN


def test_an_attempt_that_dies_before_it_reports_leaves_the_reports_to_the_next_one() -> None:
    told = trained()
    lost(told, attempt=2)
    told.tell(resumed(3, attempt=3))
    lost(told, attempt=3)
    assert told.tell(resumed(3, attempt=4)) == given.APPLIED
    assert told.task().reports == [(0, 0.0), (1, 0.1), (2, 0.2)]


def test_a_training_that_began_anew_and_was_lost_takes_no_step_from_one_that_resumes() -> None:
    told = trained()
    told.tell(given.report(0, 0.7, attempt=2))
    assert told.tell(resumed(3, attempt=2)) == given.OVERTAKEN, "it has begun anew"
    assert told.task().reports == [(0, 0.7)]
    lost(told, attempt=2)
    assert told.tell(resumed(3, attempt=3)) == given.APPLIED
    assert told.task().reports == [(0, 0.7), (1, 0.1), (2, 0.2)]
    assert load(pack(told.stream), AGGREGATES) == told.stream


def test_a_preempted_placement_and_an_interrupted_training_resume_too() -> None:
    told = given.task_active()
    told.each(given.report(0, 0.5), checkpointed(1), given.interrupted())
    assert told.tell(resumed(1)) == given.OVERTAKEN  # it is of the training before
    assert told.tell(resumed(1, interrupts=1)) == given.APPLIED
    told.each(given.report(1, 0.6, interrupts=1), given.preemption(), given.ended(AttemptEnd.PREEMPTED))
    told.each(given.assigned(placement=2), given.begun(placement=2))
    assert told.tell(resumed(1, placement=2, interrupts=1)) == given.APPLIED
    assert told.task().reports == [(0, 0.5)]
    assert [past.resumed and past.resumed.step for past in told.task().attempt.past] == [1]


def test_a_training_that_resumes_after_its_last_report_has_what_was_said_beside_it() -> None:
    told = given.task_active()
    told.each(given.report(0, 0.5).model_copy(update={"others": {"size": 3.0}}), checkpointed(1))
    lost(told)
    assert told.task().others == {}
    told.tell(resumed(1, attempt=2))
    assert told.task().others == {"size": 3.0}


def test_an_assessor_reads_that_reports_count_again() -> None:
    told = trained(steps=2, checkpoint=1, assessor=Assessor())
    told.each(resumed(1, attempt=2), given.report(1, 0.15, attempt=2))
    rows = [(0, 0, 0.0), (0, 1, 0.1), (0, None, None), (0, "RESUMED", 1), (0, 1, 0.15)]
    assert told.stream.root.assessor_feed == rows


def test_the_newest_checkpoints_and_those_of_best_value_are_kept() -> None:
    values = [0.1, 0.9, 0.5, None, 0.2]
    told = [SavedCheckpoint(reference(step), value, step) for step, value in enumerate(values)]
    assert kept(told, KeepCheckpoints()) == [told[1], told[3], told[4]]
    assert kept(told, KeepCheckpoints(newest=1, direction="minimize")) == [told[0], told[4]]
    assert kept(told, KeepCheckpoints(newest=1, best=0)) == [told[4]]


def test_a_worker_is_told_of_a_few_checkpoints_and_the_best_are_by_the_direction_of_its_search() -> None:
    told = given.task_active(keep_checkpoints=KeepCheckpoints(newest=9))
    for step in range(1, 8):
        told.tell(checkpointed(step, number=step, version=step))
    assert [each.step for each in offered(told.task())] == [7, 6, 5, 1]
    assert len(offered(told.task())) == MAX_OFFERED
    for direction in ("maximize", "minimize"):
        told = given.search_running(direction=direction)
        _, submitted = suggestion(told.search, 0, {"lr": 0.5}, 0)
        assert isinstance(submitted, TaskSubmitted)
        assert submitted.needs.keep_checkpoints.direction == direction


@pytest.mark.thorough
@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(
    st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.integers(0, 9)), min_size=1, max_size=4)
)
def test_steps_rise_and_each_has_the_value_of_the_newest_training_that_counts(lives: Any) -> None:
    """Each attempt trains some steps and is lost; it resumes from the newest checkpoint or begins anew."""
    told, said, number = given.task_active(), dict[int, float](), 0
    for attempt, (steps, resumes, every) in enumerate(lives, 1):
        candidates = offered(told.task())
        at = candidates[0].step if resumes and candidates else 0
        if at:
            event = TaskResumed(**given.token(attempt=attempt), step=at, checkpoint=candidates[0])
            assert told.tell(event) == given.APPLIED
        expected = {step: value for step, value in said.items() if step < at}
        saved = 0
        for step in range(at, at + steps):
            expected[step] = attempt + step / 100
            assert told.tell(given.report(step, expected[step], attempt=attempt)) == given.APPLIED
            if every and step % every == 0:
                number, saved = number + 1, saved + 1
                event_of_it = checkpointed(step + 1, number=saved, version=number, attempt=attempt)
                assert told.tell(event_of_it) == given.APPLIED
        assert dict(told.task().reports) == expected
        said |= expected
        if attempt < len(lives):
            lost(told, attempt)
    assert load(pack(told.stream), AGGREGATES) == told.stream
