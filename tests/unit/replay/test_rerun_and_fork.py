import json
from typing import Any

import pytest

from tests.unit.aggregates.given import CAPABILITIES, answered, published
from tests.unit.domain.given import Told, finish, search_running, submitted, suggested
from trackside.aggregates.search import messages
from trackside.aggregates.search.state import Search, search_of
from trackside.cli.commands.replay.rerun import show
from trackside.cli.render import screen
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused
from trackside.dispatcher.advice.tuner_history import TunerHistory
from trackside.dispatcher.tuners.list_tuner import batch_tuner
from trackside.domain.outcome import Outcome
from trackside.replay.derive.fork import fork_search, parse_changes
from trackside.replay.derive.rerun import compare_searches, rerun_command
from trackside.replay.history.errors import BadScenarioError, NotRecordedError


def two_ended_one_open(**changed: Any) -> Search:
    """Returns a search of 4 trials, 1 at a time: the first two have ended, the third has not."""
    told = search_running(**{"max_trials": 4, "concurrency": 1, "assessor": {"name": "median"}, **changed})
    for trial, value in enumerate((0.5, 0.75)):
        told.tell(suggested(trial), submitted(trial))
        finish(told, trial, value)
    told.tell(suggested(2), submitted(2))
    found = search_of(told.stream)
    assert found is not None
    return found


def decided(command: messages.StartSearch) -> tuple[Told, list[Event]]:
    told = Told()
    return told, answered(told, published(1, body=command.model_dump(mode="json")), CAPABILITIES)


def test_a_rerun_lists_the_recorded_trials_in_order_with_the_recorded_seed() -> None:
    search = two_ended_one_open(goal=0.9, max_duration_s=60.0)
    command = rerun_command(search, "digits-1", 40)
    assert command.tuner.options["sets"] == [trial.parameters for trial in search.trials]
    assert (command.max_trials, command.seed, command.concurrency) == (3, search.seed, 1)
    assert (command.goal, command.max_duration_s) == (None, None)
    assert command.assessor is not None
    assert rerun_command(search, "digits-1", 40, with_assessor=False).assessor is None
    told, (accepted, started) = decided(command)
    assert isinstance(accepted, CommandAccepted)
    assert isinstance(started, messages.SearchStarted) and started.origin is not None
    assert (started.origin.kind, started.origin.stream, started.origin.offset) == ("rerun", "digits-1", 40)
    assert told.search.next_trial == 0
    with pytest.raises(NotRecordedError, match="no trials"):
        rerun_command(search_running().search, "digits-1", 3)


def test_parameters_that_the_record_has_twice_are_tried_twice() -> None:
    sets = [{"lr": 0.5}, {"lr": 0.5}, {"lr": 0.25}]
    space = {"lr": {"type": "uniform", "low": 0.0, "high": 1.0}}
    memory = batch_tuner(space, {"sets": sets, "repeats": True})
    assert [memory.ask(number) for number in range(4)] == [*sets, None]
    again = batch_tuner(space, {"sets": sets, "repeats": True})
    for number in (0, 1):
        again.restore(number, sets[number])
    assert again.ask(2) == sets[2]
    assert batch_tuner(space, {"sets": sets}).ask(0) == sets[0]


def test_a_fork_tells_what_had_ended_and_begins_with_what_had_not() -> None:
    search = two_ended_one_open()
    made = fork_search(search, "digits-1", 40, {})
    assert (made.ended, made.imported, made.unfinished, made.command.max_trials) == (2, 2, 1, 2)
    assert [past.value for past in made.command.past] == [0.5, 0.75]
    assert made.command.first == [search.trials[2].parameters]
    assert made.command.seed is None


def test_a_fork_tells_why_trials_are_left_out() -> None:
    search = two_ended_one_open()
    search.trials[0].status = messages.TrialStatus.EARLY_STOPPED
    made = fork_search(search, "digits-1", 40, {"space": {"other": {"type": "constant", "value": 1}}})
    assert (made.imported, made.unfinished, made.command.first) == (0, 0, [])
    assert made.left_out_lines == [
        "left out: trial 0: stopped early, so without a final value",
        "left out: trial 1: not in the space: lr, other",
        "left out: trial 2: it had not ended, and is not in the space: lr, other",
    ]
    search.trials[2].outside = ["lr"]
    wanted = fork_search(search, "digits-1", 40, {}).command
    assert (wanted.first, wanted.first_outside) == ([search.trials[2].parameters], True)


def test_no_suggestion_counts_that_was_asked_without_the_past_which_the_tuner_knows() -> None:
    search = two_ended_one_open()
    told, events = decided(fork_search(search, "digits-1", 40, {"max_trials": 9}).command)
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["CommandAccepted", "SearchStarted", "TrialsImported", "SearchUpdated", "TrialAdded"]
    offsets = {type(record.message): record.offset for record in told.records}
    assert told.search.opened[0] > offsets[messages.TrialsImported] > offsets[messages.SearchStarted]
    assert told.search.next_trial is None and told.search.next_added == 0
    early = messages.TrialSuggested(trial=0, parameters={"lr": 0.1}, seen=offsets[messages.SearchStarted])
    assert told.tell(early) == [Outcome.OVERTAKEN]
    added = events[-1]
    assert isinstance(added, messages.TrialAdded)
    opened = told.search.opened[0]
    first = messages.TrialSuggested(trial=0, parameters=added.parameters, seen=opened, source="customized")
    assert told.tell(first) == [Outcome.APPLIED]
    items = TunerHistory().until(told.search, 0)
    assert items == [("imported", trial.parameters, trial.value) for trial in search.trials[:2]]


def test_a_search_that_is_over_goes_on_with_a_higher_limit() -> None:
    told = search_running(max_trials=1, concurrency=1)
    told.tell(suggested(0), submitted(0))
    finish(told, 0, 0.5)
    with pytest.raises(BadScenarioError, match="1 trials of digits-1 had ended, and max_trials is 1"):
        fork_search(told.search, "digits-1", 9, {})
    made = fork_search(told.search, "digits-1", 9, {"max_trials": 5})
    assert (made.command.max_trials, made.unfinished) == (4, 0)


def test_another_tuner_begins_without_the_options_of_the_one_before() -> None:
    search = two_ended_one_open(tuner={"name": "tpe", "options": {"n_startup_trials": 3}})
    tuner = fork_search(search, "digits-1", 40, parse_changes(["tuner.name=gp"])).command.tuner
    assert (tuner.name, tuner.options) == ("gp", {})
    changes = parse_changes(["assessor.name=asha,assessor.options.reduction_factor=3", "space.lr.high=0.6"])
    command = fork_search(search, "digits-1", 40, changes).command
    assert command.tuner.options == {"n_startup_trials": 3}
    assert command.assessor is not None and command.assessor.options == {"reduction_factor": 3}
    assert len(command.past) == sum(trial.parameters["lr"] <= 0.6 for trial in search.trials[:2])
    found = parse_changes(['max_trials=40,space.opt={"type":"choice","values":["a,b","c"]}', "name=x"])
    assert found["space.opt"] == {"type": "choice", "values": ["a,b", "c"]}
    assert (found["max_trials"], found["name"]) == (40, "x")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["max_trials"], "'max_trials' sets nothing"),
        (["past=[]"], "past is set by the fork itself"),
        (["max_trial=9"], "max_trial"),
        (["concurrency=many"], "concurrency"),
        (["task_type.x=1"], "no 'task_type' with fields to set"),
    ],
)
def test_what_can_not_be_set_is_said(texts: list[str], said: str) -> None:
    with pytest.raises(BadScenarioError, match=said):
        fork_search(two_ended_one_open(), "digits-1", 40, parse_changes(texts))


def test_a_past_that_is_not_of_the_space_is_refused_with_its_place() -> None:
    made = fork_search(two_ended_one_open(), "digits-1", 40, {}).command
    body = made.model_dump(mode="json")
    body["past"][1]["parameters"] = {"lr": 3.0}
    _, (refused,) = decided(messages.StartSearch.model_validate(body))
    assert isinstance(refused, CommandRefused)
    assert (refused.code, refused.path.startswith("$.past[1].parameters")) == ("bad_parameters", True)


def test_two_searches_are_compared_by_the_steps_of_both(capsys: pytest.CaptureFixture[str]) -> None:
    old, new = two_ended_one_open(), two_ended_one_open()
    new.trials[1].value = 0.5
    new.trials[2].parameters = {"lr": 0.123}
    found = compare_searches(old, new)
    written = json.loads(json.dumps(found.as_json()))
    assert (written["same_parameters"], written["compared"]) == (2, 2)
    assert (written["mean_difference"], written["largest_difference"]) == (-0.125, -0.25)
    assert [pair["difference"] for pair in written["trials"]] == [0.0, -0.25, None]
    show("digits-1", "digits-1-again", found)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= screen.WIDTH
    assert "2 trials have the same parameters\n2 of them came as far in both" in said
    old, new = two_ended_one_open(), two_ended_one_open()
    old.trials[1].reports = [(0, 0.25), (1, 0.5), (2, None)]
    new.trials[1].reports = [(0, 0.25), (1, 0.75)]
    written = compare_searches(old, new).as_json()
    assert (written["compared"], written["mean_difference"]) == (1, 0.0)
    pair = written["trials"][1]
    assert (pair["alike"], pair["steps_compared"], pair["largest_difference_of_a_step"]) == (False, 2, 0.25)
    assert written["largest_difference_of_a_step"] == 0.25
    assert pair["new"]["reports"] == [[0, 0.25], [1, 0.75]]
