import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from trackside.aggregates.batch.messages import SubmitTasks
from trackside.contracts.resources import RetryPolicy
from trackside.simulation import scenarios
from trackside.simulation.config import SimulationConfig, SimulationResult, without_faults
from trackside.simulation.pipeline_scenario import PipelineScenario
from trackside.simulation.rounds_scenario import RoundsScenario
from trackside.simulation.run import simulate, sweep
from trackside.simulation.running_scenarios import AskingScenario, ServicesScenario, TrainingScenario
from trackside.simulation.scenarios import BatchScenario, SearchScenario, StreamScenario

pytestmark = pytest.mark.usefixtures("quiet_services")

QUICK_SEEDS = 6
SWEEPS = 4 if os.environ.get("TRACKSIDE_CHAOS_RUNS") else 2
"""How often 150 more seeds are drawn: more often by `make chaos`."""
DIGESTS = """
from trackside.aggregates.batch.messages import SubmitTasks
from trackside.contracts.resources import RetryPolicy
from trackside.simulation.config import SimulationConfig
from trackside.simulation.rounds_scenario import RoundsScenario
from trackside.simulation.run import Simulation
from trackside.simulation.scenarios import SearchScenario
from trackside.telemetry.logs import configure_logs

configure_logs(json_logs=False, level="critical")
for scenario in (SearchScenario, RoundsScenario):
    for seed in (3, 4):
        simulation = Simulation(seed, SimulationConfig(trials=12, scenario=scenario))
        simulation.run()
        print(seed, simulation.log.digest())
"""


def _digests(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", DIGESTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.thorough
def test_a_seed_gives_the_same_log_byte_for_byte_in_any_process() -> None:
    found = _digests("1")
    assert found == _digests("2")
    assert len(set(found.split())) == 2 + 4  # the seeds, and a digest of each


def test_without_faults_every_trial_runs_once() -> None:
    result = simulate(1, without_faults(SimulationConfig(trials=8)))
    assert result.violations == []
    assert result.attempts == 8
    assert not result.faults


def test_parameters_that_no_tuner_suggested_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "random_parameters", lambda space, seed, number: {"lr": float(number)})
    result = simulate(1, without_faults(SimulationConfig(trials=3)))
    assert sorted(result.violations) == [
        f"trial {number} has parameters that were not suggested" for number in range(3)
    ]


def _description(result: SimulationResult) -> str:
    return "\n".join([*result.violations, f"again: {result.rerun_command}"])


def test_searches_end_right_whatever_goes_wrong(seed: int) -> None:
    check_quick_seeds(seed, SearchScenario)


def test_batches_with_retries_and_preemption_end_right_whatever_goes_wrong(seed: int) -> None:
    check_quick_seeds(seed, BatchScenario)


def test_trials_continue_from_checkpoints_without_a_step_missing_or_twice_whatever_goes_wrong(
    seed: int,
) -> None:
    check_quick_seeds(seed, TrainingScenario)


def test_tasks_that_ask_for_further_trials_report_each_for_itself_whatever_goes_wrong(seed: int) -> None:
    check_quick_seeds(seed, AskingScenario)


def test_services_come_back_and_acknowledge_their_newest_instruction_whatever_goes_wrong(seed: int) -> None:
    check_quick_seeds(seed, ServicesScenario)


def test_runs_of_pipelines_end_right_whatever_goes_wrong(seed: int) -> None:
    check_quick_seeds(seed, PipelineScenario)


def test_each_sample_is_in_one_place_and_targets_have_the_live_model_whatever_goes_wrong(seed: int) -> None:
    check_quick_seeds(seed, RoundsScenario)


def test_t18_workers_on_one_host_share_its_gpu_whatever_goes_wrong(seed: int) -> None:
    check_quick_seeds(seed, BatchScenario, shared_gpu=True)


def test_t18_a_gpu_that_a_lost_worker_still_has_ends_no_task_as_refused() -> None:
    config = SimulationConfig(scenario=BatchScenario, shared_gpu=True)
    result = simulate(937_156, config)  # its neighbour refuses a task ten times meanwhile
    assert not result.violations, _description(result)


def check_quick_seeds(seed: int, scenario: type[StreamScenario], **more: Any) -> None:
    struck = 0
    for result in sweep(range(seed, seed + QUICK_SEEDS), SimulationConfig(scenario=scenario, **more)):
        assert not result.violations, _description(result)
        struck += result.faults.total()
    assert struck >= 5 * QUICK_SEEDS, "the faults did not strike"


@pytest.mark.parametrize("scenario", [SearchScenario, PipelineScenario], ids=lambda each: each.name)
def test_what_a_forger_writes_has_no_effect_whatever_goes_wrong(
    seed: int, scenario: type[StreamScenario]
) -> None:
    check_quick_seeds(seed, scenario, forger=True)


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(0, SWEEPS * 150, 150))
def test_very_many_searches_end_right_whatever_goes_wrong(seed: int, first: int) -> None:
    attempts = overtaken = 0
    for result in sweep(range(seed + first, seed + first + 150)):
        assert not result.violations, _description(result)
        attempts += result.attempts
        overtaken += result.events - result.applied
    # Of so many, not of a few: among six seeds there may be none that loses an attempt.
    assert attempts > 30 * 150, "no attempt was lost"
    assert overtaken > 150, "nothing was overtaken"


@pytest.mark.thorough
@pytest.mark.parametrize("shared_gpu", [False, True])
@pytest.mark.parametrize("first", range(0, SWEEPS // 2 * 150, 150))
def test_very_many_batches_end_right_whatever_goes_wrong(seed: int, first: int, shared_gpu: bool) -> None:
    config = SimulationConfig(scenario=BatchScenario, shared_gpu=shared_gpu)
    for result in sweep(range(seed + first, seed + first + 150), config):
        assert not result.violations, _description(result)


@pytest.mark.thorough
@pytest.mark.parametrize("scenario", [TrainingScenario, ServicesScenario])
def test_very_many_tasks_that_save_and_serve_end_right_whatever_goes_wrong(
    seed: int, scenario: type[StreamScenario]
) -> None:
    faults: Counter[str] = Counter()
    for result in sweep(range(seed, seed + 40), SimulationConfig(scenario=scenario)):
        assert not result.violations, _description(result)
        faults += result.faults
    # The rarest is met some ten times in as many seeds.
    assert all(faults[fault] for fault in ("uploader_killed", "store_away", "unreadable")), faults


class WithoutRetries(BatchScenario):
    """A batch whose tasks are not tried again, though that is expected of them."""

    def command(self) -> SubmitTasks:
        return super().command().model_copy(update={"retry": RetryPolicy()})


def test_a_batch_that_ends_otherwise_than_it_should_is_noticed() -> None:
    config = without_faults(SimulationConfig(trials=9, scenario=WithoutRetries))
    assert any("failed 1 times" in violation for violation in simulate(0, config).violations)


def test_a_violation_of_a_batch_is_repeated_with_its_kind() -> None:
    result = simulate(3, without_faults(SimulationConfig(trials=2, scenario=BatchScenario)))
    assert result.rerun_command == "trackside simulate --seed 3 --kind batch"


@pytest.mark.thorough
def test_very_many_runs_of_pipelines_end_right_whatever_is_done_to_them(seed: int) -> None:
    for result in sweep(range(seed, seed + 100), SimulationConfig(scenario=PipelineScenario, concurrency=2)):
        assert not result.violations, _description(result)


@pytest.mark.thorough
def test_very_many_jobs_of_incremental_learning_end_right_whatever_is_done_to_them(seed: int) -> None:
    for result in sweep(range(seed, seed + 100), SimulationConfig(scenario=RoundsScenario)):
        assert not result.violations, _description(result)
