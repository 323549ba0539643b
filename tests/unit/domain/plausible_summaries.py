"""Events of summary jobs, drawn by chance: as services write them, or nobody should."""

from random import Random

from trackside.aggregates.summary import messages
from trackside.aggregates.summary.state import Summary
from trackside.contracts.envelope.message import Message
from trackside.domain.streams.stream import Stream

FOUND = messages.SummaryJobFound(command_id="c-1", job=messages.SummaryJobSpec(base="/data", path="runs/1"))
FILES = ("events.1", "events.2", "events.3")
Move = list[Message]


def moves(random: Random, stream: Stream[Summary]) -> list[Move]:
    job, change, next_one = stream.root, stream.root.changes + 1, stream.root.reported + 1
    if job.status is messages.SummaryJobStatus.DELETED:
        return [[messages.SummaryJobRestored(command_id="c-9", change=change)]]
    name = random.choice(FILES)
    file = job.files.get(name)
    end = 0 if file is None else file.end
    found: list[Move] = [
        [
            messages.SummaryFileIndexed(
                sequence=next_one, file=name, begin=end, end=end + random.randint(1, 9), records=1
            )
        ]
    ] * 3
    found.append(
        [messages.SummaryJobAnnotated(command_id="c-7", change=change, tag=random.randint(0, 10), remark="a")]
    )
    if file is not None:
        found.append([messages.SummaryFileReplaced(sequence=next_one, file=name)])
        found.append([_quarantined(next_one, name, end)])
        if file.again_at_ms:
            found.append([messages.SummaryFileRetried(command_id="c-8", change=change, file=name)])
    if job.status is messages.SummaryJobStatus.ACTIVE:
        found.append([messages.SummaryJobVanished(sequence=next_one)])
    if random.random() < 0.1:
        found.append([messages.SummaryJobDeleted(command_id="c-6", change=change)])
    return found


def guesses(random: Random, stream: Stream[Summary]) -> list[Message]:
    """Returns events of a summary job out of their order, or about bytes that don't follow."""
    name, begin = random.choice(FILES), random.randint(0, 30)
    change = stream.root.changes + random.randrange(3)
    sequence = stream.root.reported + random.randrange(3)
    return [
        FOUND,
        messages.SummaryFileIndexed(
            sequence=sequence, file=name, begin=begin, end=begin + random.randint(-3, 9)
        ),
        messages.SummaryFileReplaced(sequence=sequence, file=name),
        _quarantined(sequence, name, begin),
        messages.SummaryFileRetried(command_id="c-8", change=change, file=name),
        messages.SummaryJobVanished(sequence=sequence),
        messages.SummaryJobDeleted(command_id="c-6", change=change),
        messages.SummaryJobRestored(command_id="c-9", change=change),
        messages.SummaryJobAnnotated(command_id="c-7", change=change, tag=1),
    ]


def _quarantined(sequence: int, name: str, offset: int) -> messages.SummaryFileQuarantined:
    return messages.SummaryFileQuarantined(
        sequence=sequence, file=name, offset=offset, code="damaged_record", again_at_ms=5_000
    )
