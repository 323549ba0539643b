import asyncio
from collections.abc import Callable, Coroutine

import pytest

from trackside.eventlog.background import Background, UnexpectedCancellationError


async def pump() -> None:
    """Does what a library does that lets out the cancellation of a task of its own."""
    inner = asyncio.create_task(asyncio.Event().wait())
    inner.cancel()
    await inner


async def fails() -> None:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("work", "kind", "said"), [(pump, UnexpectedCancellationError, "pump"), (fails, ValueError, "no")]
)
async def test_work_that_raised_or_was_cancelled_from_elsewhere_is_a_failure(
    work: Callable[[], Coroutine[None, None, None]], kind: type[Exception], said: str
) -> None:
    background, rung = Background(), asyncio.Event()
    background.alarm = rung.set
    background.spawn(work())
    await rung.wait()
    assert isinstance(background.failure, kind)
    assert said in str(background.failure)


async def test_what_is_cancelled_at_the_end_is_no_failure() -> None:
    background = Background()
    background.spawn(asyncio.Event().wait())
    await background.close()
    assert background.failure is None
