"""What-if of a recorded incremental job, `replay whatif JOB`: its rounds with another trigger."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trackside.cli.render import screen
from trackside.cli.render.picture_files import picture_form, write_picture
from trackside.domain.display.text import Column, duration, number
from trackside.eventlog.garbage import collecting_seldom
from trackside.whatif.charts.live_models_chart import live_models_picture
from trackside.whatif.job_comparison import JobComparison, JobGrid, compare_job
from trackside.whatif.job_recording import JobRecording
from trackside.whatif.job_scenario import parse_deploy_trigger
from trackside.whatif.job_simulation import SimulatedJob, SimulatedRound, Verdict

MOST_MODELS = 3
"""How many models that may be live are listed in a cell; more are counted."""
_RESULTS: dict[Verdict, str] = {"deploy": "deployed", "keep": "not deployed", "open": "not ended"}


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
        """Says whether any of them was given."""
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
        f"{recording.stream_id}: {len(recording.rounds)} rounds, {deployed} deployed, "
        f"{duration(base.device_ms / 1000)} of device time"
    )
    columns = [
        Column("scenario", keep=True),
        *(Column(name, right=True) for name in ("rounds", "deployed", "not deployed", "unknown")),
        *(Column("failed", right=True, optional=True), Column("device time", right=True)),
        *(Column("saved", right=True, optional=True), Column("live at the end")),
    ]
    screen.show_table(columns, [_cells(result, comparison) for result in comparison.results])
    if len(comparison.results) <= 2:
        _show_rounds(comparison, comparison.results[-1])
    screen.say("assumed:")
    for line in comparison.assumptions:
        screen.say(textwrap.fill(line, screen.WIDTH, initial_indent="  ", subsequent_indent="    "))


def _cells(result: SimulatedJob, comparison: JobComparison) -> list[object]:
    is_base = result is comparison.results[0]
    estimated = "about " if result.unknown_models else ""
    saved_ms = comparison.saved_ms(result)
    return [
        result.scenario.name,
        len(result.rounds),
        result.count("deploy"),
        result.count("keep"),
        result.count("unknown"),
        result.count("failed") or None,
        estimated + duration(result.device_ms / 1000),
        None if is_base else estimated + ("-" if saved_ms < 0 else "") + duration(abs(saved_ms) / 1000),
        _live_at_end(comparison, result),
    ]


def _live_at_end(comparison: JobComparison, result: SimulatedJob) -> str:
    _, models = result.live[-1]
    return comparison.name_of(models[0]) if len(models) == 1 else _models(comparison, models)


def _show_rounds(comparison: JobComparison, result: SimulatedJob) -> None:
    screen.say(f"rounds, {result.scenario.name}:")
    for each in result.rounds:
        time = datetime.fromtimestamp(each.fired_ms / 1000, UTC).astimezone()
        model = "unknown model" if each.recorded is None else _version(comparison, each.trained)
        line = f"{each.number} {time:%m-%d %H:%M:%S} samples {each.train[0]:,} to {each.train[1]:,}: {model}"
        live = f"live: {_models(comparison, each.live)}"
        text = f"{line} {_RESULTS.get(each.verdict, each.verdict)}, {_why(each)}{live}"
        screen.say(textwrap.fill(text, screen.WIDTH, initial_indent="  ", subsequent_indent="    "))


def _why(each: SimulatedRound) -> str:
    """Returns why a round ended so, or the numbers that its trigger has seen; empty if that was nothing."""
    seen = [
        f"{name} {number(value.value) if isinstance(value.value, float) else value.reason}"
        for name, value in each.values.items()
    ]
    return "".join(f"{text}; " for text in ([each.reason] if each.reason else seen))


def _models(comparison: JobComparison, models: Sequence[str]) -> str:
    if len(models) > MOST_MODELS:
        return f"one of {len(models)}"
    return " or ".join(_version(comparison, each) for each in models)


def _version(comparison: JobComparison, digest: str) -> str:
    """Returns a version in short, such as `@3`; of a model that was never trained, of which round it is."""
    _, at, version = comparison.name_of(digest).rpartition("@")
    return at + version
