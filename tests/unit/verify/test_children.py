from functools import partial
from typing import Any

import pytest

from tests.unit.domain.given import STREAM, received
from tests.unit.verify import mutants
from trackside.aggregates.batch.messages import BatchEnded, BatchSpec, BatchStarted, BatchStatus, GroupEnded
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.children import ChildEnded, ChildRequested, ChildStopRequested

CHILDREN: list[dict[str, Any]] = [{"name": name, "kind": "search", "spec": {}} for name in ("a", "b")]
BATCH = BatchSpec.model_validate({"groups": [{"children": CHILDREN}], "concurrency": 1})
BEGUN = BatchStarted(command_id="c-1", batch=BATCH)
DONE = BatchEnded(status=BatchStatus.DONE)


def requested(name: str) -> ChildRequested:
    return ChildRequested(child_id=f"{STREAM}.1.{name}", kind="search", body={})


def ended(name: str) -> ChildEnded:
    return ChildEnded(child_id=f"{STREAM}.1.{name}", status="DONE", result={})


BOTH = (requested("a"), ended("a"), requested("b"), ended("b"))
VALID: tuple[Event, ...] = (*BOTH, GroupEnded(group=0, ends={"done": 2}), DONE)


found = partial(mutants.found, received(), BEGUN)


def test_children_that_begin_and_end_in_their_order_are_no_finding() -> None:
    assert found(*VALID) == []


@pytest.mark.parametrize(
    ("events", "invariant", "message"),
    [
        ((ended("a"),), "INV-19", "which was never requested"),
        ((*VALID[:2], ended("a")), "INV-19", "which has ended"),
        ((*VALID[:2], ChildStopRequested(child_id=f"{STREAM}.1.a", reason="")), "INV-19", "which has ended"),
        ((*VALID[:2], requested("a")), "INV-19", "is requested twice"),
        ((requested("b"),), "INV-12", "which is not the next one of group 0"),
        ((requested("a"), requested("b")), "INV-12", "concurrency"),
        ((*VALID[:3], VALID[4]), "INV-12", "1 tasks or children that go on"),
        ((*VALID[:2], VALID[4]), "INV-12", "1 that were not begun"),
        ((requested("a"), DONE), "INV-19", f"its child {STREAM}.1.a has not ended"),
    ],
)
def test_what_goes_against_the_order_of_children_is_found(events: Any, invariant: str, message: str) -> None:
    findings = found(*events)
    assert [name for name, text in findings if message in text] == [invariant], findings
