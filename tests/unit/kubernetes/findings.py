"""What is wrong with rendered manifests, as sentences: each function looks at one subject."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from deploy import reference
from pydantic import ValidationError
from pydantic_settings import BaseSettings

from tests.unit.kubernetes.manifests import (
    WORKLOADS,
    Container,
    Manifest,
    containers,
    name_of,
    of_kind,
    pods,
    selects,
)

MADE_IN_THE_CLUSTER = {
    "trackside-postgres-app": "CloudNativePG makes it",
    "trackside-console": "made by hand, as docs/operations.md says",
}


@cache
def settings() -> dict[str, tuple[type[BaseSettings], str]]:
    """Returns every setting of a service by its variable: its class and its field."""
    return {
        (str(kind.model_config.get("env_prefix", "")) + name).upper(): (kind, name)
        for kind in reference.settings_classes()
        for name in kind.model_fields
    }


def of_variables(manifests: list[Manifest]) -> Iterator[str]:
    """Finds variables that are no settings, values that are not accepted, and files that don't exist."""
    known = settings()
    for container in containers(manifests):
        for variable, value in container.variables.items():
            if not variable.startswith("TRACKSIDE_"):
                continue
            if variable not in known:
                yield f"{container.name}: {variable} is no setting"
            elif variable.endswith("_FILE"):
                if not any(value.startswith(f"{each}/") for each in _mounted(container)):
                    yield f"{container.name}: {variable} is {value}, where nothing is mounted"
            elif value and (problem := _problem(*known[variable], value)):
                yield f"{container.name}: {variable}: {problem}"


@cache
def _problem(kind: type[BaseSettings], field: str, value: str) -> str:
    try:
        kind.model_validate({field: value})
    except ValidationError as error:
        return next((each["msg"] for each in error.errors() if each["loc"]), "")  # not of all fields together
    return ""


def _mounted(container: Container) -> list[str]:
    return [each["mountPath"] for each in container.spec.get("volumeMounts", [])]


def of_settings(manifests: list[Manifest]) -> Iterator[str]:
    """Finds settings that contradict another field: ports, addresses and times."""
    addresses = _addresses(manifests)
    for container in containers(manifests):
        of = container.variables
        if of.get("TRACKSIDE_KAFKA_BOOTSTRAP") not in addresses:
            yield f"{container.name}: no Kafka has the address {of.get('TRACKSIDE_KAFKA_BOOTSTRAP')}"
        dsn = of.get("TRACKSIDE_POSTGRES_DSN", "")
        if dsn and dsn.partition("@")[2].partition("/")[0] not in addresses:
            yield f"{container.name}: no Postgres has the address in {dsn}"
        if "worker" in container.name and any("POSTGRES" in name for name in of):
            yield f"{container.name}: a worker, whose tasks are of others, has a way into Postgres"
        if not container.is_service:
            continue
        ports = {each["name"]: each["containerPort"] for each in container.spec.get("ports", [])}
        if str(ports.get("http")) != of.get("TRACKSIDE_HEALTH_PORT"):
            yield f"{container.name}: the port `http` is not TRACKSIDE_HEALTH_PORT"
        if of.get("TRACKSIDE_HEALTH_HOST") != "0.0.0.0":
            yield f"{container.name}: its probes can't reach it"
        grace_s = float(of.get("TRACKSIDE_WORKER_STOP_GRACE_S", "5")) if "worker" in container.name else 5
        if container.pod["terminationGracePeriodSeconds"] < grace_s + 10:
            yield f"{container.name}: it is killed before it has ended its tasks"


def _addresses(manifests: list[Manifest]) -> set[str]:
    kafka = {
        f"{each['metadata']['name']}-kafka-bootstrap:{listener['port']}"
        for each in of_kind(manifests, "Kafka")
        for listener in each["spec"]["kafka"]["listeners"]
    }
    return kafka | {f"{each['metadata']['name']}-rw:5432" for each in of_kind(manifests, "Cluster")}


def of_containers(manifests: list[Manifest]) -> Iterator[str]:
    """Finds containers that the level `restricted` does not permit, or without limits or probes."""
    for container in containers(manifests):
        name, spec, pod = container.name, container.spec, container.pod
        security = spec.get("securityContext", {})
        if security.get("allowPrivilegeEscalation") is not False or not security.get(
            "readOnlyRootFilesystem"
        ):
            yield f"{name}: it may change its image, or gain rights"
        if security.get("capabilities", {}).get("drop") != ["ALL"]:
            yield f"{name}: it keeps capabilities"
        of_pod = pod.get("securityContext", {})
        if not of_pod.get("runAsNonRoot") or of_pod.get("seccompProfile") != {"type": "RuntimeDefault"}:
            yield f"{name}: its pod may run as root, or has no seccomp profile"
        if pod.get("automountServiceAccountToken") is not False or pod.get("enableServiceLinks") is not False:
            yield f"{name}: its pod has a token of the API, or variables of other Services"
        resources = spec.get("resources", {})
        if not {"cpu", "memory"} <= resources.get("requests", {}).keys():
            yield f"{name}: it requests no CPU or no memory"
        if "memory" not in resources.get("limits", {}):
            yield f"{name}: its memory has no limit"
        if spec["image"].rpartition("/")[2].partition(":")[2] in ("", "latest"):
            yield f"{name}: its image {spec['image']} has no tag"
        if container.is_service:
            yield from _of_probes(name, spec)


def _of_probes(name: str, spec: Manifest) -> Iterator[str]:
    wanted = {"startupProbe": "/health", "livenessProbe": "/health", "readinessProbe": "/ready"}
    for probe, path in wanted.items():
        if spec.get(probe, {}).get("httpGet") != {"path": path, "port": "http"}:
            yield f"{name}: {probe} is not {path} of the port `http`"


def of_volumes(manifests: list[Manifest]) -> Iterator[str]:
    """Finds mounts without a volume, and ConfigMaps and Secrets that don't exist or that nothing uses."""
    existing = {each["metadata"]["name"] for each in of_kind(manifests, "ConfigMap", "Secret")}
    existing |= MADE_IN_THE_CLUSTER.keys()
    used: set[str] = set()
    sets = of_kind(manifests, "StatefulSet")
    listed = [claim for each in sets for claim in each["spec"].get("volumeClaimTemplates", [])]
    claims = {claim["metadata"]["name"] for claim in listed}
    for container in containers(manifests):
        volumes = {each["name"]: each for each in container.pod.get("volumes", [])}
        known = volumes.keys() | (claims if container.name.startswith("StatefulSet/") else set())
        for mount in container.spec.get("volumeMounts", []):
            if mount["name"] not in known:
                yield f"{container.name}: no volume {mount['name']}"
        if "/tmp" not in _mounted(container):
            yield f"{container.name}: it can't write to /tmp"
        named = [each["secret"]["secretName"] for each in volumes.values() if "secret" in each]
        named += [each["configMapRef"]["name"] for each in container.spec.get("envFrom", [])]
        yield from (f"{container.name}: nothing is named {name}" for name in named if name not in existing)
        used.update(named)
    for name in existing - used - MADE_IN_THE_CLUSTER.keys() - _of_grafana(manifests):
        yield f"nothing uses {name}"


def _of_grafana(manifests: list[Manifest]) -> set[str]:
    labels = {"grafana_dashboard", "grafana_datasource"}
    maps = of_kind(manifests, "ConfigMap")
    return {each["metadata"]["name"] for each in maps if labels & each["metadata"]["labels"].keys()}


def of_selectors(manifests: list[Manifest]) -> Iterator[str]:
    """Finds selectors that select nothing, and workloads that take the pods of each other for theirs."""
    labels = pods(manifests)
    for workload in of_kind(manifests, "Deployment", "StatefulSet", "DaemonSet"):
        selected = {name for name, own in labels.items() if selects(workload["spec"]["selector"], own)}
        if selected != {name_of(workload)}:
            yield f"{name_of(workload)} selects the pods of {sorted(selected)}"
    for manifest in manifests:
        for selector in _selectors(manifest):
            if not any(selects(selector, own) for own in labels.values()):
                yield f"{name_of(manifest)} selects nothing by {selector}"
    ports = ports_of_pods(manifests)
    for service in of_kind(manifests, "Service"):
        wanted = {port["targetPort"] for port in service["spec"]["ports"]}
        for name, own in labels.items():
            if selects({"matchLabels": service["spec"]["selector"]}, own):
                missing = wanted - ports.get(name, set())
                yield from (f"{name_of(service)}: no container of {name} has the port {it}" for it in missing)
    accounts = {each["metadata"]["name"] for each in of_kind(manifests, "ServiceAccount")}
    for workload in of_kind(manifests, *WORKLOADS):
        if workload["spec"]["template"]["spec"].get("serviceAccountName") not in accounts:
            yield f"{name_of(workload)} has no service account of its own"


def ports_of_pods(manifests: list[Manifest]) -> dict[str, set[str]]:
    return {
        name_of(each): {
            port["name"]
            for container in each["spec"]["template"]["spec"]["containers"]
            for port in container.get("ports", [])
        }
        for each in of_kind(manifests, *WORKLOADS)
    }


def _selectors(manifest: Manifest) -> list[Manifest]:
    spec: Mapping[str, Any] = manifest.get("spec", {})
    match manifest["kind"]:
        case "Service":
            return [{"matchLabels": spec["selector"]}]
        case "PodDisruptionBudget" | "PodMonitor":
            return [spec["selector"]]
        case "NetworkPolicy":
            rules = [*spec.get("ingress", []), *spec.get("egress", [])]
            peers = [peer for rule in rules for key in ("from", "to") for peer in rule.get(key, [])]
            ours = [peer["podSelector"] for peer in peers if "namespaceSelector" not in peer]
            return [spec["podSelector"], *ours]
        case "Deployment" | "StatefulSet":
            spread = spec["template"]["spec"].get("topologySpreadConstraints", [])
            return [each["labelSelector"] for each in spread]
        case _:
            return []


def of_labels(manifests: list[Manifest]) -> Iterator[str]:
    """Finds manifests and pods without the recommended labels of Kubernetes, or outside of the namespace."""
    for manifest in manifests:
        if "app.kubernetes.io/part-of" not in manifest["metadata"].get("labels", {}):
            yield f"{name_of(manifest)} has no label app.kubernetes.io/part-of"
        if manifest["kind"] != "Namespace" and manifest["metadata"].get("namespace") != "trackside":
            yield f"{name_of(manifest)} is in no namespace"
    for workload in of_kind(manifests, *WORKLOADS):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        for name in ("name", "component", "part-of", "version"):
            if f"app.kubernetes.io/{name}" not in labels:
                yield f"{name_of(workload)}: its pods have no label app.kubernetes.io/{name}"


def of_single_instances(manifests: list[Manifest]) -> Iterator[str]:
    """Finds a summary-indexer of which there may be two at a time, and standbys that decide at once."""
    for workload in of_kind(manifests, "Deployment"):
        spec, name = workload["spec"], workload["metadata"]["name"]
        if name == "trackside-summary-indexer" and (spec["replicas"], spec["strategy"]["type"]) != (
            1,
            "Recreate",
        ):
            yield f"{name_of(workload)}: two of them may run at once"
        first = spec["template"]["spec"]["containers"][0]
        variables = {each["name"]: each.get("value") for each in first["env"]}
        service = name.removeprefix("trackside-").removesuffix("-standby").upper()
        if (variables.get(f"TRACKSIDE_{service}_STANDBY") == "true") != name.endswith("-standby"):
            yield f"{name_of(workload)}: its name and TRACKSIDE_{service}_STANDBY don't agree"


CHECKS = (of_variables, of_settings, of_containers, of_volumes, of_selectors, of_labels, of_single_instances)


def findings(manifests: list[Manifest]) -> list[str]:
    return [finding for check in CHECKS for finding in check(manifests)]
