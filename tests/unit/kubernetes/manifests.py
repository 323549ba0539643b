"""The manifests of deploy/kubernetes as a cluster receives them: rendered by kustomize, with their pods."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
KUBERNETES = ROOT / "deploy" / "kubernetes"
OVERLAYS = ("dev", "production")
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job")
Manifest = dict[str, Any]
Labels = Mapping[str, str]


@cache
def rendered(overlay: str) -> list[Manifest]:
    """Returns the manifests of an overlay, not to be changed; skips the test if nothing can render them."""
    folder = KUBERNETES / "overlays" / overlay
    if shutil.which("kustomize"):
        command = ["kustomize", "build", str(folder)]
    elif shutil.which("kubectl"):
        command = ["kubectl", "kustomize", str(folder)]
    else:
        pytest.skip("needs kustomize or kubectl on PATH")
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return list(yaml.load_all(run.stdout, yaml.CSafeLoader))


def name_of(manifest: Manifest) -> str:
    """Returns kind and name, such as Deployment/trackside-dispatcher."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def of_kind(manifests: list[Manifest], *kinds: str) -> Iterator[Manifest]:
    return (manifest for manifest in manifests if manifest["kind"] in kinds)


@dataclass(frozen=True)
class Container:
    """A container of a workload, with the variables that its ConfigMaps and its own list give it.

    A variable whose value is known only in the cluster is "".
    """

    name: str
    pod: Manifest
    spec: Manifest
    variables: Mapping[str, str]
    is_service: bool


def containers(manifests: list[Manifest]) -> Iterator[Container]:
    settings = {each["metadata"]["name"]: each["data"] for each in of_kind(manifests, "ConfigMap")}
    for workload in of_kind(manifests, *WORKLOADS):
        pod = workload["spec"]["template"]["spec"]
        for part in ("initContainers", "containers"):
            for spec in pod.get(part, []):
                variables: dict[str, str] = {}
                for source in spec.get("envFrom", []):
                    variables |= settings.get(source["configMapRef"]["name"], {})
                variables |= {each["name"]: each.get("value", "") for each in spec.get("env", [])}
                is_service = part == "containers" and workload["kind"] != "Job"
                name = f"{name_of(workload)}/{spec['name']}"
                yield Container(name, pod, spec, variables, is_service)


def pods(manifests: list[Manifest]) -> dict[str, Labels]:
    """Returns the labels of all pods by what makes them: our workloads, and what the operators act on.

    Sources: the documentation of Strimzi ("Labels") and of CloudNativePG ("Labels and annotations").
    """
    workloads = of_kind(manifests, *WORKLOADS)
    found: dict[str, Labels] = {name_of(it): it["spec"]["template"]["metadata"]["labels"] for it in workloads}
    for pool in of_kind(manifests, "KafkaNodePool"):
        cluster, name = pool["metadata"]["labels"]["strimzi.io/cluster"], pool["metadata"]["name"]
        labels = {"strimzi.io/cluster": cluster, "strimzi.io/kind": "Kafka", "strimzi.io/pool-name": name}
        found[name_of(pool)] = {**labels, "strimzi.io/name": f"{cluster}-kafka"}
    for cluster in of_kind(manifests, "Cluster"):
        found[name_of(cluster)] = {"cnpg.io/cluster": cluster["metadata"]["name"]}
    return found


def selects(selector: Manifest, labels: Labels) -> bool:
    """Returns whether a label selector selects something with these labels; an empty one selects all."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for term in selector.get("matchExpressions", []):
        assert term["operator"] == "In", "the only operator that the manifests use"
        if labels.get(term["key"]) not in term["values"]:
            return False
    return True
