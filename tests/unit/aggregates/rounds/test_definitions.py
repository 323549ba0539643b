"""What is refused of the definition of a job, as people mistype it."""

from typing import Any

import pytest

from tests.unit.aggregates.rounds.given import CREATE, JobLog, job_body
from trackside.contracts.message import Json

MINING = "$.deploy.services[0].hard_examples"


def refusals(log: JobLog, **definition: Any) -> dict[str, tuple[str, str]]:
    found = log.refusals(CREATE, job_body(**definition))
    return {problem.path: (problem.code, problem.message) for problem in found}


def mined(log: JobLog, miner: str, **parameters: object) -> dict[str, tuple[str, str]]:
    mining: Json = {"miner": miner, "parameters": parameters}
    service = {"name": "api", "task_type": "serve", "hard_examples": mining}
    return refusals(log, deploy={"services": [service]})


@pytest.mark.parametrize(
    ("written", "meant"),
    [("Treshold", "Threshold"), ("cross_entropy", "CrossEntropy"), ("random", "Random"), ("Ibt", "IBT")],
)
def test_a_misspelt_miner_is_refused_with_the_one_meant(log: JobLog, written: str, meant: str) -> None:
    """I40: otherwise its service would fail each time that it begins."""
    code, message = mined(log, written)[f"{MINING}.miner"]
    assert code == "unknown_value" and f"did you mean '{meant}'" in message


@pytest.mark.parametrize("miner", ["MyThreshold", "Entropy", "ByClass", "IBT2"])
def test_another_miner_may_be_one_that_only_the_workers_know(log: JobLog, miner: str) -> None:
    assert mined(log, miner, what="ever") == {}


def test_the_parameters_of_a_miner_are_checked(log: JobLog) -> None:
    found = mined(log, "Threshold", threshold_box=0.5, threshold="much")
    code, message = found[f"{MINING}.parameters.threshold_box"]
    assert code == "unknown_field" and "did you mean 'threshold'" in message
    assert found[f"{MINING}.parameters.threshold"][0] == "wrong_type"
    assert mined(log, "IBT", threshold_box="0.6", threshold_img=1) == {}, "Sedna has numbers as texts"


@pytest.mark.parametrize("url", ["out", "ftp://host/out", "s3://", "../out", "C:\\out"])
def test_a_place_that_no_store_has_is_refused(log: JobLog, url: str) -> None:
    """I33: other schemes and relative paths."""
    found = refusals(log, output={"url": url}, deploy={"copy_to": {"url": url}, "config": {"url": url}})
    assert {path: code for path, (code, _) in found.items()} == {
        "$.output.url": "bad_url",
        "$.deploy.copy_to.url": "bad_url",
        "$.deploy.config.url": "bad_url",
    }


@pytest.mark.parametrize("folder", ["/srv/out", "file:///srv/out", "s3://models", "s3://models/out"])
def test_folders_of_hosts_and_of_stores_are_taken(log: JobLog, folder: str) -> None:
    deploy = {"copy_to": {"url": f"{folder}/live"}, "config": {"url": folder}}
    assert refusals(log, output={"url": folder}, deploy=deploy) == {}
