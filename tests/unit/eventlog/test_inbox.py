import asyncio

from trackside.eventlog.reactor.inbox import Inbox


async def test_who_takes_waits_for_the_first_item_and_gets_all_that_is_there_in_its_order() -> None:
    inbox: Inbox[int] = Inbox(8)
    assert not await inbox.take(0)
    taking = asyncio.create_task(inbox.take(60))
    await asyncio.sleep(0)
    inbox.add(7)
    assert list(await taking) == [7]
    for number in range(3):
        await inbox.put(number)
    assert list(await inbox.take(60)) == [0, 1, 2]
    assert not inbox


async def test_who_puts_into_a_full_inbox_waits_until_it_is_emptied() -> None:
    inbox: Inbox[int] = Inbox(2)
    putting = [asyncio.create_task(inbox.put(number)) for number in range(5)]
    taken: list[int] = []
    while len(taken) < 5:
        some = await inbox.take(60)
        assert len(some) <= 2
        taken += some
    await asyncio.gather(*putting)
    assert taken == [0, 1, 2, 3, 4]


async def test_who_gives_up_waiting_leaves_the_items_to_the_next() -> None:
    inbox: Inbox[int] = Inbox(2)
    taking = asyncio.create_task(inbox.take(60))
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    inbox.add(1)
    assert list(await inbox.take(60)) == [1]
