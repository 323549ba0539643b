"""When a task has to wait for the log, and what is counted as left out."""

import asyncio

from trackside.eventlog.log import Appended
from trackside.worker.reporting.summary_flow import MAX_UNAPPENDED_BATCHES, SummaryFlow


async def test_a_flow_that_is_full_waits_until_one_batch_is_in_the_log() -> None:
    flow = SummaryFlow(lambda: False)
    appended = [flow.sent() for _ in range(MAX_UNAPPENDED_BATCHES)]
    assert flow.is_full
    waiting = asyncio.create_task(flow.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    appended[0](Appended(0, 0))
    await waiting
    assert not flow.is_full


async def test_nothing_waits_for_a_log_that_does_not_answer() -> None:
    stalled = False
    flow = SummaryFlow(lambda: stalled)
    for _ in range(MAX_UNAPPENDED_BATCHES):
        flow.sent()
    assert flow.is_full
    stalled = True
    assert not flow.is_full
    await flow.room()


async def test_a_batch_that_is_dropped_makes_room_and_is_counted() -> None:
    flow = SummaryFlow(lambda: False)
    for _ in range(MAX_UNAPPENDED_BATCHES):
        flow.sent()
    flow.dropped(200)
    await flow.room()
    assert flow.left_out == 200


async def test_what_a_process_left_behind_passes() -> None:
    flow = SummaryFlow(lambda: False)
    for _ in range(MAX_UNAPPENDED_BATCHES):
        flow.sent()
    waiting = asyncio.create_task(flow.room())
    await asyncio.sleep(0)
    flow.release()
    await waiting
