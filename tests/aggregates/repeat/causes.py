"""The events of a repeat as short lines."""

from tests.aggregates.repeat.messages import RepeatStarted
from tests.aggregates.repeat.state import Repeat
from trackside.contracts.envelope.message import Message
from trackside.domain.streams.causality import Causality


class RepeatCausality(Causality[Repeat]):
    """All that a repeat does rests on what changed it last."""

    def last_control(self, root: Repeat) -> int:
        return root.stopped_at

    def text_of(self, event: Message) -> str:
        return f"{event.repeat.times} runs" if isinstance(event, RepeatStarted) else ""
