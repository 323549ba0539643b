"""Work beside a loop never ends unseen."""

import asyncio

import pytest

from trackside.eventlog.background import Background, UnexpectedCancellationError


async def pump() -> None:
    """Does what a library does that lets out the cancellation of a task of its own."""
    inner = asyncio.create_task(asyncio.Event().wait())
    inner.cancel()
    await inner


async def test_work_that_a_foreign_cancellation_ended_is_a_failure() -> None:
    background, rung = Background(), asyncio.Event()
    background.alarm = rung.set
    background.spawn(pump())
    await rung.wait()
    assert isinstance(background.failure, UnexpectedCancellationError)
    assert "pump" in str(background.failure)


async def test_an_error_is_a_failure() -> None:
    async def fails() -> None:
        raise ValueError("no")

    background, rung = Background(), asyncio.Event()
    background.alarm = rung.set
    background.spawn(fails())
    await rung.wait()
    with pytest.raises(ValueError, match="no"):
        raise background.failure or AssertionError


async def test_what_is_cancelled_at_the_end_is_no_failure() -> None:
    background = Background()
    background.spawn(asyncio.Event().wait())
    await background.close()
    assert background.failure is None
