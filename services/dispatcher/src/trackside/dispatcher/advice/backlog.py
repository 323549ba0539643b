"""Shows as a gauge how many requests wait for each advisor process, and logs when many do."""

import structlog

from trackside.dispatcher.advice.advisor_process import BACKLOG_LIMIT, AdvisorProcess
from trackside.telemetry.metrics import gauge

log = structlog.get_logger("trackside.dispatcher")


class BacklogMonitor:
    """Logs once when an advisor process becomes backlogged, and once when its backlog has cleared."""

    def __init__(self) -> None:
        self._backlogged: set[str] = set()

    def update(self, process: AdvisorProcess) -> None:
        """Sets the gauge of a process, and logs if it has become backlogged or has cleared since."""
        gauge("trackside.dispatcher.lane_backlog.requests").labels(process.name).set(process.backlog)
        if process.backlogged and process.name not in self._backlogged:
            self._backlogged.add(process.name)
            log.warning("advisor backlogged", lane=process.name, waiting=process.backlog, limit=BACKLOG_LIMIT)
        elif not process.backlogged and process.name in self._backlogged:
            self._backlogged.remove(process.name)
            log.info("advisor backlog cleared", lane=process.name, waiting=process.backlog)
