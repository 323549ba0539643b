"""The page of rights: who may do what with which topic, from the table in `trackside.contracts`."""

from collections.abc import Iterator

from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import USES, WORKER, Right, rights, worker_principal

INTRODUCTION = (
    "Who may do what with which topic. `trackside setup acls` makes the ACLs of a Kafka broker from this "
    "table; what is not in it is denied ([why, and what an ACL can't hold](../security.md)). "
    "`TRACKSIDE_TOPIC_PREFIX` is put before every name. Read and Write include Describe, and Write includes "
    "the idempotent producer's right. A worker has the principal `worker-<worker>`."
)
USE_HEAD = ("Topic", "Read by", "Written by")
HEAD = ("Principal", "Resource", "Operations")
_ID = "WORKER-ID"
_SHOWN = "<worker>"


def uses() -> Iterator[tuple[str, str, str]]:
    """Yields a row for each topic: who reads it, and who writes it."""
    topics = Topics()
    for use in USES:
        yield f"`{getattr(topics, use.topic).name}`", ", ".join(use.read), ", ".join(use.write) or "admin"
    yield f"`{topics.device_prefix()}<worker>.<device>`", f"its {WORKER}, viewer", "scheduler"


def rows() -> Iterator[tuple[str, str, str]]:
    """Yields a row for each principal and resource, with its operations."""
    found: dict[tuple[str, str], list[Right]] = {}
    for right in rights(Topics(), [_ID]):
        star = "*" if right.prefixed else ""
        found.setdefault((right.principal, f"{right.kind} `{right.name}{star}`"), []).append(right)
    for (principal, resource), held in sorted(found.items()):
        operations = ", ".join(right.operation.value for right in held)
        shown = principal.replace(worker_principal(_ID), worker_principal("X").replace("X", _SHOWN))
        yield f"`{shown}`", resource.replace(_ID, _SHOWN), operations
