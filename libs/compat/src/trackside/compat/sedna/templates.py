"""Templates of pods: what of them becomes parameters, needs and a program of a task."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic_core import PydanticCustomError

from trackside.compat.sedna.kinds import SednaContainer, SednaTemplate
from trackside.compat.sedna.left_out import NoteField
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.redaction import looks_secret
from trackside.contracts.tasks.artifacts import check_url

RUN = ("python", "-m", "trackside.compat.sedna")
"""What runs a script of Sedna as a task."""
RESERVED = {"round", "service"}
"""Parameters that the tasks of a job are given by it."""
_SECRET_WORDS = {
    "accesskey", "apikey", "credential", "credentials", "key", "keys", "passwd", "password", "pwd", "secret",
    "secrets", "token", "tokens",
}  # fmt: skip
_PYTHON = re.compile(r"(.*/)?python[0-9.]*")
_PLACEHOLDER = re.compile(r"\{\w+\}")
_GPU = "nvidia.com/gpu"
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(Ki|Mi|Gi|Ti|K|k|M|G|T|)")
_IS_SECRET = "it looks like a secret, which is not repeated; have it as a credential of the worker's host"


def is_secret(name: str, value: str) -> bool:
    """Returns whether a value must not be in a specification: by its name, its shape, or as a URL."""
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    if looks_secret(value) or (value and not _SECRET_WORDS.isdisjoint(words)):
        return True
    try:
        check_url(value)
    except PydanticCustomError:
        return True
    return False


def parameters_of(template: SednaTemplate, path: str, tell: NoteField) -> Json:
    """Returns the parameters of a task: the variables of the containers, as texts."""
    found: Json = {}
    for number, container in enumerate(template.spec.containers):
        for at, variable in enumerate(container.env):
            place = f"{path}.spec.containers[{number}].env[{at}]"
            if variable.model_extra:
                tell(place, f"{variable.name} has its value from {', '.join(variable.model_extra)}; "
                     "give the task a parameter, or the host of the worker a credential")  # fmt: skip
            elif is_secret(variable.name, variable.value):
                tell(place, f"{variable.name}: {_IS_SECRET}")
            elif variable.name in RESERVED:
                tell(place, f"{variable.name} is a parameter that the job gives; choose another name")
            else:
                found[variable.name] = variable.value
    return found


def needs_of(template: SednaTemplate, path: str, tell: NoteField) -> Json:
    """Returns what a task asks for: GPUs and memory, by the limits of its first container."""
    container = template.spec.containers[0]
    limits = container.resources.get("limits")
    asked: dict[str, Any] = limits if isinstance(limits, dict) else {}
    place = f"{path}.spec.containers[0].resources"
    resources: Json = {}
    for name, amount in asked.items():
        memory = _MEMORY.fullmatch(str(amount))
        if name == _GPU and str(amount).isdecimal() and int(amount) > 0:
            resources |= {"kind": "gpu", "devices": int(amount)}
        elif name == "memory" and memory is not None:
            unit = memory[2].upper()
            resources["estimate_memory"] = f"{memory[1]}{unit.replace('I', 'i')}{'B' if unit else ''}"
        else:
            tell(f"{place}.limits", f"{name}: a task takes devices and memory")
    for name in container.resources:
        if name != "limits":
            tell(f"{place}.{name}", "a task has one amount of each, here that of the limits")
    return {"resources": resources} if resources else {}


def program_of(template: SednaTemplate, path: str, tell: NoteField) -> list[str]:
    """Returns the program of a task, which runs the script of the first container; empty without one."""
    containers: Sequence[SednaContainer] = template.spec.containers
    for number in range(1, len(containers)):
        tell(f"{path}.spec.containers[{number}]", "a task has one program: that of the first container")
    items = [*containers[0].command, *containers[0].args]
    if not items:
        tell(f"{path}.spec.containers[0]", "it has no command: add what its image runs to catalogue.yaml")
        return []
    if any(is_secret("", each) for each in items):
        tell(f"{path}.spec.containers[0].args", f"the command: {_IS_SECRET}")
        return []
    if any(_PLACEHOLDER.search(each) for each in items):
        tell(f"{path}.spec.containers[0].args", "braces in a program are placeholders of catalogue.yaml")
        return []
    if _PYTHON.fullmatch(items[0]):
        items = items[1:]
    if not items or not items[0].endswith(".py"):
        return items
    script = items[0] if "/" in items[0] else f"./{items[0]}"
    return [*RUN, script, *items[1:]]
