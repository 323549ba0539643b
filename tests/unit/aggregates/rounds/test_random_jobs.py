"""Jobs to which anything happens by chance, with one dispatcher or with rivals."""

from random import Random

import pytest

from tests.unit.aggregates.rounds.random_job import RandomJob, RivalLog, assert_valid

MOVES = 80


def live_through(seed: int, moves: int, *, rivals: bool = False) -> RandomJob:
    random = Random(seed)
    log = RivalLog() if rivals else None
    if log is not None:
        log.random = random
    job = RandomJob(random) if log is None else RandomJob(random, log)
    for _ in range(moves):
        job.move()
    assert_valid(job.log)
    job.come_to_rest()
    job.check()
    return job


@pytest.mark.thorough
@pytest.mark.parametrize("rivals", [False, True])
def test_whatever_happens_or_rivals_say_each_sample_is_in_one_place_and_targets_have_what_is_live(
    seed: int, rivals: bool
) -> None:
    for number in range(200):
        live_through(seed + number, 2 * MOVES, rivals=rivals)
