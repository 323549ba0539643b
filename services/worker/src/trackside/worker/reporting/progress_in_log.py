"""How much of a task's progress is in the log: the next worker need not report that again."""

from collections.abc import Callable
from functools import partial

from trackside.eventlog.log import Appended


class ProgressInLog:
    """Counts the messages of a task whose events are all appended; see `worker.child.channel.progress`.

    The events of a placement are appended in their order. So when one is in the log, so are those of all
    messages that were handled before the one that it came from. While it is `muted`, nothing is sent: what
    is handled then is in the log.
    """

    def __init__(self) -> None:
        self.muted = False
        self.handled = 0
        """How many messages were handled."""
        self.appended = 0
        """How many of these are in the log, with all their events."""

    def when_appended(self, then: Callable[[Appended], None] | None) -> Callable[[Appended], None] | None:
        """Returns what is called when an event that is sent now is appended."""
        return partial(self._note, self.handled, then) if self.handled > self.appended else then

    def _note(self, handled: int, then: Callable[[Appended], None] | None, place: Appended) -> None:
        self.appended = max(self.appended, handled)
        if then is not None:
            then(place)
