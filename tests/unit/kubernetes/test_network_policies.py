import pytest

from tests.unit.kubernetes.manifests import OVERLAYS, Manifest, pods, rendered
from tests.unit.kubernetes.network import Peer, is_permitted

OWN = "trackside"
DECIDERS = ("Deployment/trackside-dispatcher", "Deployment/trackside-scheduler")
INDEXER, CONSOLE = "Deployment/trackside-summary-indexer", "Deployment/trackside-console"
WITH_POSTGRES = (*DECIDERS, INDEXER, CONSOLE, "Job/trackside-setup")
WORKER = "StatefulSet/trackside-worker"
KAFKA, POSTGRES = "KafkaNodePool/broker", "Cluster/trackside-postgres"
PROMETHEUS = Peer("monitoring", {"app.kubernetes.io/name": "prometheus"})
GRAFANA = Peer("monitoring", {"app.kubernetes.io/name": "grafana"})
INGRESS = Peer("ingress-nginx", {"app.kubernetes.io/name": "ingress-nginx"})
STRANGER = Peer("default", {"app.kubernetes.io/name": "trackside"})
OPERATOR = Peer("cnpg-system", {"app.kubernetes.io/name": "cloudnative-pg"})
Connection = tuple[str | Peer, str | Peer, int]


def connects(manifests: list[Manifest], source: str | Peer, target: str | Peer, port: int) -> bool:
    """Returns whether a connection is possible; a name is that of a workload of the overlay."""
    labels = pods(manifests)
    ends = [Peer(OWN, labels[end]) if isinstance(end, str) else end for end in (source, target)]
    return is_permitted(manifests, ends[0], ends[1], port, OWN)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_service_reaches_what_it_needs(overlay: str) -> None:
    manifests = rendered(overlay)
    for source in (*WITH_POSTGRES, WORKER):
        assert connects(manifests, source, KAFKA, 9092), source
    for source in WITH_POSTGRES:
        assert connects(manifests, source, POSTGRES, 5432), source
    assert connects(manifests, KAFKA, KAFKA, 9091)
    assert connects(manifests, POSTGRES, POSTGRES, 5432)
    assert connects(manifests, OPERATOR, POSTGRES, 8000)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_console_asks_services_and_is_reached_by_an_ingress_controller_only(overlay: str) -> None:
    manifests = rendered(overlay)
    for target in (*DECIDERS, INDEXER):
        assert connects(manifests, CONSOLE, target, 8080), target
        assert not connects(manifests, target, CONSOLE, 8470), target
    assert connects(manifests, INGRESS, CONSOLE, 8470)
    denied: list[Connection] = [(INGRESS, CONSOLE, 8080), (INGRESS, DECIDERS[0], 8080)]
    denied += [(CONSOLE, WORKER, 8080), (WORKER, CONSOLE, 8470), (STRANGER, CONSOLE, 8470)]
    assert [each for each in denied if connects(manifests, *each)] == []


def test_workers_on_gpus_reach_kafka_and_the_brokers_reach_their_controllers() -> None:
    manifests = rendered("production")
    assert connects(manifests, "DaemonSet/trackside-gpu-worker", KAFKA, 9092)
    assert connects(manifests, "Deployment/trackside-scheduler-standby", POSTGRES, 5432)
    assert connects(manifests, KAFKA, "KafkaNodePool/controller", 9090)


def test_metrics_and_tables_are_read_from_the_namespace_of_monitoring() -> None:
    manifests = rendered("production")
    for target in (*DECIDERS, INDEXER, CONSOLE, WORKER):
        assert connects(manifests, PROMETHEUS, target, 8080), target
    assert connects(manifests, PROMETHEUS, KAFKA, 9404)
    assert connects(manifests, PROMETHEUS, POSTGRES, 9187)
    assert connects(manifests, GRAFANA, POSTGRES, 5432)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_else_is_reached(overlay: str) -> None:
    manifests = rendered(overlay)
    strange: list[Connection] = [(STRANGER, DECIDERS[0], 8080), (STRANGER, KAFKA, 9092)]
    strange += [(STRANGER, POSTGRES, 5432), (WORKER, STRANGER, 443), (PROMETHEUS, POSTGRES, 5432)]
    own: list[Connection] = [(WORKER, POSTGRES, 5432), (*DECIDERS, 8080), (WORKER, DECIDERS[0], 8080)]
    own += [(WORKER, KAFKA, 9091), (KAFKA, POSTGRES, 5432)]
    assert [each for each in (*strange, *own) if connects(manifests, *each)] == []
