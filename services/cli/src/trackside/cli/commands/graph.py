"""The command `trackside graph`: pictures of a run, from the log."""

import json
from pathlib import Path

from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.run.step_messages import FAILURES, SUCCESSES, StepState
from trackside.aggregates.run.steps.step_display import progress_of, shown_parameters
from trackside.cli.commands.submit import check_id
from trackside.cli.render import screen
from trackside.cli.render.run_layout import DONE, FAILED, OTHER, RUNNING, DrawnStep
from trackside.cli.render.run_pictures import graph_svg, page, plotly_figure
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.text import counted, duration
from trackside.domain.pipelines.compiling import needed
from trackside.domain.pipelines.definition import GATE
from trackside.eventlog.clock import now_ms
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.point_in_time import PointInTime, parse_point_in_time
from trackside.replay.history.recorded_stream import state_at

DRAWN = (".svg", ".html", ".json")


def graph(run_id: str, out: Path, at: str) -> None:
    """Draws a run as it is, or was, by the suffix of the file: .svg, .html, or .json for Plotly."""
    check_id(run_id)
    suffix = out.suffix.lower()
    if suffix not in DRAWN:
        raise BadUsage(f"--out {out}: expected a name that ends in {', '.join(DRAWN)}")
    drawn, status = run(_drawn(run_id, parse_point_in_time(at, now_ms())))
    if suffix == ".svg":
        text = graph_svg(drawn, f"The steps of run {run_id}")
    elif suffix == ".html":
        text = page(drawn, run_id, status)
    else:
        text = json.dumps(plotly_figure(drawn, run_id))
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{out}: cannot be written: {error.strerror or error}") from error
    screen.say(f"{out}: {counted(len(drawn), 'step')}, {status}")


async def _drawn(run_id: str, point: PointInTime) -> tuple[list[DrawnStep], str]:
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-graph", keys=addresses.keys) as log:
        recorded = await find_stream(log, Topics(prefix=addresses.prefix), run_id, addresses.past_states)
        past = await state_at(recorded, point, addresses.state_cache)
    found = run_of(past.stream)
    if found is None:
        raise CommandFailed(f"{run_id} is not a run; `trackside ls` lists what there is")
    return drawn_steps(found), f"{found.spec.name or run_id}: {found.status.value}, {progress_of(found):.0%}"


def drawn_steps(found: Run) -> list[DrawnStep]:
    """Returns the steps of a run as pictures show them."""
    return [_drawn_step(found, name) for name in found.steps]


def _drawn_step(found: Run, name: str) -> DrawnStep:
    step, spec = found.steps[name], found.spec_of(name)
    parameters = shown_parameters(found, name)
    over = step.ready_ms and step.ended_ms
    return DrawnStep(
        name=name,
        what=spec.task_type or spec.kind or GATE,
        state=step.state.value,
        color=color_of(step.state),
        needs=needed(spec),
        parameters=parameters if isinstance(parameters, dict) else {},
        took=duration((step.ended_ms - step.ready_ms) / 1000) if over else "",
        items=f"{step.ended_items}/{step.count}" if found.has_items(name) and step.count else "",
        task=found.item_id(name, 0) if step.begun and spec.gate is None else "",
    )


def color_of(state: StepState) -> str:
    """Returns the colour of a state, as ClearML's pictures have it."""
    if state in SUCCESSES:
        return DONE
    return FAILED if state in FAILURES else RUNNING if state is StepState.RUNNING else OTHER
