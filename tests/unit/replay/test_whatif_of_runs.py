import pytest

from tests.unit.aggregates.run.given import step
from tests.unit.domain.given import STREAM
from tests.unit.replay.recorded_runs import ONE, RecordedRun, finished_chain, recorded
from trackside.aggregates.run.steps.critical_path import critical_path
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.pipelines.compiling import CompiledPipeline, compile_pipeline
from trackside.domain.pipelines.definition import PipelineSpec
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import BadScenarioError
from trackside.whatif.run_comparison import RunGrid, compare_run, dry_run
from trackside.whatif.run_recording import ItemTrace, RunRecording, read_run
from trackside.whatif.run_simulation import RunScenario, SimulatedRun, simulate_run


async def read(log: RecordedRun, **busy_ms: int) -> RunRecording:
    """Reads a run; a test's log takes a millisecond an event, so durations are given by name."""
    recording = await read_run(await find_stream(await log.write(), ONE, STREAM))
    for (name, _), trace in recording.traces.items():
        trace.busy_ms = busy_ms.get(name, trace.busy_ms)
    return recording


def simulated(recording: RunRecording, devices: int = 100, **fields: object) -> SimulatedRun:
    return simulate_run(recording, RunScenario("test", devices, **fields))  # type: ignore[arg-type]


async def test_a_recorded_run_has_what_its_tasks_had_and_a_chain_takes_the_sum_of_its_durations() -> None:
    recording = await read(finished_chain())
    prepare = recording.traces["prepare", 0]
    assert (prepare.end, prepare.result, list(prepare.artifacts)) == ("finished", {"rows": 3}, ["table"])
    assert prepare.busy_ms > 0 and prepare.wait_ms > 0
    assert [each.step for each in recording.path] == ["prepare", "train", "report"]
    assert recording.status == "SUCCEEDED" and recording.devices == 1
    found = simulated(await read(finished_chain(), prepare=1_000, train=5_000, report=700))
    assert found.status == "SUCCEEDED"
    assert 6_700 <= found.makespan_ms < 6_800
    assert found.device_ms == 6_700
    took = [(each.step, round(each.duration_s)) for each in found.path]
    assert took == [("prepare", 1), ("train", 5), ("report", 1)]
    assert found.states == {"prepare": "succeeded", "train": "succeeded", "report": "succeeded"}


def fan_out() -> RecordedRun:
    log = recorded(step("each", each=list(range(8))), step("join", "each"))
    for index in range(8):
        log.finish(f"each.{index}")
    log.finish("join")
    return log


async def test_the_number_of_devices_and_the_limit_of_the_run_make_a_fan_out_longer() -> None:
    recording = await read(fan_out(), each=1_000, join=0)
    took = {devices: simulated(recording, devices).makespan_ms // 1_000 for devices in (1, 2, 4, 8)}
    assert took == {1: 8, 2: 4, 4: 2, 8: 1}
    assert simulated(recording, 8, concurrency=2).makespan_ms // 1_000 == 4
    assert simulated(recording, 2).device_use > 0.9


async def test_the_critical_path_goes_through_the_slower_branch_and_a_longer_task_is_better_first() -> None:
    log = recorded(step("a"), step("slow", "a"), step("fast", "a"), step("end", "slow", "fast"))
    for name in ("a", "fast", "slow", "end"):
        log.finish(name)
    assert [each.step for each in critical_path(log.run)] == ["a", "slow", "end"]
    recording = await read(log, a=10, slow=100, fast=9_000, end=10)
    assert [each.step for each in simulated(recording).path] == ["a", "fast", "end"]
    log = recorded(*(step(f"s{number}") for number in range(5)))
    for number in range(5):
        log.finish(f"s{number}")
    recording = await read(log, s0=1_000, s1=1_000, s2=1_000, s3=1_000, s4=4_000)
    assert simulated(recording, 2).makespan_ms // 1_000 == 6
    assert simulated(recording, 2, order="longest-first").makespan_ms // 1_000 == 4


async def test_another_policy_decides_what_follows_a_recorded_failure() -> None:
    log = recorded(step("a"), step("b", "a"), step("c"))
    log.finish("c")
    log.finish("a", end=AttemptEnd.FAILED)
    recording = await read(log, a=1_000, c=5_000)
    assert recording.status == "FAILED"
    as_it_was = simulated(recording)
    assert (as_it_was.status, as_it_was.states["b"]) == ("FAILED", "omitted")
    goes_on = simulated(recording, on_end="continue")
    assert (goes_on.status, goes_on.states["b"], goes_on.unknown) == ("SUCCEEDED", "succeeded", ("b",))
    at_once = simulated(recording, on_end="fail")
    assert (at_once.status, at_once.states["c"]) == ("FAILED", "aborted")
    assert at_once.makespan_ms < 1_100


async def test_gates_conditions_and_repetitions_are_decided_as_recorded() -> None:
    log = recorded(
        step("a"),
        step("go", "a", gate={"form": {"n": {"type": "integer"}}}),
        step("off", "go", when="go.result.n > 5"),
        step("again", "go", repeat={"until": "result.n > 1", "times": 5}),
    )
    log.finish("a")
    log.command("trackside.approve-gate.v1", {"step": "go", "inputs": {"n": 1}})
    for number in range(3):
        log.finish(f"again.{number}", {"n": number})
    recording = await read(log, a=100, go=60_000, again=1_000)
    found = simulated(recording)
    assert found.states == {"a": "succeeded", "go": "succeeded", "off": "skipped", "again": "succeeded"}
    assert found.makespan_ms // 1_000 == 63
    assert found.unknown == found.guessed == ()


async def test_a_run_that_goes_on_is_carried_on_with_the_median_of_its_steps() -> None:
    log = recorded(step("each", each=list(range(4))))
    log.finish("each.0")
    found = simulated(await read(log, each=1_000), 1)
    assert (found.makespan_ms // 1_000, found.guessed) == (4, ("each",))


@pytest.mark.thorough
async def test_a_thousand_items_are_simulated_in_seconds() -> None:
    recording = await read(recorded(step("each", each=list(range(1_000)))))
    recording.traces["each", 0] = ItemTrace(0, 1, 0, 1_000, end="finished")
    assert simulated(recording, 10).makespan_ms // 1_000 == 101


async def test_every_fleet_is_combined_with_every_policy() -> None:
    recording = await read(fan_out(), each=1_000, join=0)
    found = compare_run(recording, RunGrid(workers=(1, 4), slots=2, on_end=("skip", "fail")))
    fleets = [f"{workers} x 2 devices, on_end {on_end}" for workers in (1, 4) for on_end in ("skip", "fail")]
    assert [each.scenario.name for each in found.results] == ["as recorded", *fleets]
    assert found.saved(found.results[3]) > 0.5
    assert found.as_json()["scenarios"][1]["devices"] == 2
    with pytest.raises(BadScenarioError, match="needs 4 devices, test has 2"):
        simulated(await read(recorded(step("a", resources={"devices": 4}))), 2)


def compiled(*steps: object, **fields: object) -> PipelineSpec:
    found = compile_pipeline(PipelineSpec.model_validate({"steps": list(steps), **fields}))
    assert isinstance(found, CompiledPipeline)
    return found.pipeline


def test_a_definition_that_never_ran_is_predicted_from_given_durations() -> None:
    pipeline = compiled(
        step("prepare"),
        step("train", each=[1, 2, 3, 4], parameters={"rows": "${prepare.result.rows}"}),
        step("check", "train", when="train.result[0].ok"),
    )
    durations = {"prepare": 1_000, "train": 10_000}
    found = dry_run(pipeline, durations, None, RunGrid(workers=(1, 2, 4)))
    assert [each.makespan_ms // 1_000 for each in found.results] == [41, 21, 11]
    assert found.results[0].unknown == ("check",)
    assert [each.step for each in found.results[0].path] == ["prepare", "train", "check"]
    (unlimited,) = dry_run(pipeline, durations, None, RunGrid()).results
    assert unlimited.makespan_ms // 1_000 == 11


async def test_a_definition_is_predicted_from_the_durations_of_a_recorded_run() -> None:
    like = await read(fan_out(), each=1_000, join=2_000)
    pipeline = compiled(step("first"), step("each", each="${first.result.items}"), step("join", "each"))
    (found,) = dry_run(pipeline, {"first": 500}, like, RunGrid(workers=(4,))).results
    assert found.makespan_ms // 1_000 == 4
