"""The dispatcher as the reactor drives it: what it tells the assessor's past of a trial's life."""

from tests.unit.domain.given import Told, begun, report, status, task_active, token
from trackside.contracts.searches import Assessor
from trackside.contracts.tasks import Reservation, TaskError, TaskInterrupted, TaskStatus
from trackside.contracts.topics import Topics
from trackside.dispatcher.advice import Advice
from trackside.dispatcher.history import reported_so_far
from trackside.dispatcher.lanes import HistoryItem, Lane
from trackside.dispatcher.service import Dispatcher
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.eventlog.author import Author
from trackside.eventlog.background import Background
from trackside.eventlog.memory import MemoryLog

TOPICS = Topics()


class Listening(Advice):
    """Remembers what it is told, and asks nobody."""

    def __init__(self) -> None:
        super().__init__(Lane("tuner", timeout_s=1), Lane("assessor", timeout_s=1), Background())
        self.told: list[HistoryItem] = []

    def reported(self, stream: Stream, trial: int, item: HistoryItem) -> None:
        """Hears what happened to a trial."""
        self.told.append(item)


def heard(told: Told) -> list[HistoryItem]:
    """Lets a dispatcher fold a log, and gives what its advice heard."""
    advice = Listening()
    author = Author("dispatcher", "1")
    dispatcher = Dispatcher(MemoryLog(), TOPICS, author, Streams(), advice, Background())
    for record in told.records:
        dispatcher.fold(record)
    return advice.told


def test_an_attempt_that_trains_again_after_an_interrupt_restarts_the_past_of_its_trial() -> None:
    told = task_active(assessor=Assessor())
    told.tell(status(TaskStatus.TRAINING))
    told.tell(report(1, 0.1))
    told.tell(
        TaskInterrupted(
            **token(),
            interrupt=1,
            resource="device",
            reserved=Reservation(cuda_memory_bytes=2**30, estimated_by="raised"),
            error=TaskError(stage="TRAIN", type="OutOfMemoryError", message="CUDA out of memory"),
        )
    )
    told.tell(status(TaskStatus.TRAINING, interrupts=1))
    told.tell(report(1, 0.2, interrupts=1))
    told.tell(begun())  # a repeat, which changes nothing
    assert heard(told) == [("reported", 0, 1, 0.1), ("restarted", 0), ("reported", 0, 1, 0.2)]
    assert reported_so_far(told.search, told.stream.tasks) == [("reported", 0, 1, 0.2)]
