from collections.abc import Sequence
from functools import partial

import pytest

from tests.unit.aggregates.dataset.given import observed, refused, truncated, watched
from tests.unit.domain.given import received
from tests.unit.domain.plausible_datasets import REGISTERED, submitted
from tests.unit.verify import mutants
from trackside.aggregates.dataset.messages import DatasetDeleted, DatasetPaused, DatasetResumed
from trackside.contracts.envelope.message import Event

PAUSED, RESUMED = DatasetPaused(command_id="c-7", change=1), DatasetResumed(command_id="c-8", change=2)
DELETED = DatasetDeleted(command_id="c-9", change=3)


found = partial(mutants.found, received(), REGISTERED)


def test_a_dataset_that_is_observed_in_order_is_no_finding() -> None:
    log = watched(5)
    log.tell(observed(5, 7), truncated(observed_bytes=70, size=60))
    assert [each for each in mutants.verified(log.records).finish() if each.invariant == "INV-10"] == []
    assert found(submitted(1), observed(0, 5), PAUSED) == []


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([observed(0, 5), observed(6, 7)], "samples are observed from 6 at byte 60, the next one is 5"),
        ([observed(0, 5), observed(4, 7)], "samples are observed from 4 at byte 40, the next one is 5"),
        ([observed(0, 0)], "no sample is observed"),
        ([observed(0, 5, watcher=2)], "watcher 2 reports, which does not watch the dataset"),
        ([PAUSED, observed(0, 5)], "watcher 1 reports, which does not watch the dataset"),
        ([truncated(observed_bytes=0, size=0), refused(stop=2)], "the dataset is not active"),
        ([RESUMED], "the dataset is active"),
        ([DELETED, RESUMED], "the dataset is deleted"),
        ([submitted(2)], "is submitted while digits-1.watch.1 has not ended"),
    ],
)
def test_a_fold_that_applies_too_much_is_found(events: Sequence[Event], message: str) -> None:
    findings = found(submitted(1), *events)
    assert any(each == "INV-10" and message in text for each, text in findings), findings


def test_a_watcher_that_is_not_the_next_one_or_not_wanted_is_found() -> None:
    assert any("the next one is number 1" in text for _, text in found(submitted(2)))
    assert any("while the dataset is not active" in text for _, text in found(PAUSED, submitted(1)))
