"""Who may do what with which topic: the table that the broker's ACLs are made from, and nothing beyond it.

A principal is one kind of program: each service, each worker, and the three kinds of clients. What the table
does not list is denied.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.topics import Topics

DISPATCHER, SCHEDULER, SUMMARY_INDEXER = "dispatcher", "scheduler", "summary-indexer"
CONSOLE, PUBLISHER, VIEWER, ADVISOR, ADMIN = "console", "publisher", "viewer", "advisor", "admin"
WORKER = "worker"
PRINCIPALS = (DISPATCHER, SCHEDULER, SUMMARY_INDEXER, CONSOLE, PUBLISHER, VIEWER, ADVISOR, ADMIN)
"""All principals but those of workers, which have one each: `worker-<worker id>`."""
CLUSTER_NAME = "kafka-cluster"
"""What Kafka calls the one resource of the kind `cluster`."""


class AclOperation(StrEnum):
    """What may be done with a resource, as Kafka's tools name it.

    Read and Write include Describe: a principal that may do one of them sees the topic and its offsets.
    """

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"


class ResourceKind(StrEnum):
    """The kinds of resources that rights are about."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One right of one principal; with `prefixed` it is for all resources whose name begins with `name`."""

    principal: str
    kind: ResourceKind
    name: str
    prefixed: bool
    operation: AclOperation


@dataclass(frozen=True, slots=True)
class TopicUse:
    """Who reads and who writes a topic, by its attribute of `Topics`; `worker` is all workers."""

    topic: str
    read: tuple[str, ...]
    write: tuple[str, ...]


USES = (
    TopicUse("commands", (DISPATCHER, VIEWER), (PUBLISHER, CONSOLE, SUMMARY_INDEXER)),
    TopicUse(
        "events",
        (DISPATCHER, SCHEDULER, SUMMARY_INDEXER, CONSOLE, PUBLISHER, VIEWER),
        (DISPATCHER, SCHEDULER, SUMMARY_INDEXER, WORKER),
    ),
    TopicUse(
        "fleet",
        (DISPATCHER, SCHEDULER, SUMMARY_INDEXER, CONSOLE, PUBLISHER, VIEWER, WORKER),
        (SCHEDULER, WORKER),
    ),
    TopicUse("heartbeats", (SCHEDULER, VIEWER), (SCHEDULER, WORKER)),
    TopicUse("metrics", (SUMMARY_INDEXER, VIEWER), (WORKER, SUMMARY_INDEXER)),
    TopicUse("logs", (CONSOLE, VIEWER), (WORKER,)),
    TopicUse("dead_letters", (SUMMARY_INDEXER, VIEWER), (DISPATCHER, SUMMARY_INDEXER)),
    TopicUse("imports", (VIEWER,), ()),
    TopicUse("suggestion_requests", (ADVISOR,), (DISPATCHER,)),
    TopicUse("suggestions", (DISPATCHER,), (ADVISOR,)),
    TopicUse("assessment_requests", (ADVISOR,), (DISPATCHER,)),
    TopicUse("assessments", (DISPATCHER,), (ADVISOR,)),
)
"""The table. The publisher reads events because the answer to its command is one, and the fleet to say
that no worker can run what it publishes. Who writes rows or a journal reads the log's id in the fleet."""
CHECKING = frozenset({DISPATCHER, SCHEDULER, SUMMARY_INDEXER, WORKER, VIEWER})
"""Those that compare the settings of topics with what is expected before they use them."""
ADMIN_OPERATIONS = (
    AclOperation.CREATE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.DELETE,
    AclOperation.READ,
    AclOperation.WRITE,
)
"""For the set-up, `replay import` and restored backups, for which records are deleted, too."""


def worker_principal(worker_id: str) -> str:
    """Returns the principal of a worker; raises ValueError if no prefix can hold it to its own topics."""
    if not is_identifier(worker_id) or "." in worker_id:
        raise ValueError(
            f"worker {worker_id!r} can't have rights of its own: expected letters, digits, '_' and '-'; with "
            "a dot in it, its topics could be those of a device of another worker"
        )
    return f"{WORKER}-{worker_id}"


def rights(topics: Topics, workers: Sequence[str] = (), receipts: Sequence[str] = ()) -> tuple[Right, ...]:
    """Returns the rights of all principals, sorted: those of the services, of clients, and of these workers.

    `receipts` are the topics that the dispatcher may send receipts to and publishers read. Raises ValueError
    for the id of a worker that can have none.
    """
    found = set(_shared(topics, workers))
    for worker_id in workers:
        found |= set(_device(topics, worker_id))
    every_device = topics.device_prefix()
    found |= {
        Right(SCHEDULER, ResourceKind.TOPIC, every_device, True, AclOperation.WRITE),
        Right(VIEWER, ResourceKind.TOPIC, every_device, True, AclOperation.READ),
        Right(VIEWER, ResourceKind.TOPIC, every_device, True, AclOperation.DESCRIBE_CONFIGS),
    }
    for name in receipts:
        found.add(Right(DISPATCHER, ResourceKind.TOPIC, name, False, AclOperation.WRITE))
        found.add(Right(PUBLISHER, ResourceKind.TOPIC, name, False, AclOperation.READ))
    found |= set(_groups(topics)) | set(_admin(topics))
    return tuple(sorted(found))


def rights_of(principal: str, topics: Topics) -> tuple[Right, ...]:
    """Returns the rights of one principal, without receipts; none for a worker that can have none."""
    worker_id = principal.removeprefix(f"{WORKER}-")
    try:
        found = rights(topics, [] if worker_id == principal else [worker_id])
    except ValueError:
        return ()
    return tuple(right for right in found if right.principal == principal)


def _shared(topics: Topics, workers: Sequence[str]) -> Iterator[Right]:
    for use in USES:
        name = getattr(topics, use.topic).name
        for role in {*use.read, *use.write}:
            operations = [
                *([AclOperation.READ] if role in use.read else []),
                *([AclOperation.WRITE] if role in use.write else []),
                *([AclOperation.DESCRIBE_CONFIGS] if role in CHECKING else []),
            ]
            for principal in map(worker_principal, workers) if role == WORKER else (role,):
                for operation in operations:
                    yield Right(principal, ResourceKind.TOPIC, name, False, operation)


def _device(topics: Topics, worker_id: str) -> Iterator[Right]:
    """Yields the rights to a worker's device topics, which it creates itself."""
    for operation in (AclOperation.CREATE, AclOperation.READ):
        yield Right(
            worker_principal(worker_id), ResourceKind.TOPIC, topics.device_prefix(worker_id), True, operation
        )


def _groups(topics: Topics) -> Iterator[Right]:
    yield Right(SUMMARY_INDEXER, ResourceKind.GROUP, topics.metrics_group, False, AclOperation.READ)
    for role in (PUBLISHER, ADVISOR):  # clients of other languages that can't read without a group
        for operation in (AclOperation.READ, AclOperation.DELETE):
            yield Right(role, ResourceKind.GROUP, topics.group_prefix(role), True, operation)


def _admin(topics: Topics) -> Iterator[Right]:
    for operation in ADMIN_OPERATIONS:
        yield Right(ADMIN, ResourceKind.TOPIC, topics.every_prefix, True, operation)
    for operation in (AclOperation.ALTER, AclOperation.DESCRIBE):  # to add ACLs, and to list them
        yield Right(ADMIN, ResourceKind.CLUSTER, CLUSTER_NAME, False, operation)
