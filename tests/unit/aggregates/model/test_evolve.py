"""The fold of models: what comes twice, too late, or out of order has no effect."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.domain.given import Told, submitted
from tests.unit.domain.given_models import added, registered, staged, tagged, version_spec
from trackside.aggregates.model.messages import EXCLUSIVE, ModelArchived, ModelRestored, ModelStage
from trackside.aggregates.model.state import model_of
from trackside.contracts.message import Event
from trackside.domain.outcome import Outcome

ARCHIVED, RESTORED = ModelArchived(command_id="c-8", change=1), ModelRestored(command_id="c-9", change=1)
SAME_BYTES = added(3).model_copy(update={"model": version_spec(1)})


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (added(2), Outcome.DUPLICATE),
        (added(4), Outcome.OVERTAKEN),
        (SAME_BYTES, Outcome.OVERTAKEN),
        (staged(1, 3, "production"), Outcome.OVERTAKEN),
        (staged(2, 1, "production"), Outcome.OVERTAKEN),
        (staged(1, 1, "none"), Outcome.OVERTAKEN),
        (staged(1, 1, "production", replaces=2), Outcome.OVERTAKEN),
        (tagged(1, 3, added=["a"]), Outcome.OVERTAKEN),
        (RESTORED, Outcome.OVERTAKEN),
        (submitted(None), Outcome.OVERTAKEN),
        (staged(1, 1, "production"), Outcome.APPLIED),
        (tagged(1, added=["a"]), Outcome.APPLIED),
        (ARCHIVED, Outcome.APPLIED),
    ],
)
def test_only_what_follows_has_an_effect(event: Event, outcome: Outcome) -> None:
    told = registered(2)
    before = repr(model_of(told.stream))
    assert told.tell(event) == [outcome]
    assert (repr(model_of(told.stream)) != before) == (outcome is Outcome.APPLIED)


def test_a_change_counts_once() -> None:
    told = registered(2)
    for change in (staged(1, 1, "production"), staged(2, 2, "production", replaces=1)):
        assert told.tell(change) == [Outcome.APPLIED]
    for again in (staged(1, 1, "production"), staged(2, 2, "production", replaces=1)):
        assert told.tell(again) == [Outcome.DUPLICATE]
    assert _stages(told) == ["none", "production"]


def test_an_archived_model_takes_nothing_but_that_it_is_restored() -> None:
    told = registered(1)
    told.tell(ARCHIVED)
    for event in (added(2), staged(2, 1, "production"), tagged(2, added=["a"])):
        assert told.tell(event) == [Outcome.OVERTAKEN]
    assert told.tell(RESTORED.model_copy(update={"change": 2})) == [Outcome.APPLIED]
    assert told.tell(added(2), staged(3, 1, "production")) == [Outcome.APPLIED] * 2


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(get_args(ModelStage))), max_size=12))
def test_a_model_knows_which_version_has_a_stage_after_any_changes(
    changes: list[tuple[int, ModelStage]],
) -> None:
    told, change = registered(4), 0
    model = model_of(told.stream)
    assert model is not None
    for version, stage in changes:
        [outcome] = told.tell(staged(change + 1, version, stage, replaces=model.holder(stage)))
        change += outcome is Outcome.APPLIED
    for stage in get_args(ModelStage):
        with_it = [each.number for each in model.versions if each.stage == stage]
        assert model.holder(stage) == (with_it[0] if stage in EXCLUSIVE and with_it else None)
        assert stage not in EXCLUSIVE or len(with_it) <= 1
    assert [model.with_digest(each.spec.artifact.sha256) for each in model.versions] == [1, 2, 3, 4]


def _stages(told: Told) -> list[str]:
    model = model_of(told.stream)
    assert model is not None
    return [version.stage for version in model.versions]
