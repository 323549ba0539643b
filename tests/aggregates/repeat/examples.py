"""One example of every message of repeats, with every field in it."""

from tests.aggregates.repeat import messages
from trackside.contracts.envelope.message import Message

SPEC = messages.RepeatSpec(
    name="seeds", task_type="digits", parameters={"epochs": 3}, times=5, at_once=2, extends="seeds-2"
)
EXAMPLES: list[Message] = [
    messages.StartRepeat(**dict(SPEC)),
    messages.ExtendRepeat(more=2),
    messages.StopRepeat(reason="not needed"),
    messages.RepeatStarted(command_id="c-1", repeat=SPEC),
    messages.RepeatExtended(command_id="c-3", times=7),
    messages.RepeatStopRequested(command_id="c-2", reason="not needed"),
    messages.RepeatEnded(status=messages.RepeatStatus.DONE, finished=4),
    messages.RepeatExtensionAnswered(asked_at=12, refused="already_terminal"),
    messages.RepeatArchived(due_ms=1_767_225_600_000),
]
