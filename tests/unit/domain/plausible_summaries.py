"""Events of summary jobs, drawn by chance: as services write them, or nobody should."""

from random import Random

from trackside.aggregates.summary.messages import (
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryFileReplaced,
    SummaryFileRetried,
    SummaryJobAnnotated,
    SummaryJobDeleted,
    SummaryJobFound,
    SummaryJobRestored,
    SummaryJobSpec,
    SummaryJobStatus,
    SummaryJobVanished,
)
from trackside.aggregates.summary.state import Summary
from trackside.contracts.message import Message
from trackside.domain.stream import Stream

FOUND = SummaryJobFound(command_id="c-1", job=SummaryJobSpec(base="/data", path="runs/1"))
FILES = ("events.1", "events.2", "events.3")
Move = list[Message]


def moves(random: Random, stream: Stream[Summary]) -> list[Move]:
    """Gives what may happen to a summary job next."""
    job, change, next_one = stream.root, stream.root.changes + 1, stream.root.reported + 1
    if job.status is SummaryJobStatus.DELETED:
        return [[SummaryJobRestored(command_id="c-9", change=change)]]
    name = random.choice(FILES)
    file = job.files.get(name)
    end = 0 if file is None else file.end
    found: list[Move] = [
        [
            SummaryFileIndexed(
                sequence=next_one, file=name, begin=end, end=end + random.randint(1, 9), records=1
            )
        ]
    ] * 3
    found.append(
        [SummaryJobAnnotated(command_id="c-7", change=change, tag=random.randint(0, 10), remark="a")]
    )
    if file is not None:
        found.append([SummaryFileReplaced(sequence=next_one, file=name)])
        found.append([_quarantined(next_one, name, end)])
        if file.again_at_ms:
            found.append([SummaryFileRetried(command_id="c-8", change=change, file=name)])
    if job.status is SummaryJobStatus.ACTIVE:
        found.append([SummaryJobVanished(sequence=next_one)])
    if random.random() < 0.1:
        found.append([SummaryJobDeleted(command_id="c-6", change=change)])
    return found


def guesses(random: Random, stream: Stream[Summary]) -> list[Message]:
    """Gives events of a summary job out of their order, or about bytes that don't follow."""
    name, begin = random.choice(FILES), random.randint(0, 30)
    change = stream.root.changes + random.randrange(3)
    sequence = stream.root.reported + random.randrange(3)
    return [
        FOUND,
        SummaryFileIndexed(sequence=sequence, file=name, begin=begin, end=begin + random.randint(-3, 9)),
        SummaryFileReplaced(sequence=sequence, file=name),
        _quarantined(sequence, name, begin),
        SummaryFileRetried(command_id="c-8", change=change, file=name),
        SummaryJobVanished(sequence=sequence),
        SummaryJobDeleted(command_id="c-6", change=change),
        SummaryJobRestored(command_id="c-9", change=change),
        SummaryJobAnnotated(command_id="c-7", change=change, tag=1),
    ]


def _quarantined(sequence: int, name: str, offset: int) -> SummaryFileQuarantined:
    return SummaryFileQuarantined(
        sequence=sequence, file=name, offset=offset, code="damaged_record", again_at_ms=5_000
    )
