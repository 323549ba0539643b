"""Events of a newer release that park a stream, and events that have them skipped, rightly or not."""

from random import Random

from tests.unit.domain.given import Told, record_of
from tests.unit.domain.plausible import Chance
from trackside.contracts.streams.parking import RecordSkipped, UnknownRecord
from trackside.domain.streams.stream import Stream


class ParkingChance(Chance):
    """Draws histories in which the stream is parked now and then, and goes on later."""

    def _stray(self, told: Told, stream: Stream | None) -> None:
        if self.random.random() < 0.12:
            park_or_skip(self.random, told, stream)
        else:
            super()._stray(told, stream)


def park_or_skip(random: Random, told: Told, stream: Stream | None) -> None:
    parked = None if stream is None else stream.parked
    if parked is None or random.random() < 0.2:
        role = random.choice(["dispatcher", "scheduler", "worker", "somebody"])
        told.fold(record_of(UnknownRecord(unknown_type="trackside.thing-done.v7"), 0, role))
        return
    offset = parked.offset + (random.random() < 0.3)
    told.tell(RecordSkipped(command_id="c-skip", partition=3, offset=offset, reason="an accident"))
