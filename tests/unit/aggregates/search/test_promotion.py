"""Promotion in a search: trials that continue from checkpoints of others, and end at a step limit."""

from typing import Any

import pytest

from tests.unit.aggregates.given import react
from tests.unit.aggregates.search.test_builtin_tuners import of
from tests.unit.domain import given
from tests.unit.replay.given import TOPICS, empty, tell
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import TrialEnded, TrialStatus, TrialSuggested
from trackside.aggregates.search.space.builtin_assessors import check_assessor
from trackside.aggregates.search.space.builtin_tuners import check_tuner
from trackside.aggregates.search.space.lineage import lineage_lines
from trackside.aggregates.search.trials import suggestions
from trackside.aggregates.search.trials.promotion import Start
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.artifacts import ArtifactSaved, CheckpointReference
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested, TaskSubmitted
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.replay.causality.why import why
from trackside.replay.derive.fork import fork_search
from trackside.replay.derive.rerun import rerun_command
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import BadScenarioError
from trackside.verify.verifier import Verifier

ASHA: dict[str, Any] = {"name": "asha", "options": {"max_resource": 9, "reduction_factor": 3}}
SPACE: dict[str, Any] = {"lr": {"type": "uniform", "low": 0.0, "high": 1.0}}


def saved(number: int, step: int, trial: int = 0) -> ArtifactSaved:
    sha256 = str(number) * 64
    about = {"number": number, "name": "checkpoint", "version": number, "kind": "checkpoint", "step": step}
    stored = {"uri": f"store:sha256/{sha256}", "sha256": sha256, "size_bytes": 10}
    return ArtifactSaved.model_validate({**given.token(trial), **about, **stored})


def begin(told: given.Told, trial: int, start: Start | None) -> list[Any]:
    search = told.search
    events = suggestions.suggestion(search, trial, {"lr": 0.5}, search.opened[trial], start=start)
    assert set(told.tell(*events)) == {Outcome.APPLIED}
    told.each(given.assigned(trial), given.begun(trial))
    return events


def searching(concurrency: int = 1, **options: Any) -> given.Told:
    tuner = {**ASHA, "options": {**ASHA["options"], **options}}
    return given.search_running(tuner=tuner, space=SPACE, max_trials=9, concurrency=concurrency)


def ended_at_its_rung(told: given.Told) -> None:
    """Tells a trial with a step limit of 3 that was stopped after the report of step 2."""
    begin(told, 0, Start(step_limit=3))
    told.tell(saved(1, 2))
    for step in range(3):
        told.tell(given.report(step, 0.1 * step))
    (stop,) = react(told)
    assert stop == TaskStopRequested(task_id=told.task().task_id, reason="step_limit", attempt=1)
    told.each(saved(2, 3), given.ended(AttemptEnd.CANCELLED))
    (over,) = react(told)
    assert over == TrialEnded(trial=0, status=TrialStatus.SUCCEEDED, value=0.2)


def test_a_stop_at_the_limit_that_comes_after_its_attempt_has_failed_does_not_stop_the_next_one() -> None:
    told = given.search_running(tuner=ASHA, space=SPACE, max_trials=9, retry={"failed": {"times": 1}})
    begin(told, 0, Start(step_limit=1))
    told.tell(given.report(0, 0.1))
    failed = given.ended(AttemptEnd.FAILED)
    stop = TaskStopRequested(task_id=told.task().task_id, reason="step_limit", attempt=1)
    assert told.tell(failed, stop) == [Outcome.APPLIED, Outcome.OVERTAKEN]
    assert told.task().attempt.number == 2 and not told.task().stop_reason


def test_reports_and_checkpoints_beyond_the_step_limit_do_not_count() -> None:
    told = searching()
    begin(told, 0, Start(step_limit=3))
    outcomes = [told.tell(given.report(step, 0.1 * step))[0] for step in range(5)]
    assert outcomes == [Outcome.APPLIED] * 3 + [Outcome.OVERTAKEN] * 2
    assert {told.tell(saved(step, step))[0] for step in range(3, 8)} == {Outcome.APPLIED}
    told.tell(given.ended(AttemptEnd.CANCELLED))
    react(told)
    checkpoint = told.search.trials[0].checkpoint
    assert checkpoint is not None and checkpoint.step == 3, "they do not push out the one to continue from"


def test_a_promoted_trial_continues_the_checkpoint_of_the_one_before_with_a_higher_limit() -> None:
    told = searching()
    ended_at_its_rung(told)
    suggested, submitted = begin(told, 1, Start(from_trial=0, step_limit=9))
    assert isinstance(suggested, TrialSuggested)
    assert isinstance(submitted, TaskSubmitted)
    assert suggested.from_checkpoint is not None
    assert suggested.from_checkpoint.trial == 0
    assert submitted.checkpoint == suggested.from_checkpoint.checkpoint == told.search.trials[0].checkpoint
    assert submitted.step_limit == 9
    trial = told.search.trials[1]
    assert (trial.from_trial, trial.step_limit, trial.from_checkpoint) == (0, 9, submitted.checkpoint)


def test_a_promoted_trial_of_one_without_a_checkpoint_begins_with_the_first_step() -> None:
    told = searching()
    begin(told, 0, Start(step_limit=3))
    told.tell(given.report(2, 0.2))
    react(told)
    told.tell(given.ended(AttemptEnd.FINISHED))
    react(told)
    suggested, submitted = begin(told, 1, Start(from_trial=0, step_limit=9))
    assert suggested.from_checkpoint.trial == 0
    assert (suggested.from_checkpoint.checkpoint, submitted.checkpoint) == (None, None)


def test_a_checkpoint_that_the_trial_does_not_have_or_a_trial_that_runs_is_not_continued() -> None:
    told, suggested, submitted = promoted()
    origin = suggested.from_checkpoint
    assert origin is not None and isinstance(origin.checkpoint, CheckpointReference)
    other = origin.checkpoint.model_copy(update={"sha256": "9" * 64})
    for changed in ({"checkpoint": other}, {"trial": 1}, {"trial": 7}):
        wrong = suggested.model_copy(update={"from_checkpoint": origin.model_copy(update=changed)})
        assert set(told.tell(wrong, submitted)) == {Outcome.OVERTAKEN}


def verified(told: given.Told, messages: list[Any], lax: bool = True) -> list[str]:
    """Returns what is found where more is told, with a fold that applies it all unless it isn't `lax`."""
    streams = Streams(AGGREGATES)
    added = len(told.records)

    def fold(record: Record) -> tuple[Stream, Outcome]:
        stream, outcome = streams.fold(record)
        return stream, Outcome.APPLIED if lax and record.offset >= told.records[added].offset else outcome

    told.tell(*messages)
    verifier = Verifier(fold)
    for record in told.records:
        verifier.take(record)
    return [finding.message for finding in verifier.finish() if finding.invariant == "INV-10"]


def promoted() -> tuple[given.Told, TrialSuggested, TaskSubmitted]:
    told = searching()
    ended_at_its_rung(told)
    search, start = told.search, Start(0, 9)
    suggested, submitted = suggestions.suggestion(search, 1, {"lr": 0.5}, search.opened[1], start=start)
    assert isinstance(suggested, TrialSuggested)
    assert isinstance(submitted, TaskSubmitted)
    return told, suggested, submitted


def test_a_promotion_that_its_log_does_not_allow_is_found_and_one_as_it_is_decided_is_not() -> None:
    told, suggested, submitted = promoted()
    assert verified(told, [suggested, submitted], lax=False) == []
    origin = suggested.from_checkpoint
    assert origin is not None and origin.checkpoint is not None
    other = origin.checkpoint.model_copy(update={"sha256": "9" * 64})
    unsaved = {"from_checkpoint": origin.model_copy(update={"checkpoint": other})}
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        (unsaved, {"checkpoint": other}, f"trial 0 has saved no checkpoint {'9' * 64}"),
        ({"step_limit": 3}, {}, "its step limit 3 is not above 3"),
        ({}, {"checkpoint": None}, "doesn't begin with the checkpoint of its trial"),
    ]
    for of_trial, of_task, said in cases:
        told, suggested, submitted = promoted()
        changed = [suggested.model_copy(update=of_trial), submitted.model_copy(update=of_task)]
        assert any(said in message for message in verified(told, changed)), said


async def test_why_a_promoted_trial_is_there_leads_to_the_one_before() -> None:
    told = searching(concurrency=2)  # so the slot of trial 1 is open from the start
    ended_at_its_rung(told)
    begin(told, 1, Start(from_trial=0, step_limit=9))
    log = await empty()
    await tell(log, given.STREAM, told)
    found = await why(await find_stream(log, TOPICS, given.STREAM), "1")
    assert {"TrialEnded", "AttemptEnded"} <= {step.what for step in found.causes}


def test_a_fork_of_a_search_that_promotes_is_refused_and_says_what_to_do() -> None:
    told = searching()
    ended_at_its_rung(told)
    with pytest.raises(BadScenarioError, match=f"trackside replay rerun {given.STREAM}.*with seed 7"):
        fork_search(told.search, given.STREAM, 9, {})


def test_a_rerun_says_of_each_trial_which_one_it_continues_and_how_far() -> None:
    told = searching(budget_parameter="epochs")
    for trial, start in enumerate((Start(step_limit=3), Start(from_trial=0, step_limit=9))):
        told.tell(*suggestions.suggestion(told.search, trial, {"lr": 0.5}, 2, start=start))
        given.finish(told, trial, 0.5)
    command = rerun_command(told.search, given.STREAM, 9)
    starts = [{"from_trial": None, "step_limit": 3}, {"from_trial": 0, "step_limit": 9}]
    assert (command.tuner.options["starts"], command.tuner.options["budget_parameter"]) == (starts, "epochs")
    assert check_tuner(SPACE, command.tuner.model_dump(mode="json")) == []


@pytest.mark.parametrize(
    ("starts", "place"),
    [
        ([{"step_limit": 3}], ""),
        ([{"step_limit": 0}, {}], "[0]"),
        ([{"step_limit": 3, "trial": 1}, {}], "[0]"),
        ([{"step_limit": 3}, {"from_trial": 1, "step_limit": 9}], "[1]"),
        ([{"step_limit": 3}, {"from_trial": 0, "step_limit": 3}], "[1]"),
        ([{"step_limit": 3}, {"from_trial": 0}], "[1]"),
        ([{}, {"from_trial": 0, "step_limit": 3}], "[1]"),
    ],
)
def test_starts_that_no_trials_can_have_are_refused(starts: list[dict[str, Any]], place: str) -> None:
    options = {"sets": [{"lr": 0.5}, {"lr": 0.5}], "repeats": True, "starts": starts}
    ((path, _),) = check_tuner(SPACE, {"name": "batch", "options": options})
    assert path == f"$.tuner.options.starts{place}"


def row(trial: int, before: int | None = None, **changed: Any) -> dict[str, Any]:
    found = {"trial": trial, "from_trial": before, "from_step": None if before is None else 3}
    plain = {"status": "SUCCEEDED", "value": trial / 10, "last_value": None, "step_limit": 3}
    return {**found, **plain, "parameters": {"lr": 0.5}, **changed}


def test_the_lineage_is_a_tree_with_parameters_where_they_change() -> None:
    other = {"parameters": {"lr": 0.6}, "step_limit": 9}
    rows = [row(0), row(1), row(2, 0, step_limit=9), row(3, 0, **other), row(4, 2, step_limit=27)]
    assert lineage_lines(rows) == [
        "trial 0  to 3  SUCCEEDED  0  lr=0.5",
        "├─ trial 2  from step 3  to 9  SUCCEEDED  0.2",
        "│  └─ trial 4  from step 3  to 27  SUCCEEDED  0.4",
        "└─ trial 3  from step 3  to 9  SUCCEEDED  0.3  lr=0.6",
        "trial 1  to 3  SUCCEEDED  0.1  lr=0.5",
    ]
    assert len(lineage_lines([row(0), *(row(trial, trial - 1) for trial in range(1, 3_000))])) == 3_000


def test_a_budget_may_be_a_parameter_and_is_the_largest_if_no_tuner_has_suggested_the_trial() -> None:
    told = searching(budget_parameter="epochs")
    _, submitted = begin(told, 0, Start(step_limit=3))
    assert (submitted.parameters, submitted.step_limit) == ({"lr": 0.5, "epochs": 3}, None)
    assert told.search.trials[0].parameters == {"lr": 0.5}
    _, submitted = begin(searching(), 0, None)
    assert submitted.step_limit == 9


@pytest.mark.parametrize(
    ("tuner", "path", "words"),
    [
        (of("asha"), "max_resource", "missing option 'max_resource'"),
        (of("asha", max_resource=3), "max_resource", "the next at 4, beyond max_resource 3"),
        (of("hyperband", max_resource=9, mode="stop"), "mode", "assessor: {name: hyperband}"),
        (of("bohb", max_resource=9, budget_parameter="lr"), "budget_parameter", "the space has a parameter"),
        (of("bohb", max_resource=9, sampler="tpe"), "sampler", "unknown option"),
        (of("pbt", population_size=4), "interval", "missing option 'interval'"),
        (of("pb2", interval=1, quantile=0.9), "quantile", "a number from 0.01 to 0.5"),
    ],
)
def test_options_that_promote_nothing_are_refused_all_at_once(tuner: Any, path: str, words: str) -> None:
    ((found, message),) = check_tuner(SPACE, tuner)
    assert found == f"$.tuner.options.{path}"
    assert words in message
    assert len(check_tuner(SPACE, of("pbt", population_size=1, perturbation=2, quantile=0.7))) == 4


@pytest.mark.parametrize("name", ["asha", "hyperband"])
def test_an_assessor_that_shall_promote_is_refused_and_the_tuner_named(name: str) -> None:
    ((path, message),) = check_assessor({"name": name, "options": {"mode": "promote"}})
    assert path == "$.assessor.options.mode"
    assert f"tuner: {{name: {name}" in message
    assert check_assessor({"name": name, "options": {"mode": "stop"}}) == []
