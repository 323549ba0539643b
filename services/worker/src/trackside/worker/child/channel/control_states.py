"""Which control messages of a worker make sense when, for a task process. Pure.

LOAD and TRAIN may come together; each is executed in its turn. After a training that ran out of memory the
process waits for another TRAIN. Until its work is over it may ask for another trial's parameters: the answer
is NEXT, or for its last checkpoint: CHECKPOINT, for an artifact: FETCHED, for room in the spool: STORED. An
INSTRUCTION may come at any time.

    new -LOAD-> loading -TRAIN-> training -ran out of memory-> loading
      any of these -EXIT-> leaving             training -ended-> over
"""

from enum import StrEnum

from trackside.worker.messages.process_messages import (
    CheckpointAnswer,
    ControlMessage,
    ExitCommand,
    FetchAnswer,
    InstructionMessage,
    ParametersAnswer,
    type_of,
)
from trackside.worker.messages.report_messages import StoredAnswer


class ControlState(StrEnum):
    """The state of a task process by its control messages; the value continues `the task ...`."""

    NEW = "has not been told to load"
    LOADING = "has been told to load, and waits for its device"
    TRAINING = "has been told to train"
    LEAVING = "has been told to exit"
    OVER = "has ended its work"


_ANSWERS = (ParametersAnswer, CheckpointAnswer, FetchAnswer, StoredAnswer)
_NEXT_STATE = {
    (ControlState.NEW, "LOAD"): ControlState.LOADING,
    (ControlState.LOADING, "TRAIN"): ControlState.TRAINING,
}


class ControlGuard:
    """Accepts control messages that make sense after the earlier ones, and rejects others with a reason."""

    def __init__(self) -> None:
        self.state = ControlState.NEW

    def objection(self, message: ControlMessage) -> str | None:
        """Returns why a message is rejected; None if it is accepted, which changes the state."""
        if isinstance(message, InstructionMessage):  # it may come at any time; nobody may ask for it any more
            return None
        if isinstance(message, _ANSWERS) and self.state in (ControlState.LOADING, ControlState.TRAINING):
            return None
        following = _NEXT_STATE.get((self.state, type_of(message)))
        if isinstance(message, ExitCommand) and self.state is not ControlState.OVER:
            following = ControlState.LEAVING
        if following is None:
            return f"{type_of(message)} is rejected: the task {self.state}"
        self.state = following
        return None

    def interrupted(self) -> None:
        """Records that the training ran out of memory and may be repeated."""
        if self.state is ControlState.TRAINING:
            self.state = ControlState.LOADING

    def over(self) -> None:
        """Records that the work is over: every later message is rejected."""
        self.state = ControlState.OVER
