"""The command `replay whatif`: a recorded search, run or job with other fleets, orders, rules, triggers."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trackside.cli.commands.replay import whatif_job, whatif_run
from trackside.cli.commands.replay.whatif_job import TriggerOptions
from trackside.cli.render import screen
from trackside.cli.render.picture_files import write_picture
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.refusals import nearest
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.text import Column, duration, number
from trackside.eventlog.clock import now_ms
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.point_in_time import PointInTime, parse_point_in_time
from trackside.whatif.charts.bar_chart import page, png
from trackside.whatif.compare import (
    Comparison,
    ScenarioGrid,
    ScenarioResult,
    compare,
    parse_assessor,
    parse_placement_order,
)
from trackside.whatif.job_recording import JobRecording
from trackside.whatif.read_stream import AnyRecording, read_stream
from trackside.whatif.run_comparison import ON_END, RunGrid
from trackside.whatif.run_recording import RunRecording

PICTURES = frozenset({".png", ".html", ".htm"})


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """The texts of the options of `replay whatif`: a search has some, a run others, a job its triggers."""

    assessors: Sequence[str] = ()
    workers: Sequence[int] = ()
    slots: int = 1
    policies: Sequence[str] = ()
    concurrency: int | None = None
    on_end: Sequence[str] = ()
    plots: Sequence[Path] = ()
    triggers: TriggerOptions = field(default_factory=TriggerOptions)

    def of_job(self) -> TriggerOptions:
        """Returns the options of an incremental job; raises BadUsage for those of searches and runs."""
        given = self.assessors, self.workers, self.policies, self.concurrency, self.on_end, self.plots
        if any(given):
            raise BadUsage(
                "of incremental jobs there are other options: --threshold, --metric, --deploy-trigger, "
                "--train-threshold, --train-prob, --picture"
            )
        return self.triggers

    def of_search(self) -> ScenarioGrid:
        """Returns the scenarios of a search; raises BadUsage for options of runs and jobs."""
        self._check_no_triggers()
        if self.on_end:
            raise BadUsage("--on-end is for runs of pipelines")
        return ScenarioGrid(
            [parse_assessor(text) for text in self.assessors],
            self.workers,
            self.slots,
            [parse_placement_order(text) for text in self.policies],
            self.concurrency,
        )

    def of_run(self) -> RunGrid:
        """Returns the scenarios of a run; raises BadUsage for options of searches and jobs."""
        self._check_no_triggers()
        if self.assessors or self.plots:
            raise BadUsage("--assessor and --plot are for searches")
        wrong = [text for text in self.on_end if text not in ON_END]
        if wrong:
            raise BadUsage(
                f"--on-end {wrong[0]}: expected one of {', '.join(ON_END)}{nearest(wrong[0], ON_END)}"
            )
        return RunGrid(
            self.workers,
            self.slots,
            [parse_placement_order(text) for text in self.policies],
            [action for action in ON_END if action in self.on_end],
            self.concurrency,
        )

    def _check_no_triggers(self) -> None:
        if self.triggers.given:
            raise BadUsage("thresholds, triggers, --train-prob and --picture are for incremental jobs")


def whatif(stream_id: str, at: str, options: WhatIfOptions, as_json: bool) -> None:
    """Prints a recorded search, run or job under each scenario, and draws a search or job into files."""
    recorded = run(_recorded(stream_id, parse_point_in_time(at, now_ms())))
    if isinstance(recorded, RunRecording):
        whatif_run.compare(recorded, options.of_run(), as_json)
        return
    if isinstance(recorded, JobRecording):
        whatif_job.compare(recorded, options.of_job(), as_json)
        return
    plots, comparison = options.plots, compare(recorded, options.of_search())
    for path in plots:
        write_picture(path, _drawn(comparison, path))
    if as_json:
        screen.emit(comparison.as_json())
    else:
        show(comparison)


def check_plots(plots: Sequence[Path]) -> None:
    """Raises BadUsage for a file whose name has no known suffix of a picture."""
    for path in plots:
        if path.suffix.lower() not in PICTURES:
            raise BadUsage(
                f"--plot {path}: can't tell what to draw; expected a name that ends in .png or .html"
            )


async def _recorded(stream_id: str, point: PointInTime) -> AnyRecording:
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys) as log:
        return await read_stream(
            await find_stream(log, Topics(prefix=addresses.prefix), stream_id, addresses.past_states), point
        )


def _drawn(comparison: Comparison, path: Path) -> bytes:
    return png(comparison) if path.suffix.lower() == ".png" else page(comparison).encode()


def show(comparison: Comparison) -> None:
    """Prints a comparison as a table, and its assumptions."""
    recording, base = comparison.recording, comparison.results[0].search
    took, modelled = (duration(ms / 1000) for ms in (recording.makespan_ms, base.makespan_ms))
    screen.say(
        f"{recording.stream_id}: {len(recording.traces)} trials took {took}, {recording.concurrency} at once "
        f"on {recording.devices} devices; the model makes it {modelled}"
    )
    if comparison.best is not None:
        screen.say(f"  best: {number(comparison.best.value)} of trial {comparison.best.number}")
    columns = [
        Column("scenario", keep=True),
        Column("mode"),
        Column("makespan", right=True),
        Column("saved", right=True, optional=True),
        Column("device time", right=True),
        Column("saved", right=True, optional=True),
        Column("stops", right=True, optional=True),
        Column("best", right=True, optional=True),
        Column("lost", right=True),
        Column("rank", right=True, optional=True),
    ]
    screen.show_table(columns, [_cells(result, comparison) for result in comparison.results])
    for result in comparison.results:
        if result.best_trial_stopped and comparison.best is not None:
            name = f"{result.search.scenario.name} ({result.mode})"
            screen.say(f"{name} stops trial {comparison.best.number}, the best one")
    screen.say("assumed:")
    for line in comparison.assumptions:
        screen.say(textwrap.fill(line, screen.WIDTH, initial_indent="  ", subsequent_indent="    "))


def _cells(result: ScenarioResult, comparison: Comparison) -> list[object]:
    search, is_base = result.search, result is comparison.results[0]
    return [
        _with_room(search.scenario.name),
        "" if is_base else result.mode,
        duration(search.makespan_ms / 1000),
        None if is_base else f"{result.makespan_saved:.0%}",
        duration(search.device_ms / 1000),
        None if is_base else f"{result.device_saved:.0%}",
        result.stops,
        None if result.best is None else result.best.value,
        None if is_base or result.value_lost is None else f"{result.value_lost:.3g}",
        result.rank_of_best,
    ]


def _with_room(name: str) -> str:
    """Returns a scenario's name with spaces after commas and colons, where a narrow column can break it."""
    return name.replace(", ", ",").replace(",", ", ").replace(":", ": ")
