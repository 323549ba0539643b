"""The tasks of parked streams: nothing is decided about them, and their places become free as they end."""

from typing import Final

from trackside.contracts.message import Message, Record
from trackside.contracts.tasks import AttemptEnded, TaskInterrupted, TaskRefused, TaskReturned
from trackside.domain import parking
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.domain.task_events import task_of
from trackside.scheduler.cluster_state import ClusterState

_ENDS: Final = (AttemptEnded, TaskInterrupted, TaskRefused, TaskReturned)


class ParkedTasks:
    """Which streams are parked; what waits in them is placed once they go on.

    What runs goes on running. That it has ended is in the log, though the fold waits with it: its place is
    given to others then, or parked streams would fill all devices.
    """

    def __init__(self, cluster: ClusterState, streams: Streams) -> None:
        self._cluster = cluster
        self._aggregates = streams.aggregates
        self.streams: set[str] = set()
        for stream in streams.by_id.values():
            if stream.parked is not None:
                self._park(stream)
                for held in parking.records_of(stream.parked, "", stream.partition, self._aggregates.codec):
                    self._take_in_held(stream, held.message)

    def take_in(self, stream: Stream, outcome: Outcome, record: Record) -> None:
        """Takes in a record of a parked stream, or one that makes it go on."""
        if stream.parked is None:
            self.streams.discard(stream.stream_id)
            for task in stream.tasks.values():
                self._cluster.update(stream.stream_id, task)
        elif outcome is Outcome.PARKED:
            self._park(stream)
            self._take_in_held(stream, record.message)

    def _park(self, stream: Stream) -> None:
        if stream.stream_id not in self.streams:
            self.streams.add(stream.stream_id)
            for task in stream.tasks.values():
                self._cluster.set_aside(task)

    def _take_in_held(self, stream: Stream, message: Message) -> None:
        task = stream.tasks.get(task_of(message))
        if task is None or task.place is None or "worker" not in getattr(message, "written_by", ()):
            return
        self._cluster.unanswered.pop(task.task_id, None)
        current = (task.attempt.number, task.attempt.placement)
        if isinstance(message, _ENDS) and (message.attempt, message.placement) == current:
            self._cluster.release(task.task_id)
