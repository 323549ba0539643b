"""What is refused of the definition of a job, as people mistype it."""

from typing import Any

from tests.unit.aggregates.rounds.given import CREATE, JobLog, job_body
from trackside.contracts.envelope.message import Json

MINING = "$.deploy.services[0].hard_examples"


def refusals(log: JobLog, **definition: Any) -> dict[str, tuple[str, str]]:
    found = log.refusals(CREATE, job_body(**definition))
    return {problem.path: (problem.code, problem.message) for problem in found}


def mined(log: JobLog, miner: str, **parameters: object) -> dict[str, tuple[str, str]]:
    mining: Json = {"miner": miner, "parameters": parameters}
    service = {"name": "api", "task_type": "serve", "hard_examples": mining}
    return refusals(log, deploy={"services": [service]})


def test_a_misspelt_miner_is_refused_with_the_one_meant_and_one_only_workers_know_is_not(log: JobLog) -> None:
    """I40: otherwise its service would fail each time that it begins."""
    meant = {"Treshold": "Threshold", "cross_entropy": "CrossEntropy", "random": "Random", "Ibt": "IBT"}
    for written, known in meant.items():
        code, message = mined(log, written)[f"{MINING}.miner"]
        assert code == "unknown_value" and f"did you mean '{known}'" in message
    for miner in ("MyThreshold", "Entropy", "ByClass", "IBT2"):
        assert mined(JobLog(), miner, what="ever") == {}, miner


def test_the_parameters_of_a_miner_are_checked(log: JobLog) -> None:
    found = mined(log, "Threshold", threshold_box=0.5, threshold="much")
    code, message = found[f"{MINING}.parameters.threshold_box"]
    assert code == "unknown_field" and "did you mean 'threshold'" in message
    assert found[f"{MINING}.parameters.threshold"][0] == "wrong_type"
    assert mined(log, "IBT", threshold_box="0.6", threshold_img=1) == {}, "Sedna has numbers as texts"


def test_only_folders_of_hosts_and_of_stores_are_taken_as_places() -> None:
    """I33: no other schemes and relative paths."""
    paths = ("$.output.url", "$.deploy.copy_to.url", "$.deploy.config.url")
    for url in ("out", "ftp://host/out", "s3://", "../out", "C:\\out"):
        deploy = {"copy_to": {"url": url}, "config": {"url": url}}
        found = refusals(JobLog(), output={"url": url}, deploy=deploy)
        assert {path: code for path, (code, _) in found.items()} == dict.fromkeys(paths, "bad_url"), url
    for folder in ("/srv/out", "file:///srv/out", "s3://models", "s3://models/out"):
        deploy = {"copy_to": {"url": f"{folder}/live"}, "config": {"url": folder}}
        assert refusals(JobLog(), output={"url": folder}, deploy=deploy) == {}, folder
