"""Adoptions of attempts, drawn by chance: as the next incarnations of a worker write them, or none should."""

from random import Random

from tests.unit.domain.given import adopted
from trackside.contracts.tasks import AttemptAdopted
from trackside.domain.task import Attempt


def next_adoption(random: Random, attempt: Attempt) -> AttemptAdopted:
    """Draws the adoption by the next incarnation; where one has died early, the log lacks that of this."""
    further = random.choice([0, 0, 1])
    *lacks, name = (
        f"{attempt.incarnations[0]}.{len(attempt.incarnations) + at}" for at in range(further + 1)
    )
    where = {"attempt": attempt.number, "placement": attempt.placement}
    return adopted(**where, incarnation=name, earlier=(*attempt.incarnations, *lacks))
