"""When a store that failed is asked again, and when it is given up."""

from trackside.worker.artifacts.store_messages import FIRST_RETRY_S, LAST_RETRY_S
from trackside.worker.artifacts.store_outage import StoreOutage

PROBLEM = {"code": "store_full", "message": "no room"}


def test_pauses_grow_up_to_their_limit_and_begin_again_after_a_success() -> None:
    outage, pauses = StoreOutage(60), []
    for at in range(10):
        assert outage.note(PROBLEM, float(at)) == (at == 0)
        pauses.append(outage.pause_s)
    assert pauses[:3] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S]
    assert pauses[-1] == LAST_RETRY_S
    outage.end()
    assert outage.note(PROBLEM, 20.0) and outage.pause_s == FIRST_RETRY_S


def test_a_store_is_given_up_after_its_limit_and_not_before_until_it_is_there_again() -> None:
    outage = StoreOutage(60)
    assert not outage.is_given_up(1_000.0)
    outage.note(PROBLEM, 100.0)
    assert not outage.is_given_up(159.9)
    outage.note(PROBLEM, 160.0)
    assert outage.is_given_up(160.0) and outage.retry_at_s > 160.0
    outage.end()
    assert not outage.is_given_up(161.0)
