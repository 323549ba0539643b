"""Fields of Sedna's documents that have no counterpart, and why."""

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel

from trackside.compat.sedna.documents import ReadDocument

CREDENTIAL = "sedna.io/credential"
"""The annotation that holds the login of a store."""
OF_THE_CLUSTER = frozenset(
    {
        "creationTimestamp", "deletionTimestamp", "finalizers", "generation", "managedFields",
        "ownerReferences", "resourceVersion", "selfLink", "uid",
    }
)  # fmt: skip
"""What Kubernetes itself writes into the metadata of a document; it is not listed."""
WHY = {
    "affinity": "a task goes to any worker of its queue: set needs.queue",
    "dnsPolicy": "a task has the network of the worker's host",
    "env": "it is given by parameters of the task",
    "hostNetwork": "a task has the network of the worker's host",
    "image": "a task runs in the environment of its worker: install what the image has there",
    "imagePullPolicy": "there is no image",
    "imagePullSecrets": "there is no image",
    "initContainers": "a task has one program; inputs are fetched before it starts",
    "labels": "ids and names are all that there is",
    "nodeName": "a task goes to any worker of its queue: set needs.queue, and queue of a dataset",
    "nodeSelector": "a task goes to any worker of its queue: set needs.queue",
    "restartPolicy": "set needs.retry; a service is started again without limit",
    "status": "its rounds are not taken over: the job begins with round 1 and all samples of its dataset",
    "tolerations": "a task goes to any worker of its queue: set needs.queue",
    "volumeMounts": "a task has the files of the worker's host, and its inputs",
    "volumes": "a task has the files of the worker's host, and its inputs",
}
NoteField = Callable[[str, str], None]
"""Takes the path of a field, and why it has no counterpart, or what it means here."""
NO_COUNTERPART = "it has no counterpart"


def reasons(document: ReadDocument) -> Iterator[tuple[str, str]]:
    """Yields the path of each field of a document that has no counterpart, and why."""
    yield from _of_annotations(document)
    yield from _of(document.content, "$")


def _of_annotations(document: ReadDocument) -> Iterator[tuple[str, str]]:
    for name in document.content.metadata.annotations or {}:
        why = NO_COUNTERPART
        if name == CREDENTIAL:
            why = "its value is not read: have a credential on the hosts of the workers, and name it"
        yield "$.metadata.annotations", f"{name}: {why}"


def _of(part: BaseModel, path: str) -> Iterator[tuple[str, str]]:
    for name in part.model_extra or {}:
        of_the_cluster = path == "$.metadata" and name in OF_THE_CLUSTER
        if not of_the_cluster and name != "valueFrom":  # templates lists that one with its variable
            yield f"{path}.{name}", WHY.get(name, NO_COUNTERPART)
    for name, field in type(part).model_fields.items():
        yield from _within(getattr(part, name), f"{path}.{field.alias or name}")


def _within(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, BaseModel):
        yield from _of(value, path)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _within(each, f"{path}[{at}]")
