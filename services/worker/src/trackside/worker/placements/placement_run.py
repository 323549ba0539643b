"""Makes the run of a placement's attempt: a new one, or one that continues what an earlier worker began."""

from collections.abc import Callable, Mapping

import structlog

from trackside.worker.artifacts.uploads import Uploads
from trackside.worker.attempts.attempt import AttemptRun
from trackside.worker.attempts.spec import AttemptContext, AttemptListener, checkpoints_of
from trackside.worker.host.devices import HostDevice
from trackside.worker.placements.local_placement import LocalPlacement, keep_s_of, spec_of
from trackside.worker.placements.placement_record import PlacementRecord, write_record

log = structlog.get_logger("trackside.worker")


def make_run(
    context: AttemptContext,
    placement: LocalPlacement,
    host_devices: Mapping[str, HostDevice],
    listener_of: Callable[[Uploads], AttemptListener],
    traceparent: str,
) -> AttemptRun:
    """Makes the run of a placement and its uploads; what an earlier worker began is restored."""
    entry = placement.entry
    uploads = Uploads(context.store, context.journal.spool(entry), placement.reporter)
    placement.uploads = uploads
    checkpoints = checkpoints_of(context, entry, placement.command, uploads)
    devices = [host_devices[device_id] for device_id in entry.device_ids]
    outlives = context.forkserver.outlives and _is_recorded(context, placement)
    keep_s = keep_s_of(placement.command, context.forkserver.keep_s) if outlives else 0.0
    spec = spec_of(placement, devices, checkpoints, keep_s)
    run = AttemptRun(context, spec, placement.reporter, listener_of(uploads), traceparent)
    if placement.adopted is not None:
        uploads.restore()
        if checkpoints is not None:
            own = [checkpoint for _, checkpoint in uploads.checkpoints]
            checkpoints.offered_before = [*own, *placement.command.checkpoints]
        run.restore(placement.adopted.process, placement.adopted.progress)
    return run


def _is_recorded(context: AttemptContext, placement: LocalPlacement) -> bool:
    """Records what the next worker has to know of a placement; returns whether that was possible."""
    record = PlacementRecord(placement.command, placement.task_type)
    try:
        write_record(context.journal, placement.entry, record)
    except OSError as error:
        log.warning("a task would not outlive its worker", task=placement.key, reason=str(error))
        return False
    return True
