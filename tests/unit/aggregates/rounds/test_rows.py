"""The rows of jobs: what a job has forgotten stays in the tables."""

import json

import pytest

from tests.unit.aggregates.rounds.history import SERVICE, JobHistory
from trackside.aggregates.rounds.job.deploy_messages import DeployApproved, HardExamplesReported
from trackside.aggregates.rounds.messages import RoundEnded, StageBlocked, StageState
from trackside.aggregates.rounds.state import TaskOutcome


def test_a_round_stays_in_the_tables_when_the_job_has_gone_on() -> None:
    """I41: number of the round, its samples, new and old metrics, and whether it was deployed."""
    told = JobHistory()
    told.whole_round(0.90, 0.80)
    told.whole_round(0.91, 0.90)
    first, second = told.row("rounds", 1), told.row("rounds", 2)
    names = ("status", "deployed", "base_version", "version")
    assert [first[name] for name in names] == ["completed", True, 1, 2]
    assert json.loads(first["trained"]) == {"accuracy": 0.90}
    assert (first["train_samples"], first["eval_samples"]) == (80, 20)
    assert (second["deploy"], second["deployed"], second["base_version"]) == (False, False, 2)
    assert second["decision_reason"] == "accuracy_delta > 0.02: it is 0.01"
    assert told.job.round is None
    assert told.row("deployments", 1)["status"] == "deployed"


def test_the_times_of_a_stage_are_kept_and_what_hindered_it_until_it_went_on() -> None:
    """I1, I21: what begins a stage, and its end; what tasks say comes from their own rows."""
    told = JobHistory()
    said = {"reason": "no_samples", "message": "no sample for training has come"}
    told.tell(StageBlocked(stage="train", round=1, **said))
    assert told.row("stages", 1, "train")["blocked"] == "no_samples"
    assert told.row("incremental_jobs")["blocked_message"] == said["message"]
    told.whole_round(0.90, 0.80)
    train, deploy, waits = (told.row("stages", *key) for key in ((1, "train"), (1, "deploy"), (2, "train")))
    assert train["waiting_ms"] < train["ready_ms"] < train["ended_ms"]
    assert (train["status"], train["blocked"]) == (StageState.COMPLETED.value, "")
    assert train["manifest_url"] == "/data/out/data/train/1/data.txt"
    assert deploy["ready_ms"] < deploy["starting_ms"] < deploy["running_ms"] < deploy["ended_ms"]
    assert (waits["waiting_ms"] is not None, waits["ready_ms"], waits["status"]) == (True, None, None)


def test_counts_of_a_window_are_of_its_service_of_its_job_and_of_the_round_that_has_begun_last() -> None:
    """I41: also of a service that is no task, whose counts `ReportHardExamples` brings."""
    told = JobHistory()
    told.whole_round(0.9, 0.8)
    told.report_hard_examples(100, 7)
    told.report_hard_examples(50, 1)
    assert told.row("hard_examples", SERVICE, 2)["round"] == 1
    service = told.row("inference_services", SERVICE)
    assert (service["inferences"], service["hard_examples"], service["windows"]) == (150, 8, 2)
    counted = {"service": "edge-camera", "window": 1, "inferences": 120, "hard": 7, "command_id": "c1"}
    told.tell(HardExamplesReported.model_validate(counted))
    job = told.row("incremental_jobs")
    assert (job["inferences"], job["hard_examples"]) == (270, 15)


def test_each_sample_is_in_one_range_of_a_round_or_waits() -> None:
    told = JobHistory()
    for _ in range(3):
        told.whole_round(0.9, 0.89)
    told.assign(7)
    ranges = [told.row("sample_ranges", number, "train", 1) for number in (1, 2, 3)]
    assert [each["begin_sample"] for each in ranges] == [0, 100, 200]
    assert [each["end_sample"] for each in ranges] == [100, 200, 300]
    assert [each["samples"] for each in ranges] == [80, 80, 80]
    assert [key[3] for key in told.rows["sample_ranges"] if key[1:3] == (3, "eval")] == [1, 2, 3]
    job = told.row("incremental_jobs")
    assert (job["waiting_samples"], job["samples"], json.loads(job["waiting_range"])) == (5, 307, [300, 307])


@pytest.mark.parametrize("approval", [False, True])
def test_a_deployment_names_who_has_approved_it_or_which_targets_have_not_confirmed(approval: bool) -> None:
    told = JobHistory()
    told.assign(100)
    told.train()
    told.evaluate(0.9, 0.8)
    told.decide(deploy=True, approval=approval)
    if approval:
        assert told.row("rounds", 1)["asks"] is True
        assert told.row("incremental_jobs")["waits_for_approval"] is True
        told.tell(DeployApproved(command_id="c-9", round=1, actor="ada"))
        assert (told.row("rounds", 1)["approval"], told.row("rounds", 1)["actor"]) == ("approved", "ada")
        return
    told.publish()
    assert json.loads(told.row("deployments", 1)["open"]) == [SERVICE]
    assert json.loads(told.row("incremental_jobs")["update_open"]) == [SERVICE]
    told.confirm()
    assert json.loads(told.row("deployments", 1)["open"]) == []


def test_a_round_that_failed_says_so_and_its_samples_wait_again_and_the_job_how_far_its_trigger_is() -> None:
    """I22: nothing is lost with a round that fails."""
    told = JobHistory()
    told.assign(50)
    train = json.loads(told.row("incremental_jobs")["triggers"])[0]
    assert (train["trigger"], train["seen"][0]["value"]) == ("num_of_samples >= 80", 40)
    told.assign(50)
    told.fire("train")
    told.job.stage_state = StageState.RUNNING
    assert told.job.round is not None
    told.job.round.outcomes["train"] = TaskOutcome(False, 1)
    told.end_stage("train", StageState.FAILED, reason="exit_code", message="exit code 1")
    ended = {"number": 1, "status": "failed", "stage": "train", "deployed": False, "released": (0, 100)}
    told.tell(RoundEnded, **ended)
    assert told.row("rounds", 1)["status"] == "failed"
    assert told.row("stages", 1, "train")["message"] == "exit code 1"
    assert told.row("incremental_jobs")["waiting_samples"] == 80
