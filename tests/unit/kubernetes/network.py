"""Which connections the NetworkPolicies of some manifests permit.

Source: the documentation of Kubernetes, "Network Policies". A connection needs an egress rule of where it
comes from and an ingress rule of where it goes to; a pod that no policy selects for a direction has no limit
in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tests.unit.kubernetes.manifests import Labels, Manifest, of_kind, selects

Direction = Literal["Ingress", "Egress"]


@dataclass(frozen=True)
class Peer:
    """One end of a connection: a pod, by its labels, in a namespace."""

    namespace: str
    labels: Labels


def is_permitted(manifests: list[Manifest], source: Peer, target: Peer, port: int, own: str) -> bool:
    """Returns whether a TCP connection is possible, as far as the policies of the namespace `own` say."""
    policies = [*of_kind(manifests, "NetworkPolicy"), *_policies_of_strimzi(manifests)]
    return _permits(policies, "Egress", source, target, port, own) and _permits(
        policies, "Ingress", target, source, port, own
    )


def _permits(
    policies: list[Manifest], direction: Direction, pod: Peer, other: Peer, port: int, own: str
) -> bool:
    if pod.namespace != own:
        return True
    specs = [policy["spec"] for policy in policies if direction in policy["spec"]["policyTypes"]]
    selecting = [spec for spec in specs if selects(spec["podSelector"], pod.labels)]
    peers, key = ("from", "ingress") if direction == "Ingress" else ("to", "egress")
    rules = (rule for spec in selecting for rule in spec.get(key, []))
    return not selecting or any(_is_of_rule(rule, peers, other, port, own) for rule in rules)


def _is_of_rule(rule: Manifest, peers: str, other: Peer, port: int, own: str) -> bool:
    if "ports" in rule and port not in {each["port"] for each in rule["ports"] if each["protocol"] == "TCP"}:
        return False
    return peers not in rule or any(_is_peer(peer, other, own) for peer in rule[peers])


def _is_peer(peer: Manifest, other: Peer, own: str) -> bool:
    if "namespaceSelector" in peer:
        if not selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": other.namespace}):
            return False
    elif other.namespace != own:
        return False
    return selects(peer.get("podSelector", {}), other.labels)


def _policies_of_strimzi(manifests: list[Manifest]) -> Iterator[Manifest]:
    """Yields what Strimzi makes of a Kafka: the ports between its pods, and those of its listeners."""
    for kafka in of_kind(manifests, "Kafka"):
        ours = {"matchLabels": {"strimzi.io/cluster": kafka["metadata"]["name"]}}
        between = [{"port": at, "protocol": "TCP"} for at in (9090, 9091)]
        rules = [{"from": [{"podSelector": ours}], "ports": between}]
        rules.append({"ports": [{"port": 9404, "protocol": "TCP"}]})
        for listener in kafka["spec"]["kafka"]["listeners"]:
            ports = [{"port": listener["port"], "protocol": "TCP"}]
            rules.append({"from": listener["networkPolicyPeers"], "ports": ports})
        spec = {"podSelector": ours, "policyTypes": ["Ingress"], "ingress": rules}
        yield {"kind": "NetworkPolicy", "spec": spec}
