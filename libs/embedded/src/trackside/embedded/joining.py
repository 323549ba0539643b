"""Adds Prometheus and Grafana to a stack that runs already."""

import os
from contextlib import ExitStack
from dataclasses import replace

from trackside.embedded.dashboards.servers import PORTS, find_programs, prepare
from trackside.embedded.errors import StackError
from trackside.embedded.folder import PLAN_CHANGED, read_plan, write_plan
from trackside.embedded.kafka.jars import ReportProgress
from trackside.embedded.ports import kept_ports
from trackside.embedded.settings import DashboardSettings
from trackside.embedded.stack import Stack
from trackside.embedded.supervision.readiness import await_added, await_optional


def add_dashboards(found: Stack, settings: DashboardSettings, progress: ReportProgress) -> Stack:
    """Writes the dashboards' folder of a stack that runs, and starts what is found here and does not run yet.

    StackError if an older release started the stack, or as `prepare` does.
    """
    folder, running = found.folder, found.status.processes
    plan = read_plan(folder)
    stack = [each for each in plan.processes if not each.optional or each.health_port is not None]
    if "postgres" in running and not plan.reader_dsn:
        raise StackError(
            f"an older release started the stack in {folder}, which has no login for dashboards: stop it "
            "with `trackside down`, and start it again"
        )
    outside = {*find_programs(settings).missing, *(set(PORTS) & running.keys())}
    with ExitStack() as holds:
        ports = holds.enter_context(kept_ports(folder, PORTS, outside))
        processes = prepare(folder, stack, ports, plan.reader_dsn, settings)
        new = [each for each in processes if each.name not in running]
        if new:
            write_plan(folder, replace(plan, processes=[*plan.processes, *new]))
            os.kill(found.status.supervisor_pid, PLAN_CHANGED)
            await_added(folder, {each.name for each in new})
        return Stack(folder, await_optional(folder, progress))
