"""The tasks of parked streams: nothing is decided about them, and their places become free as they end."""

from trackside.domain.folding.streams import Streams
from trackside.domain.streams.stream import Stream
from trackside.scheduler.planning.cluster_state import ClusterState


class ParkedTasks:
    """Which streams are parked; what waits in them is placed once they go on.

    What runs goes on running. That it has ended is in the log, though the fold waits with it: its place is
    given to others then, or parked streams would fill all devices.
    """

    def __init__(self, cluster: ClusterState, streams: Streams) -> None:
        self._cluster = cluster
        self.streams: set[str] = set()
        for stream in streams.by_id.values():
            if stream.waits:
                self.update(stream)

    def take_in(self, stream: Stream, task_id: str) -> None:
        """Takes in a record of a parked stream, which may be about a task."""
        if stream.stream_id not in self.streams:
            self.update(stream)
        elif stream.parked is not None and task_id in stream.parked.heard:
            self._take_in_heard(task_id, is_over=stream.parked.heard[task_id])

    def update(self, stream: Stream) -> None:
        """Takes in that a stream is parked, or goes on."""
        if not stream.waits:
            self.streams.discard(stream.stream_id)
            for task in stream.tasks.values():
                self._cluster.update(stream.stream_id, task)
            return
        if stream.stream_id not in self.streams:
            self.streams.add(stream.stream_id)
            for task in stream.tasks.values():
                self._cluster.set_aside(task)
        for task_id, is_over in () if stream.parked is None else stream.parked.heard.items():
            self._take_in_heard(task_id, is_over=is_over)

    def _take_in_heard(self, task_id: str, *, is_over: bool) -> None:
        self._cluster.unanswered.pop(task_id, None)
        if is_over:
            self._cluster.release(task_id)
