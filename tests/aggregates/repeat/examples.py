"""One example of every message of repeats, with every field in it."""

from tests.aggregates.repeat.messages import (
    ExtendRepeat,
    RepeatArchived,
    RepeatEnded,
    RepeatExtended,
    RepeatExtensionAnswered,
    RepeatSpec,
    RepeatStarted,
    RepeatStatus,
    RepeatStopRequested,
    StartRepeat,
    StopRepeat,
)
from trackside.contracts.message import Message

SPEC = RepeatSpec(
    name="seeds", task_type="digits", parameters={"epochs": 3}, times=5, at_once=2, extends="seeds-2"
)
EXAMPLES: list[Message] = [
    StartRepeat(**dict(SPEC)),
    ExtendRepeat(more=2),
    StopRepeat(reason="not needed"),
    RepeatStarted(command_id="c-1", repeat=SPEC),
    RepeatExtended(command_id="c-3", times=7),
    RepeatStopRequested(command_id="c-2", reason="not needed"),
    RepeatEnded(status=RepeatStatus.DONE, finished=4),
    RepeatExtensionAnswered(asked_at=12, refused="already_terminal"),
    RepeatArchived(due_ms=1_767_225_600_000),
]
