"""The board that shows whether all is well: readiness, lag, latency and its goals, work, failures."""

from boards import annotations, links, work_panels
from boards.board import Board, Place, Section
from boards.panels import Panel, graph, number
from boards.queries import latest, promql, quantiles
from boards.style import GREEN, ORANGE, RED, SHARE, TRIAL_ENDS, series
from boards.work_panels import count_of_faults

_READY, _COMMANDS, _DECISIONS = (
    ((None, RED), (1 - 2 * missed, ORANGE), (1 - missed, GREEN)) for missed in (0.001, 0.01, 0.05)
)
"""Colours of a share by its goal; those of commands and decisions are the objectives of the alerts."""


def board() -> Board:
    """Returns the board."""
    return Board(
        uid=links.OVERVIEW,
        description="Whether Trackside is well, and if not, which board has the reason.",
        sections=[
            Section("Is it well", [Place(panel, 3, 4) for panel in [*_health(), *_faults()]]),
            Section("Goals", [Place(panel, 6, 4) for panel in _goals()]),
            Section("Work", [Place(panel, 8, 8) for panel in [*_work(), *_searches()]]),
            Section("Speed", [Place(panel, 8, 8) for panel in _speed()]),
        ],
        annotations=[annotations.searches(), annotations.workers(), annotations.restarts()],
        refresh="10s",
    )


def _health() -> list[Panel]:
    return [
        count_of_faults(
            "Services not ready",
            "Processes that are scraped and say that they are not ready.",
            "sum(1 - trackside.health.ready.services)",
        ),
        number(
            "Log lag",
            "Age of the oldest record that a service has not folded yet; the worst service.",
            latest("max(trackside.health.log_lag.seconds)"),
            steps=((None, GREEN), (1, ORANGE), (5, RED)),
        ),
        number(
            "Oldest progress",
            "The longest time without an event of a search that runs.",
            latest("max(trackside.dispatcher.oldest_progress.seconds)"),
            steps=((None, GREEN), (600, ORANGE), (3600, RED)),
        ),
        work_panels.unschedulable_tasks(),
    ]


def _faults() -> list[Panel]:
    return [
        work_panels.out_of_memory(),
        work_panels.lost_workers(),
        count_of_faults(
            "Dead letters",
            "Records that could not be decoded or folded, within the range of the board.",
            "round(sum(increase(trackside.eventlog.dead_letters.records[$__range]))) or vector(0)",
        ),
        count_of_faults(
            "Parked streams",
            "Streams of which nothing is decided, because a record of them needs a newer release.",
            "max(trackside.dispatcher.parked.streams) or vector(0)",
        ),
        count_of_faults(
            "Disks nearly full",
            "Services that start no new task because a disk is nearly full.",
            "sum(trackside.health.disk_low.services)",
        ),
    ]


def _within(name: str, bound: str) -> str:
    """Returns the PromQL of the share of a histogram up to a bound, over the range of the board."""
    bucket, count = series(name) + "_bucket", series(name) + "_count"
    return f'sum(increase({bucket}{{le="{bound}"}}[$__range])) / (sum(increase({count}[$__range])) > 0)'


def _goals() -> list[Panel]:
    return [
        number(
            "Decisions within 0.5 s",
            "From reading a record to the acknowledgement of what was decided. The goal is 95%.",
            latest(_within("trackside.eventlog.decision.seconds", "0.5")),
            steps=_DECISIONS,
        ),
        number(
            "Commands answered within 1 s",
            "From the record of a command to that of its answer. The goal is 99%.",
            latest(_within("trackside.dispatcher.command.seconds", "1.0")),
            steps=_COMMANDS,
        ),
        number(
            "Records folded within 1 s",
            "From the append of a record to its fold in each service that reads it. The goal is 99%.",
            latest(_within("trackside.eventlog.hop.seconds", "1.0")),
            steps=_COMMANDS,
        ),
        number(
            "Services ready",
            "Share of the time that services were ready, of those that were scraped. The goal is 99.9%.",
            latest("avg(avg_over_time(trackside.health.ready.services[$__range]))"),
            unit=SHARE,
            steps=_READY,
        ),
    ]


def _work() -> list[Panel]:
    return [
        graph(
            "Trials ended per minute",
            "By status. Out of memory has a panel of its own on the board of the fleet.",
            promql("sum by (status) (rate(trackside.dispatcher.ended.trials[rate])) * 60"),
            style="area",
            statuses=TRIAL_ENDS,
        ),
        work_panels.waiting_tasks(),
        graph(
            "Devices",
            "Devices of live workers with and without tasks.",
            promql("sum(trackside.scheduler.busy.devices)", "busy"),
            promql("sum(trackside.scheduler.free.devices)", "free"),
            style="area",
            statuses=("busy", "free"),
        ),
    ]


def _searches() -> list[Panel]:
    return [
        graph(
            "Searches that run",
            "Searches that have not ended and are not paused, and their open slots without a suggestion.",
            promql("sum(trackside.dispatcher.running.searches)", "running searches"),
            promql("sum(trackside.dispatcher.waiting_slots.trials)", "slots without a suggestion"),
        ),
        graph(
            "Searches started and ended",
            "In each interval of the graph; ended ones by status.",
            promql("sum(increase(trackside.dispatcher.started.searches[$__interval]))", "started"),
            promql("sum by (status) (increase(trackside.dispatcher.ended.searches[$__interval]))"),
            style="steps",
            statuses=("DONE", "STOPPED", "ERROR"),
            interval="30s",
        ),
        graph(
            "Commands per minute",
            "Received and accepted commands, and refused ones by code.",
            promql("sum(rate(trackside.dispatcher.received.commands[rate])) * 60", "received"),
            promql("sum(rate(trackside.dispatcher.accepted.commands[rate])) * 60", "accepted"),
            promql(
                "sum by (code) (rate(trackside.dispatcher.refused.commands[rate])) * 60 > 0",
                "refused: {{code}}",
            ),
        ),
    ]


def _speed() -> list[Panel]:
    return [
        graph(
            "Time of a decision",
            "From reading a record to the acknowledgement of what was decided.",
            *quantiles(
                "trackside.eventlog.decision.seconds",
                {0.5: "{{service}} median", 0.99: "{{service}} p99"},
                by="service",
                exemplars=True,
            ),
            steps=((None, GREEN), (0.5, RED)),
        ),
        graph(
            "Time to answer a command",
            "From the record of a command to that of its answer.",
            *quantiles("trackside.dispatcher.command.seconds", {0.5: "median", 0.99: "p99"}, exemplars=True),
            steps=((None, GREEN), (1, RED)),
        ),
        work_panels.wait_for_a_device(),
        graph(
            "Log lag by service",
            "Age of the oldest record that is not folded yet, over all topics of a service.",
            promql("max by (service, instance) (trackside.health.log_lag.seconds)"),
            steps=((None, GREEN), (5, RED)),
        ),
        graph(
            "Decisions without effect per minute",
            "Events of decisions that another instance had made (duplicate) or that came too late "
            "(overtaken).",
            promql("sum by (service, verdict) (rate(trackside.eventlog.ignored.events[rate])) * 60"),
        ),
        work_panels.lag_of_read_models(),
    ]
