"""A summary job as tests tell of it."""

from tests.unit.domain.given import Told, accepted, received
from trackside.aggregates.summary import messages
from trackside.contracts.envelope.message import Event
from trackside.domain.outcome import Outcome

A, B = "events.out.tfevents.1.a", "events.out.tfevents.2.b"
TASK = messages.SummarizedTask(stream="s", task="s.1")
DIRECTORY = messages.SummaryJobSpec(base="/data", path="runs/1")


def found(spec: messages.SummaryJobSpec = DIRECTORY) -> Told:
    told = Told()
    told.tell(received(), accepted(), messages.SummaryJobFound(command_id="c-1", job=spec))
    return told


def tell(told: Told, *events: Event) -> list[Outcome]:
    outcomes = []
    for event in events:
        if getattr(event, "sequence", None) == 0:
            event = event.model_copy(update={"sequence": told.stream.root.reported + 1})
        outcomes += told.tell(event)
    return outcomes


def indexed(begin: int, end: int, file: str = A, sequence: int = 0) -> messages.SummaryFileIndexed:
    return messages.SummaryFileIndexed(sequence=sequence, file=file, begin=begin, end=end, records=1)


def quarantined(offset: int, file: str = A) -> messages.SummaryFileQuarantined:
    code = "damaged_record"
    return messages.SummaryFileQuarantined(sequence=0, file=file, offset=offset, code=code, again_at_ms=5_000)


def replaced(file: str = A) -> messages.SummaryFileReplaced:
    return messages.SummaryFileReplaced(sequence=0, file=file)


def vanished() -> messages.SummaryJobVanished:
    return messages.SummaryJobVanished(sequence=0)
