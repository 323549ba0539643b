import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml
from deploy import kubernetes_manifests

from tests.unit.kubernetes.findings import (
    findings,
    of_containers,
    of_selectors,
    of_settings,
    of_single_instances,
    of_variables,
    of_volumes,
    settings,
)
from tests.unit.kubernetes.manifests import KUBERNETES, OVERLAYS, Manifest, name_of, of_kind, rendered
from trackside.console.settings import ConsoleSettings
from trackside.telemetry.names import METRICS

MAX_CONFIG_MAP_BYTES = 1_048_576
VARIABLE = re.compile(r"\bTRACKSIDE_[A-Z_]+[A-Z]\b")
CONSOLE = "Deployment/trackside-console"
METRIC = re.compile(r"\btrackside_\w+")


def manifest(manifests: list[Manifest], name: str) -> Any:
    (found,) = (each for each in manifests if name_of(each) == name)
    return found


def pod(manifests: list[Manifest], name: str) -> Any:
    return manifest(manifests, name)["spec"]["template"]["spec"]


def service(manifests: list[Manifest], name: str) -> Any:
    return pod(manifests, name)["containers"][0]


@pytest.mark.thorough
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_has_no_findings(overlay: str) -> None:
    assert findings(rendered(overlay)) == []


REMOVED = object()
DISPATCHER, SCHEDULER = "Deployment/trackside-dispatcher", "Deployment/trackside-scheduler"
WORKER = "StatefulSet/trackside-worker"
POD, SERVICE = "spec.template.spec", "spec.template.spec.containers.0"
MATCHED = "spec.selector.matchLabels"


def changed(manifests: list[Manifest], name: str, path: str, value: Any) -> None:
    """Sets or removes what is at a path in a manifest; `-` is the end of a list."""
    above, _, last = path.rpartition(" ")
    place: Any = manifest(manifests, name)
    for part in above.replace(" ", ".").split("."):
        place = place[int(part) if part.isdecimal() else part]
    if value is REMOVED:
        place.pop(*([] if last == "-" else [last]))
    elif last == "-":
        place.append(value)
    else:
        place[last] = value


@pytest.mark.parametrize(
    ("mistakes", "check", "finding"),
    [
        (
            {WORKER: (f"{SERVICE} env -", {"name": "TRACKSIDE_WORKER_LOAD_EARLY", "value": "-1"})},
            *(of_variables, "TRACKSIDE_WORKER_LOAD_EARLY: Input should be greater"),
        ),
        (
            {WORKER: (f"{SERVICE} env -", {"name": "TRACKSIDE_POSTGRES_PASSWORD_FILE", "value": "/run/x"})},
            *(of_settings, "a worker, whose tasks are of others, has a way into Postgres"),
        ),
        (
            {WORKER: (f"{POD} terminationGracePeriodSeconds", 30)},
            *(of_settings, "killed before it has ended its tasks"),
        ),
        (
            {SCHEDULER: (f"{SERVICE}.resources.limits memory", REMOVED)},
            *(of_containers, "its memory has no limit"),
        ),
        ({SCHEDULER: (f"{POD} volumes -", REMOVED)}, of_volumes, "no volume"),
        (
            dict.fromkeys((DISPATCHER, f"{DISPATCHER}-standby"), (f"{MATCHED} trackside/decides", REMOVED)),
            *(of_selectors, "selects the pods of"),
        ),
        ({f"{SCHEDULER}-standby": (f"{SERVICE} env -", REMOVED)}, of_single_instances, "don't agree"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_each_check_finds_a_mistake(
    mistakes: dict[str, tuple[str, Any]], check: Callable[[list[Manifest]], Iterator[str]], finding: str
) -> None:
    manifests = deepcopy(rendered("production"))
    for name, (path, value) in mistakes.items():
        changed(manifests, name, path, value)
    assert any(finding in sentence for sentence in check(manifests))


@pytest.mark.parametrize(
    "path", sorted(KUBERNETES.rglob("kustomization.yaml")), ids=lambda path: path.parent.name
)
def test_a_kustomization_uses_every_file_of_its_folder(path: Any) -> None:
    """A manifest that is in no list would never be applied; kustomize itself finds the opposite."""
    listed = yaml.safe_load(path.read_text("utf-8"))
    used = {*listed.get("resources", []), *(each.get("path") for each in listed.get("patches", []))}
    assert ({each.name for each in path.parent.glob("*.yaml")} - {path.name}) - used == set()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_console_has_users_and_asks_services_that_exist(overlay: str) -> None:
    manifests = rendered(overlay)
    variables = {each["name"]: each.get("value") for each in service(manifests, CONSOLE)["env"]}
    of = {name.removeprefix("TRACKSIDE_CONSOLE_").lower(): value for name, value in variables.items()}
    known = of.keys() & ConsoleSettings.model_fields
    given = ConsoleSettings.model_validate({name: of[name] for name in known})
    assert given.has_login
    assert given.session_key_file, "one pod must know the sessions of the last one"
    listed = [(each["metadata"]["name"], each["spec"]["ports"]) for each in of_kind(manifests, "Service")]
    services = {f"http://{name}:{port['port']}" for name, ports in listed for port in ports}
    assert len(given.addresses_of_services) == 3
    assert set(given.addresses_of_services.values()) <= services
    ports = {each["containerPort"] for each in service(manifests, CONSOLE)["ports"]}
    assert given.port in ports


def test_every_variable_in_a_file_is_a_setting() -> None:
    """Where nothing can render the manifests, this much is tested of their variables."""
    text = "".join(path.read_text("utf-8") for path in sorted(KUBERNETES.rglob("*.yaml")))
    found = set(VARIABLE.findall(text))
    assert len(found) > 10
    assert found - settings().keys() - {"TRACKSIDE_READER_PASSWORD"} == set()  # Grafana's own


def test_the_rules_and_the_list_of_dashboards_are_those_of_their_folders() -> None:
    assert kubernetes_manifests.differing() == [], "run: python deploy/kubernetes_manifests.py"


def test_a_cluster_gets_every_rule_and_every_dashboard() -> None:
    manifests = rendered("production")
    rules = [each["spec"] for each in of_kind(manifests, "PrometheusRule")]
    files = sorted(kubernetes_manifests.RULES.glob("*.yml"))
    assert rules == [yaml.safe_load(path.read_text("utf-8")) for path in files]
    dashboards = {
        name: json.loads(text)
        for each in of_kind(manifests, "ConfigMap")
        if each["metadata"]["labels"].get("grafana_dashboard") == "1"
        for name, text in each["data"].items()
    }
    originals = kubernetes_manifests.DASHBOARDS.glob("*.json")
    assert dashboards == {path.name: json.loads(path.read_text("utf-8")) for path in originals}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_config_map_fits_into_its_limit(overlay: str) -> None:
    for each in of_kind(rendered(overlay), "ConfigMap"):
        assert sum(len(text.encode()) for text in each["data"].values()) < MAX_CONFIG_MAP_BYTES


def test_workers_are_scaled_by_metrics_that_exist_and_by_the_slots_of_one_worker() -> None:
    manifests = rendered("production")
    scaled = manifest(manifests, "ScaledObject/trackside-worker")["spec"]
    (trigger,) = scaled["triggers"]
    found = set(METRIC.findall(trigger["metadata"]["query"]))
    assert found
    assert found - {metric.prometheus_name for metric in METRICS} == set()
    worker = manifest(manifests, f"{scaled['scaleTargetRef']['kind']}/{scaled['scaleTargetRef']['name']}")
    limits = worker["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert trigger["metadata"]["threshold"] == limits["cpu"]
    assert "replicas" not in worker["spec"]
