"""The board that shows whether all is well: readiness, lag, latency and its goals, work, failures."""

from boards import annotations, links, work_panels
from boards.board import Board, Place, Section
from boards.panels import Panel, graph, number
from boards.queries import RATE, latest, promql, quantile
from boards.style import COUNT, GREEN, ORANGE, PER_MINUTE, RED, SECONDS, SHARE, TRIAL_ENDS, series
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
    ready, lag = series("trackside.health.ready.services"), series("trackside.health.log_lag.seconds")
    progress = series("trackside.dispatcher.oldest_progress.seconds")
    return [
        count_of_faults(
            "Services not ready",
            "Processes that are scraped and say that they are not ready.",
            f"sum(1 - {ready})",
        ),
        number(
            "Log lag",
            "Age of the oldest record that a service has not folded yet; the worst service.",
            latest(f"max({lag})"),
            unit=SECONDS,
            steps=((None, GREEN), (1, ORANGE), (5, RED)),
        ),
        number(
            "Oldest progress",
            "The longest time without an event of a search that runs.",
            latest(f"max({progress})"),
            unit=SECONDS,
            steps=((None, GREEN), (600, ORANGE), (3600, RED)),
        ),
        work_panels.unschedulable_tasks(),
    ]


def _faults() -> list[Panel]:
    letters = series("trackside.eventlog.dead_letters.records")
    disk = series("trackside.health.disk_low.services")
    parked = series("trackside.dispatcher.parked.streams")
    return [
        work_panels.out_of_memory(),
        work_panels.lost_workers(),
        count_of_faults(
            "Dead letters",
            "Records that could not be decoded or folded, within the range of the board.",
            f"round(sum(increase({letters}[$__range]))) or vector(0)",
        ),
        count_of_faults(
            "Parked streams",
            "Streams of which nothing is decided, because a record of them needs a newer release.",
            f"max({parked}) or vector(0)",
        ),
        count_of_faults(
            "Disks nearly full",
            "Services that start no new task because a disk is nearly full.",
            f"sum({disk})",
        ),
    ]


def _within(name: str, bound: str) -> str:
    """Returns the PromQL of the share of a histogram up to a bound, over the range of the board."""
    bucket, count = series(name) + "_bucket", series(name) + "_count"
    return f'sum(increase({bucket}{{le="{bound}"}}[$__range])) / (sum(increase({count}[$__range])) > 0)'


def _goals() -> list[Panel]:
    ready = series("trackside.health.ready.services")
    return [
        number(
            "Decisions within 0.5 s",
            "From reading a record to the acknowledgement of what was decided. The goal is 95%.",
            latest(_within("trackside.eventlog.decision.seconds", "0.5")),
            unit=SHARE,
            steps=_DECISIONS,
        ),
        number(
            "Commands answered within 1 s",
            "From the record of a command to that of its answer. The goal is 99%.",
            latest(_within("trackside.dispatcher.command.seconds", "1.0")),
            unit=SHARE,
            steps=_COMMANDS,
        ),
        number(
            "Records folded within 1 s",
            "From the append of a record to its fold in each service that reads it. The goal is 99%.",
            latest(_within("trackside.eventlog.hop.seconds", "1.0")),
            unit=SHARE,
            steps=_COMMANDS,
        ),
        number(
            "Services ready",
            "Share of the time that services were ready, of those that were scraped. The goal is 99.9%.",
            latest(f"avg(avg_over_time({ready}[$__range]))"),
            unit=SHARE,
            steps=_READY,
        ),
    ]


def _work() -> list[Panel]:
    ended = series("trackside.dispatcher.ended.trials")
    busy, free = series("trackside.scheduler.busy.devices"), series("trackside.scheduler.free.devices")
    return [
        graph(
            "Trials ended per minute",
            "By status. Out of memory has a panel of its own on the board of the fleet.",
            promql(f"sum by (status) (rate({ended}{RATE})) * 60", "{{status}}"),
            unit=PER_MINUTE,
            style="area",
            statuses=TRIAL_ENDS,
        ),
        work_panels.waiting_tasks(),
        graph(
            "Devices",
            "Devices of live workers with and without tasks.",
            promql(f"sum({busy})", "busy"),
            promql(f"sum({free})", "free"),
            unit=COUNT,
            style="area",
            statuses=("busy", "free"),
        ),
    ]


def _searches() -> list[Panel]:
    running = series("trackside.dispatcher.running.searches")
    slots = series("trackside.dispatcher.waiting_slots.trials")
    started = series("trackside.dispatcher.started.searches")
    finished = series("trackside.dispatcher.ended.searches")
    return [
        graph(
            "Searches that run",
            "Searches that have not ended and are not paused, and their open slots without a suggestion.",
            promql(f"sum({running})", "running searches"),
            promql(f"sum({slots})", "slots without a suggestion"),
            unit=COUNT,
        ),
        graph(
            "Searches started and ended",
            "In each interval of the graph; ended ones by status.",
            promql(f"sum(increase({started}[$__interval]))", "started"),
            promql(f"sum by (status) (increase({finished}[$__interval]))", "{{status}}"),
            unit=COUNT,
            style="steps",
            statuses=("DONE", "STOPPED", "ERROR"),
            interval="30s",
        ),
        graph(
            "Commands per minute",
            "Received and accepted commands, and refused ones by code.",
            promql(f"sum(rate({series('trackside.dispatcher.received.commands')}{RATE})) * 60", "received"),
            promql(f"sum(rate({series('trackside.dispatcher.accepted.commands')}{RATE})) * 60", "accepted"),
            promql(
                f"sum by (code) (rate({series('trackside.dispatcher.refused.commands')}{RATE})) * 60 > 0",
                "refused: {{code}}",
            ),
            unit=PER_MINUTE,
        ),
    ]


def _speed() -> list[Panel]:
    decision, command = "trackside.eventlog.decision.seconds", "trackside.dispatcher.command.seconds"
    lag, ignored = series("trackside.health.log_lag.seconds"), series("trackside.eventlog.ignored.events")
    return [
        graph(
            "Time of a decision",
            "From reading a record to the acknowledgement of what was decided.",
            promql(quantile(0.5, decision, by="service"), "{{service}} median", exemplars=True),
            promql(quantile(0.99, decision, by="service"), "{{service}} p99", exemplars=True),
            unit=SECONDS,
            steps=((None, GREEN), (0.5, RED)),
        ),
        graph(
            "Time to answer a command",
            "From the record of a command to that of its answer.",
            promql(quantile(0.5, command), "median", exemplars=True),
            promql(quantile(0.99, command), "p99", exemplars=True),
            unit=SECONDS,
            steps=((None, GREEN), (1, RED)),
        ),
        work_panels.wait_for_a_device(),
        graph(
            "Log lag by service",
            "Age of the oldest record that is not folded yet, over all topics of a service.",
            promql(f"max by (service, instance) ({lag})", "{{service}} {{instance}}"),
            unit=SECONDS,
            steps=((None, GREEN), (5, RED)),
        ),
        graph(
            "Decisions without effect per minute",
            "Events of decisions that another instance had made (duplicate) or that came too late "
            "(overtaken).",
            promql(f"sum by (service, verdict) (rate({ignored}{RATE})) * 60", "{{service}} {{verdict}}"),
            unit=PER_MINUTE,
        ),
        work_panels.lag_of_read_models(),
    ]
