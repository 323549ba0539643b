"""What-if of a recorded run, `replay whatif RUN`, and prediction of a definition, `replay dry-run FILE`."""

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from trackside.aggregates.run.messages import StartPipelineRun
from trackside.aggregates.run.steps.critical_path import path_text
from trackside.cli.commands import recorded_tasks
from trackside.cli.commands.artifacts import resolving
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.refusals import nearest
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.text import Column, duration
from trackside.domain.pipelines.compiling import CompiledPipeline, compile_pipeline
from trackside.domain.pipelines.definition import PipelineSpec
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.find_stream import find_stream
from trackside.sdk.definitions.specs import read_spec_file
from trackside.whatif.run_comparison import RunComparison, RunGrid, compare_run, dry_run
from trackside.whatif.run_recording import RunRecording, read_run
from trackside.whatif.run_simulation import SimulatedRun


def compare(recording: RunRecording, grid: RunGrid, as_json: bool) -> None:
    """Prints a recorded run under each scenario of a grid."""
    _emit(compare_run(recording, grid), as_json)


def dry(file: Path, durations: Sequence[str], like: str, grid: RunGrid, as_json: bool) -> None:
    """Prints how long a run of the pipeline of a spec file is expected to take; nothing is started."""
    pipeline = _pipeline_of(file)
    recorded = run(_recording(like)) if like else None
    _emit(dry_run(pipeline, _durations(durations, pipeline), recorded, grid), as_json)


def _pipeline_of(file: Path) -> PipelineSpec:
    resolve = partial(resolving.resolve, file.parent, quiet=True)
    command, spec_file = read_spec_file(file, resolve, partial(recorded_tasks.find, quiet=True))
    if not isinstance(command, StartPipelineRun):
        raise BadUsage(f"{file}: expected a pipeline, with `kind: pipeline` and `steps`")
    compiled = compile_pipeline(command.pipeline)
    if not isinstance(compiled, CompiledPipeline):
        raise BadUsage("\n  ".join(map(spec_file.describe, compiled)))
    return compiled.pipeline


def _durations(texts: Sequence[str], pipeline: PipelineSpec) -> Mapping[str, int]:
    """Parses `prepare=10,train=60.5`, seconds by step; raises BadUsage."""
    names, found = [step.name for step in pipeline.steps], dict[str, int]()
    for part in (part for text in texts for part in text.split(",")):
        name, _, seconds = part.partition("=")
        if name.strip() not in names:
            raise BadUsage(f"--durations {part}: there is no step {name.strip()!r}{nearest(name, names)}")
        try:
            found[name.strip()] = round(float(seconds) * 1000)
        except (ValueError, OverflowError):
            found[name.strip()] = -1
        if not 0 <= found[name.strip()] < 10**12:
            raise BadUsage(f"--durations {part}: expected STEP=SECONDS, such as train=60")
    return found


async def _recording(stream_id: str) -> RunRecording:
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys) as log:
        return await read_run(
            await find_stream(log, Topics(prefix=addresses.prefix), stream_id, addresses.past_states)
        )


def _emit(comparison: RunComparison, as_json: bool) -> None:
    if as_json:
        screen.emit(comparison.as_json())
    else:
        show(comparison)


def show(comparison: RunComparison) -> None:
    """Prints a comparison as a table, the critical paths of recording and scenarios, and its assumptions."""
    recording, base = comparison.recording, comparison.results[0]
    if recording.makespan_ms is None:
        screen.say(f"{recording.stream_id}: {len(base.states)} steps; nothing is started")
    else:
        took, modelled = duration(recording.makespan_ms / 1000), duration(base.makespan_ms / 1000)
        screen.say(
            f"{recording.stream_id}: {len(base.states)} steps, {recording.status} after {took}, at most "
            f"{recording.devices} devices at once; the model makes it {modelled}"
        )
    columns = [
        *(Column("scenario", keep=True), Column("status"), Column("makespan", right=True)),
        *(Column("saved", right=True, optional=True), Column("device time", right=True)),
        Column("use", right=True, optional=True),
    ]
    screen.show_table(columns, [_cells(result, comparison) for result in comparison.results])
    for result in comparison.results:
        screen.say(f"critical path, {result.scenario.name}: {path_text(result.path)}")
    screen.say("assumed:")
    for line in comparison.assumptions:
        screen.say(textwrap.fill(line, screen.WIDTH, initial_indent="  ", subsequent_indent="    "))


def _cells(result: SimulatedRun, comparison: RunComparison) -> list[object]:
    is_base = result is comparison.results[0]
    return [
        result.scenario.name,
        result.status,
        duration(result.makespan_ms / 1000),
        None if is_base else f"{comparison.saved(result):.0%}",
        duration(result.device_ms / 1000),
        f"{result.device_use:.0%}" if result.device_use >= 0.005 else None,
    ]
