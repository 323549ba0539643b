"""What-if of a recorded incremental job, `replay whatif JOB`: its rounds with another trigger."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trackside.cli.render import screen
from trackside.cli.render.picture_files import picture_form, write_picture
from trackside.domain.display.text import Column, counted, duration, number
from trackside.eventlog.garbage import collecting_seldom
from trackside.whatif.charts.live_models_chart import live_models_picture
from trackside.whatif.compare import AS_RECORDED
from trackside.whatif.job_comparison import JobComparison, JobGrid, compare_job, trigger_name
from trackside.whatif.job_recording import JobRecording
from trackside.whatif.job_scenario import JobScenario, parse_deploy_trigger
from trackside.whatif.job_simulation import SimulatedJob, SimulatedRound, Verdict

MOST_MODELS = 3
"""How many models that may be live are listed in a cell; more are counted."""
_RESULTS: dict[Verdict, str] = {"deploy": "deployed", "keep": "kept", "open": "not ended"}


@dataclass(frozen=True, slots=True)
class TriggerOptions:
    """The texts of the options of `replay whatif` that an incremental job has."""

    thresholds: Sequence[float] = ()
    metric: str = ""
    deploy_triggers: Sequence[str] = ()
    train_thresholds: Sequence[float] = ()
    train_probs: Sequence[float] = ()
    picture: Path | None = None

    @property
    def given(self) -> bool:
        """Returns whether any of them was given."""
        return self != TriggerOptions()

    def grid(self) -> JobGrid:
        """Returns the scenarios of a job; raises BadScenarioError."""
        found = [parse_deploy_trigger(text) for text in self.deploy_triggers]
        return JobGrid(self.thresholds, self.metric, found, self.train_thresholds, self.train_probs)


def compare(recording: JobRecording, options: TriggerOptions, as_json: bool) -> None:
    """Prints a recorded job under each scenario of a grid, and draws its live models into a file."""
    with collecting_seldom():
        comparison = compare_job(recording, options.grid())
    if options.picture is not None:
        content = live_models_picture(comparison, picture_form(options.picture))
        write_picture(options.picture, content)
    if as_json:
        screen.emit(comparison.as_json())
    else:
        show(comparison)


def show(comparison: JobComparison) -> None:
    """Prints a comparison as a table, the rounds of a single scenario, and what is assumed."""
    recording, base = comparison.recording, comparison.results[0]
    deployed = sum(bool(each.live_ms) for each in recording.rounds)
    screen.say(
        f"{recording.stream_id}: {counted(len(recording.rounds), 'round')}, {deployed} deployed, "
        f"{duration(base.device_ms / 1000)} of device time"
    )
    has_failed = any(result.count("failed") for result in comparison.results)
    columns = [
        *_scenario_columns(comparison),
        Column("rounds", right=True, optional=True),
        *(Column(name, right=True) for name in ("deployed", "kept", "unknown")),
        *([Column("failed", right=True, optional=True)] if has_failed else []),
        *(Column("device time", right=True), Column("saved", right=True, optional=True)),
        Column("live then", keep=True),
    ]
    rows = [_cells(result, comparison, has_failed) for result in comparison.results]
    screen.show_table(columns, rows)
    if len(comparison.results) <= 2:
        _show_rounds(comparison, comparison.results[-1])
    screen.say("assumed:")
    for line in comparison.assumptions:
        screen.say(textwrap.fill(line, screen.WIDTH, initial_indent="  ", subsequent_indent="    "))


_KINDS: tuple[tuple[str, Callable[[JobScenario], object]], ...] = (
    ("", lambda scenario: scenario.threshold),
    ("deploy trigger", lambda scenario: scenario.deploy_trigger and trigger_name(scenario.deploy_trigger)),
    ("samples", lambda scenario: scenario.train_threshold),
    ("train_prob", lambda scenario: scenario.train_prob),
)
"""What scenarios may change, each with its heading; that of thresholds is their metric."""


def _scenario_kinds(comparison: JobComparison) -> list[tuple[str, Callable[[JobScenario], object]]]:
    """Returns what is changed by any scenario."""
    scenarios = [result.scenario for result in comparison.results[1:]]
    return [(name, of) for name, of in _KINDS if any(of(each) is not None for each in scenarios)]


def _scenario_columns(comparison: JobComparison) -> list[Column]:
    metric = comparison.results[-1].scenario.metric
    kinds = _scenario_kinds(comparison)
    return [Column(name or metric, keep=name == "deploy trigger") for name, _ in kinds] or [
        Column("scenario")
    ]


def _scenario_cells(result: SimulatedJob, comparison: JobComparison) -> list[object]:
    if result is comparison.results[0]:
        return [AS_RECORDED, *[None] * (len(_scenario_kinds(comparison)) - 1)]
    found = [of(result.scenario) for _, of in _scenario_kinds(comparison)]
    return [f"{value:g}" if isinstance(value, int | float) else value for value in found]


def _cells(result: SimulatedJob, comparison: JobComparison, has_failed: bool) -> list[object]:
    is_base = result is comparison.results[0]
    estimated = "about " if result.unknown_models else ""
    saved_ms = comparison.saved_ms(result)
    return [
        *_scenario_cells(result, comparison),
        len(result.rounds),
        *(result.count(verdict) for verdict in ("deploy", "keep", "unknown")),
        *([result.count("failed")] if has_failed else []),
        estimated + duration(result.device_ms / 1000),
        None if is_base else estimated + ("-" if saved_ms < 0 else "") + duration(abs(saved_ms) / 1000),
        _models(comparison, result.live[-1][1]),
    ]


def _show_rounds(comparison: JobComparison, result: SimulatedJob) -> None:
    """Prints the rounds of a scenario as a table, and when a version was live again by a command."""
    rows: list[tuple[int, list[object]]] = []
    for each in result.rounds:
        first, end = each.train
        model = "unknown" if each.recorded is None else _version(comparison, each.trained)
        cells: list[object] = [each.number, _time(each.fired_ms), f"{first:,} to {end:,}", model]
        cells += [_RESULTS.get(each.verdict, each.verdict), _models(comparison, each.live), _why(each)]
        rows.append((each.fired_ms, cells))
    for at_ms, digest in comparison.recording.rollbacks:
        live = [models for ms, models in result.live if ms <= at_ms][-1]
        rolled_back: list[object] = [None, _time(at_ms), None, _version(comparison, digest), "rollback"]
        rows.append((at_ms, [*rolled_back, _models(comparison, live), "by a command"]))
    columns = [Column("round", right=True), Column("began"), Column("samples"), Column("model")]
    columns += [Column("result"), Column("live after", keep=True), Column("why", keep=True)]
    in_order = [cells for _, cells in sorted(rows, key=lambda row: row[0])]
    if screen.console().width < screen.WIDTH:  # else the reasons have too little room
        del columns[1]
        in_order = [[cells[0], *cells[2:]] for cells in in_order]
    screen.say("")
    screen.show_table(columns, in_order, f"rounds, {result.scenario.name}:")


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _why(each: SimulatedRound) -> str | None:
    """Returns why a round ended so, or the numbers that its trigger has seen; None if that was nothing."""
    seen = [
        f"{name} {number(value.value) if isinstance(value.value, float) else value.reason}"
        for name, value in each.values.items()
    ]
    return each.reason or ", ".join(seen) or None


def _models(comparison: JobComparison, models: Sequence[str]) -> str:
    """Returns the models of which one is live; those that were never trained are one word."""
    known = [each for each in models if each in comparison.recording.names]
    if len(known) > MOST_MODELS:
        return f"one of {len(models)}"
    unknown = ["unknown"] if len(known) < len(models) else []
    return " or ".join([_version(comparison, each) for each in known] + unknown)


def _version(comparison: JobComparison, digest: str) -> str:
    """Returns a version in short, such as `@3`."""
    _, at, version = comparison.name_of(digest).rpartition("@")
    return at + version
