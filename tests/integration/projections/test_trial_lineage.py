"""Which trials a trial continues by their checkpoints, from the rows of a search."""

from contextlib import closing

from tests.integration.projections.given_trials import GivenTrial, write_search
from tests.integration.projections.harness import query
from trackside.projections.read_pool import ReadModelsPool
from trackside.projections.trial_lineage import TrialLineage, read_trial_lineage


async def lineage(dsn: str, trial: int, search_id: str = "s") -> TrialLineage:
    with closing(ReadModelsPool(dsn, size=1)) as pool:
        async with pool.read() as models:
            return await read_trial_lineage(models, search_id, trial)


async def given_line(dsn: str) -> None:
    """Writes two searches of five trials: 2 continues 0, 3 and 4 continue 2."""
    for search_id in ("s", "other"):
        await write_search(dsn, search_id, [GivenTrial({}, float(number)) for number in range(5)])
    for trial, before, step in ((2, 0, 10), (3, 2, 20), (4, 2, 30)):
        await query(
            dsn,
            f"UPDATE trackside.trials SET from_trial = {before}, from_step = {step} "  # noqa: S608 - numbers
            f"WHERE search_id = 's' AND trial = {trial}",
        )


async def test_a_trial_has_those_that_it_continues_in_order_and_those_that_continue_it(database: str) -> None:
    await given_line(database)
    found = await lineage(database, 2)
    assert [(each["trial"], each["from_trial"], each["from_step"]) for each in found.line] == [
        (0, None, None),
        (2, 0, 10),
    ]
    assert [each["trial"] for each in found.continuations] == [3, 4]
    last = await lineage(database, 4)
    assert [each["trial"] for each in last.line] == [0, 2, 4] and not last.continuations
    assert last


async def test_a_trial_without_a_shared_checkpoint_has_no_lineage(database: str) -> None:
    await given_line(database)
    assert not await lineage(database, 1)
    assert not await lineage(database, 2, "other")
    assert not await lineage(database, 99)
