"""Panels about tasks, devices and read models that are on several boards."""

from boards.panels import Panel, graph, number
from boards.queries import latest, promql, quantiles
from boards.style import BLUE, GREEN, ORANGE, RED, WAIT_REASONS

NONE_IS_GOOD = ((None, GREEN), (1, RED))


def count_of_faults(title: str, description: str, expression: str) -> Panel:
    """Returns a number that is green at 0 and red from 1 on."""
    return number(title, description, latest(expression), steps=NONE_IS_GOOD)


def unschedulable_tasks() -> Panel:
    """Returns how many tasks wait that no worker can run."""
    return count_of_faults(
        "Unschedulable tasks",
        "Tasks that no live worker can ever run.",
        'sum(trackside.scheduler.queue.tasks{reason="unschedulable"})',
    )


def out_of_memory() -> Panel:
    """Returns how many attempts ended out of memory."""
    return count_of_faults(
        "Out of memory",
        "Attempts that ended out of memory within the range of the board.",
        'round(sum(increase(trackside.worker.ended.tasks{status=~"oom_.*"}[$__range])))',
    )


def lost_workers() -> Panel:
    """Returns how many workers were lost."""
    return count_of_faults(
        "Lost workers",
        "Workers whose lease ran out within the range of the board.",
        "round(sum(increase(trackside.scheduler.lost.workers[$__range])))",
    )


def waiting_tasks() -> Panel:
    """Returns how many tasks wait over time, by reason."""
    return graph(
        "Waiting tasks by reason",
        "`device_free`: a free device fits the task now; `device_busy`: it waits for one; "
        "`retry`: it pauses.",
        promql("sum by (reason) (trackside.scheduler.queue.tasks)"),
        style="area",
        statuses=WAIT_REASONS,
    )


def wait_for_a_device() -> Panel:
    """Returns how long tasks waited until they were assigned."""
    return graph(
        "Wait for a device",
        "From the moment that a task is queued until it is assigned.",
        *quantiles("trackside.scheduler.queue_wait.seconds", {0.5: "median", 0.95: "p95"}, exemplars=True),
    )


def lag_of_read_models() -> Panel:
    """Returns how old the read models are."""
    return graph(
        "Lag of the read models",
        "Age of the oldest record that is not in Postgres yet: how old what the other boards show is.",
        promql("max by (projection) (trackside.projections.lag.seconds)"),
        promql("max(trackside.summary_indexer.lag.seconds)", "points"),
        steps=((None, BLUE), (5, ORANGE)),
    )
