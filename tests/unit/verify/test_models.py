"""INV-10, INV-12 and INV-20 of models, in logs of which a broken fold applies everything."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from tests.unit.domain.given import STREAM, received, record_of
from tests.unit.domain.given_models import added, staged, tagged, version_spec
from tests.unit.verify import mutants
from trackside.aggregates.model.messages import (
    ModelArchived,
    ModelRegistered,
    ModelRestored,
    ModelSpec,
    TrainedBy,
)
from trackside.contracts.envelope.message import Event
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.domain.checks.findings import Findings
from trackside.verify.checks.artifacts import ArtifactChecks

BEGUN = ModelRegistered(command_id="c-1", model=ModelSpec())
ARCHIVED, RESTORED = ModelArchived(command_id="c-8", change=1), ModelRestored(command_id="c-9", change=2)


found = partial(mutants.found, received(), BEGUN)


def test_a_model_whose_changes_are_in_order_is_no_finding() -> None:
    stages = (staged(1, 1, "production"), staged(2, 2, "production", replaces=1), staged(3, 1, "archived"))
    assert found(added(1), added(2), *stages, staged(4, 2, "archived"), tagged(5, 2, added=["a"])) == []
    assert found(ARCHIVED, RESTORED, added(1)) == []


@pytest.mark.parametrize(
    ("events", "invariant", "message"),
    [
        ([added(2)], "INV-12", "version 2 is added, the next one is 1"),
        ([added(1), added(1)], "INV-12", "version 1 has the bytes of version 1"),
        ([added(1), added(2), staged(1, 1, "staging"), staged(2, 2, "staging")], "INV-10", "[1, 2]"),
        ([staged(1, 1, "staging")], "INV-10", "there is no version 1"),
        ([added(1), tagged(1, 2, added=["a"])], "INV-10", "there is no version 2"),
        ([ARCHIVED, added(1)], "INV-10", "the model is archived"),
        ([RESTORED], "INV-10", "the model is not archived"),
    ],
)
def test_a_fold_that_applies_too_much_is_found(events: Sequence[Event], invariant: str, message: str) -> None:
    assert any(each == invariant and message in text for each, text in found(*events))


def _saved(digest: str) -> ArtifactSaved:
    task: Any = {"task_id": "digits-1.7", "attempt": 1, "placement": 1, "incarnation": "i-1", "number": 1}
    named: Any = {"name": "weights", "version": 1, "kind": "model", "size_bytes": 5_120}
    return ArtifactSaved(**task, **named, uri=f"store:sha256/{digest}", sha256=digest)


def _named(digest: str, source: str = "digits-1/digits-1.7/weights@1") -> Event:
    artifact = {"uri": f"store:sha256/{digest}", "sha256": digest, "size_bytes": 5_120, "source": source}
    task = TrainedBy(stream="digits-1", task="digits-1.7", attempt=1)
    return added().model_copy(update={"model": version_spec(artifact=artifact, task=dict(task))})


@pytest.mark.parametrize("model_first", [False, True])
@pytest.mark.parametrize(
    ("named", "message"),
    [
        (_named("a" * 64), ""),
        (_named("b" * 64), "was saved with another digest"),
        (_named("a" * 64, "digits-1/digits-1.7/weights@2"), "was not saved"),
        (added(), ""),
    ],
)
def test_a_version_is_compared_with_what_was_saved(named: Event, message: str, model_first: bool) -> None:
    findings = Findings()
    checks = ArtifactChecks(findings)
    record = record_of(_saved("a" * 64), 5)
    assert record.envelope.stream == STREAM == "digits-1"
    event = record.message
    assert isinstance(event, ArtifactSaved)
    other = record_of(named, 9)
    if not model_first:
        checks.saved(event, record)
    checks.named(named.model.artifact, other)  # type: ignore[attr-defined]
    if model_first:
        checks.saved(event, record)
    checks.finish()
    assert [finding.invariant for finding in findings.found] == (["INV-20"] if message else [])
    assert all(message in finding.message for finding in findings.found)


def test_a_verifier_compares_the_versions_of_models() -> None:
    digest = "a" * 64
    assert found(_named(digest)) == [("INV-20", "its artifact digits-1/digits-1.7/weights@1 was not saved")]
