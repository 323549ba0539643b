"""What reads directories of event files holds after many imports what it has held after a few."""

import pytest

from tests.growth import Held, assert_keeps_nothing, counted_from_here, held_here
from tests.integration.summary_indexer.watched import Runs, begin_file, points, until_read
from tests.stack import Servers
from trackside.eventlog.kafka.kafka_log import KafkaLog


async def assert_imports_keep_nothing(runs: Runs, first: int, last: int) -> None:
    file, step = begin_file(runs.base / "a", steps=[0]), 0

    async def run(count: int) -> None:
        nonlocal step
        for _ in range(count):
            step += 1
            points(file, [step])
            report = await runs.read_in()
            assert (report.points, report.problems) == (1 if step > 1 else 2, {})

    async def held() -> dict[str, Held]:
        return {"importer": held_here(runs.folder)}

    with counted_from_here():
        await assert_keeps_nothing(run, held, first, last)


async def test_a_log_keeps_no_reader_that_was_closed(stack: Servers) -> None:
    async with KafkaLog(stack.kafka_bootstrap, "test") as opened:

        async def run(count: int) -> None:
            for _ in range(count):
                await opened.reader({("t", 0): 0}).close()

        async def held() -> dict[str, Held]:
            return {"log": held_here()}

        with counted_from_here():
            await assert_keeps_nothing(run, held, 1_000, 3_000)


async def test_an_importer_keeps_nothing_of_an_import(own_runs: Runs) -> None:
    await assert_imports_keep_nothing(own_runs, 20, 60)


@pytest.mark.long
@pytest.mark.timeout(1_800)
async def test_an_importer_holds_after_3000_imports_what_it_has_held_after_1000(own_runs: Runs) -> None:
    await assert_imports_keep_nothing(own_runs, 1_000, 3_000)


@pytest.mark.long
@pytest.mark.timeout(1_800)
async def test_a_watcher_holds_after_3000_looks_what_it_has_held_after_1000(own_runs: Runs) -> None:
    file, step = begin_file(own_runs.base / "a", steps=[0]), 0
    with counted_from_here():
        async with own_runs.watching() as report:

            async def run(count: int) -> None:
                nonlocal step
                for _ in range(count):
                    step += 1
                    points(file, [step])
                    await until_read(report, step + 1)

            async def held() -> dict[str, Held]:
                return {"watcher": held_here(own_runs.folder)}

            await assert_keeps_nothing(run, held, 1_000, 3_000)
