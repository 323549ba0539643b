import asyncio
from collections.abc import AsyncIterator

import pytest

from trackside.console.live import hub as module
from trackside.console.live.hub import Hub
from trackside.console.live.log_state import PATIENCE_S, RowDelay
from trackside.projections.database.notifications import Changes

EVENTS = ("dispatcher", "trackside.events", 0)


async def test_a_subscription_gathers_what_has_changed_since_it_was_read() -> None:
    hub = Hub(limit=2)
    async with hub.subscribed() as subscription:
        hub.publish(frozenset({"a"}))
        hub.publish(frozenset({"b"}))
        assert await subscription.changes(1) == frozenset({"a", "b"})
        hub.publish(frozenset({"a"}))
        hub.publish(None)
        hub.publish(frozenset({"b"}))
        assert await subscription.changes(1) is None
        assert await subscription.changes(0) == frozenset()
    hub = Hub(limit=1)
    async with hub.subscribed():
        assert hub.is_full
    assert not hub.is_full


def test_only_pages_of_streams_that_changed_are_rendered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(limit=1)
    hub.publish(frozenset({"a"}))
    rendered_at = hub.version
    hub.publish(frozenset({"b"}))
    assert not hub.has_changed(frozenset({"a"}), rendered_at)
    assert hub.has_changed(frozenset({"a", "b"}), rendered_at)
    assert hub.has_changed(None, rendered_at)
    assert not hub.has_changed(frozenset(), rendered_at)
    hub.publish(None)
    assert hub.has_changed(frozenset({"a"}), rendered_at)
    assert not hub.has_changed(frozenset({"a"}), hub.version)
    monkeypatch.setattr(module, "REMEMBERED", 2)
    hub = Hub(limit=1)
    for name in ("a", "b", "c"):
        hub.publish(frozenset({name}))
    assert hub.has_changed(frozenset({"a"}), 0)
    assert not hub.has_changed(frozenset({"a"}), 1)
    assert hub.has_changed(frozenset({"b"}), 1)


async def test_positions_are_the_newest_that_were_notified() -> None:
    hub = Hub(limit=1)

    async def changes() -> AsyncIterator[Changes]:
        yield Changes(frozenset({"dispatcher"}), {EVENTS: 5}, frozenset({"a"}))
        yield Changes(frozenset({"dispatcher"}), {EVENTS: 9, ("forged", "x", 0): 1}, frozenset())

    hub.know({EVENTS: 1})  # as a page does that was read
    await hub.run(changes())
    assert hub.positions == {EVENTS: 9}
    assert not hub.has_changed(frozenset({"a"}), 1)


def test_what_is_wrong_is_noted_until_it_is_over() -> None:
    hub = Hub(limit=1)
    hub.state("kafka", "Kafka does not answer")
    version = hub.version
    hub.state("kafka", "Kafka does not answer")
    assert hub.states.text == "Kafka does not answer." and hub.version == version
    hub.state("kafka", "")
    assert hub.states.text == "" and hub.version == version + 1


async def test_nothing_is_asked_while_no_page_is_open_until_one_is() -> None:
    hub = Hub(limit=1)

    async def open_until(paused: asyncio.Task[None]) -> None:
        async with hub.subscribed():
            await paused
            await assert_pauses(hub)

    async with asyncio.TaskGroup() as group:
        paused = group.create_task(hub.pause(3_600))
        group.create_task(open_until(paused))
    await assert_pauses(hub)
    await hub.pause(0)


async def assert_pauses(hub: Hub) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await hub.pause(3_600)


def test_rows_that_follow_a_log_that_grows_or_is_empty_are_not_late() -> None:
    delay = RowDelay()
    for second in range(20):
        assert delay.missing({0: 10 * second}, {0: 10 * second + 8}, float(second)) == 0
    delay = RowDelay()
    assert delay.missing({}, {}, 0.0) == 0
    assert delay.missing({}, {}, 1000.0) == 0


def test_rows_that_stand_still_are_late_with_all_events_that_they_lack_until_they_catch_up() -> None:
    delay = RowDelay()
    ends = [{0: 10, 1: 5}, {0: 20, 1: 5}, {0: 30, 1: 5}]
    found = [delay.missing({0: 10, 1: 3}, each, at * (PATIENCE_S - 1)) for at, each in enumerate(ends)]
    assert found == [0, 0, 22]
    delay = RowDelay()
    assert delay.missing({0: 0}, {0: 9}, 0.0) == 0
    assert delay.missing({0: 0}, {0: 9}, PATIENCE_S + 1) == 9
    assert delay.missing({0: 9}, {0: 12}, PATIENCE_S + 2) == 0
