"""Events of models, drawn by chance: as services write them, or nobody should."""

from random import Random
from typing import Any, get_args

from tests.unit.domain.given_models import added, staged, tagged
from trackside.aggregates.model import messages
from trackside.aggregates.model.state import Model
from trackside.contracts.envelope.message import Message
from trackside.domain.streams.stream import Stream

REGISTERED = messages.ModelRegistered(command_id="c-1", model=messages.ModelSpec(tags=["images"]))
STAGES: tuple[Any, ...] = get_args(messages.ModelStage)
Move = list[Message]


def moves(random: Random, stream: Stream[Model]) -> list[Move]:
    model = stream.root
    change = model.changes + 1
    if model.status is messages.ModelStatus.ARCHIVED:
        return [[messages.ModelRestored(command_id="c-9", change=change)]]
    found: list[Move] = [[added(len(model.versions) + 1)], [tagged(change, added=[random.choice("abc")])]]
    if model.versions:
        number, stage = random.randint(1, len(model.versions)), random.choice(STAGES)
        found += [[tagged(change, number, removed=["a"], labels={"x": random.choice(["1", None])})]]
        if model.versions[number - 1].stage != stage:
            found += [[staged(change, number, stage, model.holder(stage))]] * 2
    if random.random() < 0.1:
        found.append([messages.ModelArchived(command_id="c-8", change=change)])
    return found


def guesses(random: Random, stream: Stream[Model]) -> list[Message]:
    """Returns events of a model out of their order, or about versions that it may not have."""
    count = len(stream.root.versions)
    number = random.randint(1, count + 2)
    change = stream.root.changes + random.randrange(3)
    other = added(number).model_copy(update={"version": random.randint(1, count + 2)})
    return [
        *(REGISTERED, added(number), other, tagged(change, number, added=["z"])),
        staged(change, number, random.choice(STAGES), random.choice([None, 1, 2])),
        messages.ModelArchived(command_id="c-8", change=change),
        messages.ModelRestored(command_id="c-9", change=change),
    ]
