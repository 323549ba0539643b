import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

import pytest

from trackside.eventlog import background as module
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


async def test_work_whose_cancellation_is_lost_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CANCEL_AGAIN_S", 0.01)
    began = asyncio.Event()

    async def loses_one() -> None:
        with suppress(asyncio.CancelledError):
            began.set()
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    background = Background()
    background.spawn(loses_one())
    await began.wait()
    await background.close()
    assert background.failure is None
