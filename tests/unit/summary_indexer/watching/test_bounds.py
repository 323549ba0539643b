"""What bounds the memory of a watcher: bytes of files in flight, and tags that are remembered."""

import asyncio

from trackside.summary_indexer.watching.directory_scans import ByteBudget
from trackside.summary_indexer.watching.records import TagLimit
from trackside.summary_indexer.watching.tag_limits import REMEMBERED_JOBS, REMEMBERED_TAGS, TagLimits


async def test_bytes_are_taken_in_the_order_in_which_they_were_asked_for() -> None:
    budget = ByteBudget(10)
    order: list[str] = []
    release = asyncio.Event()

    async def use(name: str, size: int) -> None:
        async with budget.taken(size):
            order.append(name)
            await release.wait()

    async with asyncio.TaskGroup() as tasks:
        for name, size in (("first", 6), ("all", 1_000), ("small", 1)):
            tasks.create_task(use(name, size))
        for _ in range(10):
            await asyncio.sleep(0)
        assert order == ["first"]
        release.set()
    assert order == ["first", "all", "small"]


async def test_bytes_come_back_after_a_cancelled_wait() -> None:
    budget = ByteBudget(10)
    async with budget.taken(10):
        waiting = asyncio.create_task(_taken(budget))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(5):
        assert await _taken(budget)


async def _taken(budget: ByteBudget) -> bool:
    async with budget.taken(10):
        return True


async def test_of_very_many_jobs_and_tags_the_last_ones_are_remembered() -> None:
    limits = TagLimits()
    for number in range(REMEMBERED_JOBS + 1):
        limits.keep(f"small-{number}", TagLimit.of([("scalar", "loss")]))
    assert limits.forget("small-0") is None
    assert limits.forget("small-1") is not None
    tags = [("scalar", f"tag-{number}") for number in range(10_000)]
    for number in range(REMEMBERED_TAGS // 10_000 + 1):
        limits.keep(f"large-{number}", TagLimit.of(tags))
    assert limits.forget(f"small-{REMEMBERED_JOBS}") is None
    assert limits.forget("large-0") is None
    limit = await limits.take("large-1", has_values=True)
    assert limit.tags == 10_000
    assert not limit.admits("scalar", "another")
    assert limit.admits("scalar", "tag-9")
