"""A recorded incremental job with other triggers: what is known then, and what is not."""

import json
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.unit.aggregates.rounds.given import BETTER, JOB, JobLog
from trackside.cli.commands.replay import whatif_job
from trackside.cli.commands.replay.whatif import WhatIfOptions
from trackside.cli.commands.replay.whatif_job import TriggerOptions
from trackside.cli.render.picture_files import picture_form
from trackside.cli.runtime.failures import BadUsage
from trackside.domain.streams.stream import Stream
from trackside.replay.history.errors import BadScenarioError
from trackside.whatif.charts.live_models_chart import live_models_picture
from trackside.whatif.job_comparison import JobComparison, JobGrid, compare_job
from trackside.whatif.job_recording import JobRecording, recorded_job
from trackside.whatif.job_scenario import parse_deploy_trigger
from trackside.whatif.job_simulation import ANY, SimulatedJob

ACCURACIES = [0.6, 0.65, 0.7, 0.85, 0.8, 0.99]
"""What each round has trained; the model that is live at first has 0.5."""
EIGHT = {"type": "condition", "metric": "num_of_samples", "operator": ">=", "threshold": 8}


def recorded(accuracies: list[float] | None = None, deploy: Any = None, **changed: Any) -> JobLog:
    """Returns a job with a round a minute: 10 samples arrive, of which 8 are trained with."""
    log, found = JobLog(), ACCURACIES if accuracies is None else accuracies
    log.next_accuracy = lambda number: found[number - 1]
    train = {"task_type": "train", "check_period_s": 0, "trigger": EIGHT}
    log.create(train=train, deploy={"trigger": BETTER, **(deploy or {})}, **changed)
    for _ in found:
        minute(log)
    return log


def minute(log: JobLog) -> None:
    """Lets a minute pass, after which 10 samples arrive; training with them takes two seconds."""
    log.now_ms += 58_000
    log.append(10)
    while task := next(iter(log.tasks()), None):
        if task.task_type == "train":
            log.place(task)
            log.now_ms += 2_000
        log.do(task)


def read(log: JobLog) -> JobRecording:
    own = [each for each in log.records if each.envelope.headers["ce_partitionkey"] == JOB.encode()]
    found = recorded_job(Stream(JOB, 0), own)
    assert found is not None
    return found


@cache
def six_rounds() -> JobRecording:
    return read(recorded())


def compared(log: JobLog | JobRecording, **grid: Any) -> JobComparison:
    return compare_job(read(log) if isinstance(log, JobLog) else log, JobGrid(**grid))


def verdicts(result: SimulatedJob) -> list[str]:
    return [each.verdict for each in result.rounds]


def live(comparison: JobComparison, at: int = -1) -> list[list[str]]:
    return [[comparison.name_of(each) for each in one.live] for one in comparison.results[at].rounds]


def test_as_recorded_or_with_the_recorded_trigger_a_job_is_the_record() -> None:
    """The times at which rounds begin follow from the samples: simulated, they are those of the record."""
    recording = six_rounds()
    (base,) = compared(recording).results
    assert verdicts(base) == ["keep", "deploy", "keep", "deploy", "keep", "deploy"]
    assert [each.recorded for each in base.rounds] == [1, 2, 3, 4, 5, 6]
    assert base.live[-1][1] == (recording.rounds[-1].trained,)
    assert base.unknown_models == 0
    base, same = compared(six_rounds(), train_thresholds=[8], train_probs=[0.8]).results
    assert [each.fired_ms for each in same.rounds] == [each.fired_ms for each in base.rounds]
    assert [each.train for each in same.rounds] == [each.train for each in base.rounds]
    assert (verdicts(same), same.live) == (verdicts(base), base.live)


def test_another_threshold_is_decided_by_what_was_measured_until_too_many_models_may_be_live() -> None:
    found = compared(six_rounds(), thresholds=[0.05, 0.3])
    assert verdicts(found.results[1])[:2] == ["deploy", "unknown"]
    assert live(found, 1)[:2] == [["digits-model@2"], ["digits-model@2", "digits-model@3"]]
    second = found.results[1].rounds[1]
    assert second.reason == "digits-model@2 was not evaluated with these samples"
    assert not second.values
    assert verdicts(found.results[2]) == ["keep", "keep", *["unknown"] * 4], "nothing reaches it for a while"
    found = compared(recorded([0.6 + 0.03 * at for at in range(12)]), thresholds=[0.05])
    assert found.results[1].rounds[-1].live == (ANY.digest,)
    assert live(found)[-1] == ["unknown"]


def test_what_is_decided_by_a_model_alone_is_known_for_ever_or_makes_the_live_model_known_again() -> None:
    absolute = {"type": "condition", "metric": "accuracy", "operator": ">", "threshold": 0.64}
    either = {"type": "any_of", "triggers": [{**BETTER, "threshold": 0.05}, {**absolute, "threshold": 0.9}]}
    for trigger, expected in (
        (absolute, ["keep", *["deploy"] * 5]),
        (either, ["deploy", *["unknown"] * 4, "deploy"]),
    ):
        found = compared(six_rounds(), deploy_triggers=[parse_deploy_trigger(json.dumps(trigger))])
        assert (verdicts(found.results[1]), live(found)[-1]) == (expected, ["digits-model@7"])


def test_rounds_with_other_samples_have_unknown_models_and_about_the_device_time_of_others() -> None:
    found = compared(six_rounds(), train_thresholds=[16])
    base, other = found.results
    assert [each.train for each in other.rounds] == [(0, 20), (20, 40), (40, 60)]
    assert [each.recorded for each in other.rounds] == [None] * 3
    assert other.rounds[0].reason == "no round was recorded with these samples"
    assert (base.device_ms, found.saved_ms(other)) == (12_000, 6_000)
    assert any("median" in line for line in found.assumptions)
    found = compared(six_rounds(), train_probs=[0.4])  # as many samples wait that are for training
    assert [each.train for each in found.results[1].rounds] == [(0, 20), (20, 40), (40, 60)]
    assert found.results[1].unknown_models == 3
    log = JobLog()
    trigger = {**EIGHT, "metric": "num_of_new_samples"}
    log.create(train={"task_type": "train", "check_period_s": 0, "trigger": trigger})
    for _ in range(4):
        minute(log)
    _, other = compared(log, train_thresholds=[16]).results
    assert [each.train for each in other.rounds] == [(0, 20), (20, 40)]


def test_a_model_from_another_base_is_unknown() -> None:
    """With `start_from: deployed` another live model is another base."""
    log = recorded(ACCURACIES[:2], start_from="deployed")
    found = compared(log, thresholds=[0.05])
    second = found.results[1].rounds[1]
    assert (second.recorded, second.reason) == (None, "no round was recorded with this base model")


def test_a_forced_deployment_is_one_with_any_threshold_and_one_without_its_approval_is_unknown() -> None:
    log = recorded([0.6], deploy={"trigger": {"type": "all_of", "triggers": [BETTER, {"type": "manual"}]}})
    assert log.job.stage == "deploy"
    log.command(JOB, "trackside.fire-deploy.v1", {"force": True})
    log.work()
    (forced,) = compared(log, thresholds=[0.9]).results[1].rounds
    assert (forced.verdict, forced.reason) == ("deploy", "forced by a command, as recorded")
    log = recorded([0.55, 0.9], deploy={"gate": {"message": "ok?"}})
    log.command(JOB, "trackside.approve-deploy.v1", {})
    log.work()
    base, lower = compared(log, thresholds=[0.01]).results
    assert (verdicts(base), verdicts(lower)[0]) == (["keep", "deploy"], "unknown")
    assert lower.rounds[0].reason == "its deployment was never submitted for approval"


def test_a_failed_round_returns_its_samples_in_every_scenario() -> None:
    log = JobLog()
    log.create(train={"task_type": "train", "check_period_s": 0, "trigger": EIGHT})
    log.append(10)
    while task := next(iter(log.tasks()), None):
        log.end(task, error="OutOfMemory") if task.task_type == "train" else log.do(task)
    assert log.job.ended_rounds >= 1
    log.next_accuracy = lambda number: 0.9
    log.wait(60)
    log.work()
    base, same = compared(log, train_thresholds=[8]).results
    assert verdicts(base)[0] == verdicts(same)[0] == "failed"
    assert verdicts(base)[-1] == verdicts(same)[-1] == "deploy"
    assert {each.train for each in base.rounds} == {each.train for each in same.rounds} == {(0, 10)}


def test_a_scenario_that_is_none_is_refused() -> None:
    for grid, message in (
        ({"thresholds": [0.1], "metric": "f1_delta"}, "no condition of the deploy trigger is on 'f1_delta'"),
        ({"train_probs": [1.5]}, "expected a number from 0 to 1"),
        ({"thresholds": [0.1], "deploy_triggers": [object()]}, "not both"),
    ):
        with pytest.raises(BadScenarioError, match=message):
            compared(six_rounds(), **grid)
    for text in ("{", "1", "null", '{"type": "never"}'):
        with pytest.raises(BadScenarioError, match="trigger"):
            parse_deploy_trigger(text)


def test_several_conditions_need_a_metric() -> None:
    two = {"type": "all_of", "triggers": [BETTER, {**BETTER, "metric": "accuracy"}]}
    log = recorded([0.7], deploy={"trigger": two})
    with pytest.raises(BadScenarioError, match="name one with --metric"):
        compared(log, thresholds=[0.3])
    found = compared(log, thresholds=[0.3], metric="accuracy")
    assert verdicts(found.results[1]) == ["deploy"]


def test_a_comparison_as_json_names_models_and_says_what_is_unknown() -> None:
    found = compared(six_rounds(), thresholds=[0.05, 0.2], train_thresholds=[8, 16]).as_json()
    assert json.loads(json.dumps(found)) == found
    assert [each["scenario"] for each in found["scenarios"]] == [
        "as recorded",
        *("accuracy_delta 0.05, 8 samples", "accuracy_delta 0.05, 16 samples"),
        *("accuracy_delta 0.2, 8 samples", "accuracy_delta 0.2, 16 samples"),
    ]
    second = found["scenarios"][1]["by_round"][1]
    assert (second["result"], second["live"]) == ("unknown", ["digits-model@2", "digits-model@3"])
    assert found["scenarios"][2]["by_round"][0]["model"] is None


def test_a_picture_has_a_band_for_each_scenario(tmp_path: Path) -> None:
    comparison = compared(six_rounds(), thresholds=[0.05, 0.2])
    tree = ElementTree.fromstring(live_models_picture(comparison, "svg"))
    texts = [each.text for each in tree.iter() if each.tag.endswith("text")]
    assert {"as recorded", "accuracy_delta 0.05", "accuracy_delta 0.2", "?", "3"} <= set(texts)
    two = compared(six_rounds(), thresholds=[0.05], train_probs=[0.8, 0.9])
    tree = ElementTree.fromstring(live_models_picture(two, "svg"))
    texts = [each.text for each in tree.iter() if each.tag.endswith("text")]
    assert {"train_prob 0.8", "train_prob 0.9"} <= set(texts), "which scenario a band is of is not cut"


def test_the_command_prints_rounds_and_assumptions_or_a_table_of_changes(capsys: Any, tmp_path: Path) -> None:
    path = tmp_path / "live.svg"
    whatif_job.compare(six_rounds(), TriggerOptions([0.05], picture=path), as_json=False)
    printed = capsys.readouterr()
    assert "digits: 6 rounds, 3 deployed, 12 s of device time" in printed.out
    assert "digits-model@2 was not evaluated with these samples" in " ".join(printed.out.split())
    assert "assumed:" in printed.out
    assert path.read_bytes().startswith(b"<svg") and "written" in printed.err
    whatif_job.compare(six_rounds(), TriggerOptions([0.05, 0.2], train_probs=[0.8, 0.4]), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["accuracy_delta", "train_prob"]
    shown = [line.split()[:2] for line in lines[3:7]]
    assert shown == [["0.05", "0.8"], ["0.05", "0.4"], ["0.2", "0.8"], ["0.2", "0.4"]]
    assert lines[2].startswith("as recorded") and "…" not in "".join(lines)


def test_a_rollback_is_as_recorded_where_its_model_was_live(capsys: pytest.CaptureFixture[str]) -> None:
    one, log = recorded([0.7]), recorded([0.7, 0.99])
    for each in (one, log):
        each.command(JOB, "trackside.rollback-model.v1", {"version": 1})
        each.work()
    initial = read(one).initial
    base, never = compared(one, thresholds=[0.3]).results
    assert [models for _, models in base.live] == [(initial,), base.live[1][1], (initial,)]
    assert [models for _, models in never.live] == [(initial,)]
    whatif_job.compare(read(log), TriggerOptions([0.05]), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    last = max(at for at, line in enumerate(lines) if line.split()[:1] == ["2"])
    assert "rollback" in lines[last + 1] and lines[last + 1].split()[-3:] == ["by", "a", "command"]


def test_options_of_searches_are_refused_for_jobs_and_the_other_way_round() -> None:
    with pytest.raises(BadUsage, match="--threshold"):
        WhatIfOptions(workers=[2]).of_job()
    with pytest.raises(BadUsage, match="incremental jobs"):
        WhatIfOptions(triggers=TriggerOptions([0.1])).of_search()
    with pytest.raises(BadUsage, match=r"\.png or \.svg"):
        picture_form(Path("live.gif"))
