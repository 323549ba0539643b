"""The simulator bites: rules of jobs of incremental learning, removed one by one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.test_mutants import SEEDS, Mutate, after, each_of, is_noticed
from trackside.aggregates.rounds import evolve
from trackside.aggregates.rounds.decisions import decide, deploying
from trackside.aggregates.rounds.job import split
from trackside.aggregates.rounds.job.deploy_messages import ModelUpdateConfirmed
from trackside.aggregates.rounds.messages import RoundEnded
from trackside.aggregates.rounds.stages import deploy_events, evaluation, stage_events
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.domain.outcome import Outcome
from trackside.simulation.config import SimulationConfig
from trackside.simulation.scenarios.rounds_scenario import RoundsScenario

pytestmark = pytest.mark.usefixtures("quiet_services")
CONFIG = SimulationConfig(scenario=RoundsScenario)
HANDLERS: dict[Any, Any] = evolve.HANDLERS


def samples_of_a_failed_round_are_lost(patch: pytest.MonkeyPatch) -> None:
    """The next round begins where the failed one ended (I22)."""
    honest = stage_events.round_ended

    def lax(job: IncrementalJob, *event: Any) -> Outcome:
        first = job.pool.first
        outcome = honest(job, *event)
        job.pool.first = first
        return outcome

    patch.setitem(HANDLERS, RoundEnded, lax)


def samples_that_arrive_while_a_round_runs_are_skipped(patch: pytest.MonkeyPatch) -> None:
    """The pool is cleared when a round ends, not when its samples are fixed."""

    def clear(job: IncrementalJob, event: RoundEnded, *_: Any) -> None:
        if event.released is None:
            job.pool.first = job.pool.end

    patch.setitem(HANDLERS, RoundEnded, after(stage_events.round_ended, clear))


def a_model_is_live_once_one_target_has_it(patch: pytest.MonkeyPatch) -> None:
    """The first confirmation is enough."""

    def confirm_all(job: IncrementalJob, *_: Any) -> None:
        if job.update is not None:
            job.update.open.clear()

    patch.setitem(HANDLERS, ModelUpdateConfirmed, after(deploy_events.update_confirmed, confirm_all))


def any_answer_confirms(patch: pytest.MonkeyPatch) -> None:
    """What a service says of any instruction counts as that it has the model."""

    def said(update: Any, target: str, task: Any, refused: int) -> Any:
        if task.acknowledgement is None:
            return None
        return ModelUpdateConfirmed(update=update.number, target=target, sha256=update.model.artifact.sha256)

    patch.setattr(deploying, "_said", said)


def every_model_is_deployed(patch: pytest.MonkeyPatch) -> None:
    """The trigger of the deployment holds whatever the metrics are."""
    honest = evaluation.decide_deploy

    def lax(job: IncrementalJob, now_ms: int, **given: Any) -> Any:
        return honest(job, now_ms, **{**given, "force": True})

    patch.setattr(evaluation, "decide_deploy", lax)


def a_share_is_cut_off_each_time(patch: pytest.MonkeyPatch) -> None:
    """What is left of a share is forgotten with each observation (I17)."""

    def cut(segments: Any, begin: int, share: str) -> Any:
        return [replace(added(segments, begin, share)[-1], begin=begin, carry="0")]

    added = split.added
    for module in (decide, evolve):
        patch.setattr(module, "added", cut)


MUTANTS: Mapping[Mutate, SimulationConfig] = dict.fromkeys(
    (
        samples_of_a_failed_round_are_lost,
        samples_that_arrive_while_a_round_runs_are_skipped,
        a_model_is_live_once_one_target_has_it,
        any_answer_confirms,
        every_model_is_deployed,
        a_share_is_cut_off_each_time,
    ),
    CONFIG,
)


@pytest.mark.parametrize(("mutate", "config"), each_of(MUTANTS, [samples_of_a_failed_round_are_lost]))
def test_a_rule_of_rounds_removed_is_noticed(
    mutate: Mutate, config: SimulationConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert any(is_noticed(number, config) for number in range(SEEDS)), f"it survived {SEEDS} seeds"
