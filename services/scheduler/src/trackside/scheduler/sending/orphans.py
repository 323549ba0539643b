"""Placements that workers run although the log has replaced or ended them."""

from collections.abc import Collection, Iterable

from trackside.contracts.fleet.fleet import RunningPlacement, WorkerHeartbeat
from trackside.domain.folding.streams import Streams
from trackside.scheduler.sending.device_commands import (
    OrphanKey,
    PendingCommand,
    commands_for_orphans,
    orphan_key,
)


class OrphanWatch:
    """Compares heartbeats with the folded streams.

    A heartbeat that was sent just before the end of a placement may be read after that end, so two heartbeats
    in a row must list an orphan.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._suspects: dict[str, set[OrphanKey]] = {}

    def retain(self, incarnations: Collection[str]) -> None:
        """Forgets all other incarnations."""
        self._suspects = {name: keys for name, keys in self._suspects.items() if name in incarnations}

    def commands(self, heartbeat: WorkerHeartbeat) -> Iterable[PendingCommand]:
        """Returns a stop for every orphan that a heartbeat lists, as the one before did."""
        suspects = {orphan_key(each): each for each in heartbeat.running if not self._is_current(each)}
        before = self._suspects.pop(heartbeat.incarnation, set())
        if suspects:
            self._suspects[heartbeat.incarnation] = set(suspects)
        orphans = [placement for key, placement in suspects.items() if key in before]
        return commands_for_orphans(orphans, heartbeat.worker_id, heartbeat.incarnation, self._changed_at)

    def _is_current(self, running: RunningPlacement) -> bool:
        """Returns whether a placement that a worker runs may still be the current one in the log.

        Heartbeats may be read before the events they rest on: a placement that is not folded yet is current.
        """
        stream = self._streams.find(running.stream)
        task = None if stream is None else stream.tasks.get(running.task_id)
        if stream is None or task is None:
            return stream is None or not stream.is_settled(running.task_id)
        folded = (task.attempt.number, task.attempt.placement)
        reported = (running.attempt, running.placement)
        return folded < reported or (folded == reported and task.place is not None)

    def _changed_at(self, orphan: RunningPlacement) -> int:
        """Returns the offset of the last event that changed the task of an orphan, or ended its stream."""
        stream = self._streams.find(orphan.stream)
        assert stream is not None  # it is an orphan by the state of its stream
        found = stream.tasks.get(orphan.task_id) or stream.root
        return -1 if found is None else int(found.changed_at)
