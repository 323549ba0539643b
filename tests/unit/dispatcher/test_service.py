"""The rows of an assessor for an interrupted trial."""

from tests.unit.domain.given import begun, report, status, task_active, token
from trackside.aggregates.search.messages import Assessor
from trackside.contracts.tasks import Reservation, TaskError, TaskInterrupted, TaskStatus
from trackside.contracts.topics import Topics
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import AdvisorProcess
from trackside.eventlog.background import Background

TOPICS = Topics()


class Listening(AdviceLoop):
    """Sends no request."""

    def __init__(self) -> None:
        super().__init__(
            AdvisorProcess("tuner", timeout_s=1), AdvisorProcess("assessor", timeout_s=1), Background()
        )


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
    assert told.stream.root.assessor_feed == [(0, 1, 0.1), (0, None, None), (0, 1, 0.2)]
